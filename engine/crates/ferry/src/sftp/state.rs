//! What channels and bodies there are, and the one decision that matters: which bytes a channel sends next. No I/O but the reading of files.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferry_sftp::{Channel, Handle, Reply, Request, StatusCode};

use super::body::{Body, Down, Up, Way, broken, read_refused};
use super::core::Asker;
use super::flow::{Flow, MOST};
use super::span;
use super::{AHEAD, nonsense, refused};
use crate::report::Problem;
use crate::ssh::ReadRoom;

/// READs put into one piece of output.
const READS_AT_ONCE: usize = 64;
/// READs and WRITEs that wait for an answer on one channel: far above what any window needs, far below what an id can tell apart.
const MOST_IN_FLIGHT: usize = 1 << 16;

pub struct State {
    pub lanes: Vec<Lane>,
    /// In the order in which they were begun, which is the order in which they are served.
    pub bodies: BTreeMap<u64, Body>,
    pub next_body: u64,
    pub request: Sizes,
    pub limit: Option<u64>,
    pub rtt: Duration,
    pub least_rtt: Duration,
    /// Before anything was sent.
    pub idle_rtt: Duration,
    pub flow: Flow,
    /// When the server last said anything.
    pub heard: Instant,
    pub failure: Option<Problem>,
    /// Of what has come off the socket: not decoded yet, and not given to SSH yet.
    pub undecoded: usize,
    pub spilled: usize,
}

#[derive(Clone, Copy)]
pub struct Sizes {
    pub read: u32,
    pub write: u32,
}

pub struct Lane {
    /// Of the connection it belongs to, and the channel's number there.
    pub address: (usize, u32),
    pub channel: Channel<Context>,
    /// Encoded and not yet handed to the writer.
    pub control: Vec<u8>,
    /// Of READs.
    pub in_flight: u64,
}

pub enum Context {
    Call(Asker),
    Read { body: u64, offset: u64, length: u32 },
    Write { body: u64, offset: u64, length: u32 },
    Forget,
}

/// What a channel's writer does next.
pub enum Output {
    Bytes(Bytes),
    /// The last piece of an upload's body.
    Last(Bytes, u64),
    /// Until it is woken, or until then.
    Wait(Option<Instant>),
    Stop,
}

impl State {
    /// `Err` is a body that is over.
    pub fn output(&mut self, index: usize, now: Instant) -> Result<Output, (u64, Result<(), Problem>)> {
        let control = std::mem::take(&mut self.lanes[index].control);
        if !control.is_empty() {
            return Ok(Output::Bytes(control.into()));
        }
        let mut reads = Vec::new();
        let mut wait: Option<Instant> = None;
        let room = self.request_room();
        let Self {
            lanes,
            bodies,
            request,
            limit,
            flow,
            ..
        } = self;
        let lanes_open = lanes.len() as u64;
        let lane = &mut lanes[index];
        // Of several channels none may ask for everything.
        let share = flow.budget() / lanes_open;
        let mut room = room.min(share.saturating_sub(lane.in_flight));
        let piece = limit.map_or(request.read, |rate| step(rate, request.read));
        let mut count = 0;
        for (id, body) in bodies.iter_mut() {
            let Body {
                path: _,
                home,
                handles,
                way,
                done: _,
            } = body;
            let Some((_, handle)) = handles.iter().find(|(on, _)| *on == index) else {
                continue;
            };
            match way {
                Way::Down(down) => {
                    while room > 0
                        && count < READS_AT_ONCE
                        && lane.channel.in_flight() < MOST_IN_FLIGHT
                        && down.reads.in_flight() < down.ahead
                    {
                        let Some((offset, length)) = down.reads.next(piece) else {
                            down.all_asked = true;
                            break;
                        };
                        let context = Context::Read {
                            body: *id,
                            offset,
                            length,
                        };
                        let read = Request::Read { handle, offset, length };
                        lane.channel.request(&read, context, &mut reads);
                        lane.in_flight += u64::from(length);
                        room = room.saturating_sub(length.into());
                        count += 1;
                    }
                    if down.all_asked
                        && *home == index
                        && let Some(sender) = down.trailer.take()
                    {
                        let fstat = Request::Fstat { handle };
                        lane.channel.request(&fstat, Context::Call(sender), &mut reads);
                    }
                }
                Way::Up(up) => {
                    if !reads.is_empty() {
                        break;
                    }
                    if let Some(output) =
                        write(lane, *id, handle, up, request.write, now).map_err(|problem| (*id, Err(problem)))?
                    {
                        return Ok(output);
                    }
                    // A stream's end is known only by asking for more.
                    if up.settle(now) {
                        return Err((*id, Ok(())));
                    }
                    if let Some(at) = up.sender.next_at() {
                        wait = Some(wait.map_or(at, |first| first.min(at)));
                    }
                }
            }
        }
        if reads.is_empty() {
            Ok(Output::Wait(wait))
        } else {
            Ok(Output::Bytes(reads.into()))
        }
    }

    /// The download that everything on the connection belongs to, if its limit is its own.
    fn paced(&mut self) -> Option<&mut Down> {
        let mut bodies = self.bodies.values_mut();
        match (bodies.next().map(|body| &mut body.way), bodies.next()) {
            (Some(Way::Down(down)), None) if down.receiver.paces_reads() => Some(down),
            _ => None,
        }
    }

    /// How much of a connection's socket may be read now.
    pub fn read_room(&mut self, connection: usize, now: Instant) -> ReadRoom {
        let alone = self.lanes.iter().all(|lane| lane.address.0 == connection);
        if let Some(down) = self.paced().filter(|_| alone) {
            return match down.receiver.appetite(true, now) {
                0 => ReadRoom::NotBefore(down.receiver.next_at().unwrap_or(now)),
                count => ReadRoom::Bytes(count),
            };
        }
        for body in self.bodies.values_mut() {
            if let Way::Down(down) = &mut body.way {
                let _ = down.receiver.appetite(false, now);
            }
        }
        ReadRoom::All
    }

    pub fn was_read(&mut self, bytes: usize, spilled: usize, now: Instant) {
        self.undecoded += bytes;
        self.spilled = spilled;
        if bytes > 0 {
            self.count_read(now);
        }
    }

    /// SSH has decoded all that it was given.
    pub fn decoded(&mut self, now: Instant) {
        self.undecoded = self.spilled;
        self.count_read(now);
    }

    fn count_read(&mut self, now: Instant) {
        let undecoded = self.undecoded;
        if let Some(down) = self.paced() {
            down.receiver.read_off(undecoded + down.early_bytes(), now);
        }
    }

    /// How much more may be asked for.
    fn request_room(&self) -> u64 {
        let pending: u64 = self
            .bodies
            .values()
            .map(|body| match &body.way {
                Way::Down(down) => down.pending(),
                Way::Up(_) => 0,
            })
            .sum();
        let budget = match self.limit {
            None => self.flow.budget(),
            Some(rate) => {
                // What the limit lets through while an answer is on its way.
                let ahead = (self.rtt + AHEAD).as_micros().saturating_mul(rate.into()) / 1_000_000;
                let least = 2 * u64::from(step(rate, self.request.read));
                u64::try_from(ahead).unwrap_or(MOST).clamp(least, MOST)
            }
        };
        budget.saturating_sub(pending)
    }
}

/// The READs of a limited download: 10 ms of it, so that the server's answers come as evenly as they are wanted.
fn step(rate: u64, largest: u32) -> u32 {
    u32::try_from(rate / 100)
        .unwrap_or(u32::MAX)
        .clamp(4096.min(largest), largest)
}

/// One WRITE: the next piece of the body, as large as may be.
fn write(
    lane: &mut Lane,
    id: u64,
    handle: &Handle,
    up: &mut Up,
    largest: u32,
    now: Instant,
) -> Result<Option<Output>, Problem> {
    if up.sender.exhausted || lane.channel.in_flight() >= MOST_IN_FLIGHT || !span::may_send(&up.writes, largest) {
        return Ok(None);
    }
    // The header's length is known, its content only when the piece is.
    let header = WRITE_HEADER + handle.as_bytes().len();
    let mut packet = Vec::with_capacity(header + largest as usize);
    packet.resize(header, 0);
    let last = up.sender.fill(now, largest as usize, &mut packet)?;
    let length = u32::try_from(packet.len() - header).unwrap_or(u32::MAX);
    if length == 0 {
        return Ok(None);
    }
    let offset = up.writes.sent_to();
    up.writes.sent(offset, length);
    let mut head = Vec::with_capacity(header);
    let context = Context::Write {
        body: id,
        offset,
        length,
    };
    lane.channel.write_header(handle, offset, length, context, &mut head);
    packet[..header].copy_from_slice(&head);
    let packet = Bytes::from(packet);
    Ok(Some(if last {
        Output::Last(packet, id)
    } else {
        Output::Bytes(packet)
    }))
}

/// Length, type, id, length of the handle; offset, length of the data.
const WRITE_HEADER: usize = 4 + 1 + 4 + 4 + 8 + 4;

/// An answer that is complete. Returns a body that is over by it.
pub fn answer(
    context: Context,
    reply: Reply,
    bodies: &mut BTreeMap<u64, Body>,
    in_flight: &mut u64,
    now: Instant,
) -> Option<(u64, Result<(), Problem>)> {
    let (id, result) = match context {
        Context::Forget => return None,
        Context::Call(sender) => {
            let _ = sender.send(Ok(reply));
            return None;
        }
        Context::Read {
            body: id,
            offset,
            length,
        } => {
            *in_flight = in_flight.saturating_sub(length.into());
            let body = bodies.get_mut(&id)?;
            let Way::Down(down) = &mut body.way else { return None };
            let result = match reply {
                Reply::Data { length: got } => down
                    .reads
                    .arrived(offset, length, got)
                    .map_err(|error| broken(&body.path, &error)),
                Reply::Status(status) => read_refused(down, &body.path, offset, length, &status),
                _ => Err(nonsense("READ", &body.path)),
            };
            (id, result.map(|()| down.settle(now)))
        }
        Context::Write {
            body: id,
            offset,
            length,
        } => {
            let body = bodies.get_mut(&id)?;
            let Way::Up(up) = &mut body.way else { return None };
            let result = match reply {
                Reply::Status(status) if status.code == StatusCode::Ok => up
                    .writes
                    .acknowledged(offset, length)
                    .map_err(|error| broken(&body.path, &error)),
                Reply::Status(status) => Err(refused("write to", &body.path, &status)),
                _ => Err(nonsense("WRITE", &body.path)),
            };
            (id, result.map(|()| up.settle(now)))
        }
    };
    match result {
        Ok(false) => None,
        Ok(true) => Some((id, Ok(()))),
        Err(problem) => Some((id, Err(problem))),
    }
}
