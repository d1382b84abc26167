//! Channels and open files, and the one decision that matters: which bytes a channel sends next. No I/O but the reading of files.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ferry_sftp::{Channel, Handle, Reply, Request, StatusCode};

use super::flow::{self, Flow, MOST, MOST_OF_SEVERAL};
use super::open_file::{Direction, Down, OpenFile, ReplySender, Up, broken, read_refused};
use super::span;
use super::{AHEAD, nonsense, refused};
use crate::error::Error;
use crate::ssh::ReadRoom;

/// The bytes of a slow packet that show that it comes: at 1 kB/s a packet of 32 KiB takes longer than a silence may last.
const NOTICED: usize = 1024;
/// The most READs in one piece of output.
const READS_AT_ONCE: usize = 64;
/// The most READs and WRITEs that wait for an answer on one channel: far above the needs of any window, far below the number that
/// ids tell apart.
const MOST_IN_FLIGHT: usize = 1 << 16;

pub struct State {
    pub channels: Vec<OpenChannel>,
    /// The open files in the order in which they were begun, which is the order in which they are served.
    pub open_files: BTreeMap<u64, OpenFile>,
    pub next_file: u64,
    pub request: Sizes,
    pub limit: Option<u64>,
    pub rtt: Duration,
    pub least_rtt: Duration,
    /// The round trip before anything was sent.
    pub idle_rtt: Duration,
    /// The time of the server's last data.
    pub last_activity: Instant,
    /// The last time that the server's machine acknowledged more of the sent bytes, or a piece of an answer came.
    pub last_moved: Instant,
    /// Bytes that have come off the socket since then.
    pub unnoticed: usize,
    /// The number of awaited answers that may take their time.
    pub patient: usize,
    pub failure: Option<Error>,
    /// The bytes off the socket that are not decoded yet, and the part of them that is not given to SSH yet.
    pub undecoded: usize,
    pub spilled: usize,
}

#[derive(Clone, Copy)]
pub struct Sizes {
    pub read: u32,
    pub write: u32,
}

pub struct OpenChannel {
    /// The number of its connection, and the channel's number there.
    pub address: (usize, u32),
    pub channel: Channel<Context>,
    /// Requests encoded and not yet handed to the writer.
    pub control: Vec<u8>,
    /// The bytes in flight of READs.
    pub in_flight: u64,
    pub flow: Flow,
}

pub enum Context {
    Call(ReplySender),
    Read { file: u64, offset: u64, length: u32 },
    Write { file: u64, offset: u64, length: u32 },
    Forget,
}

/// A silence of a server that owes answers.
pub struct Silence {
    pub since: Instant,
    /// True if the server has spoken SFTP before.
    pub ever: bool,
    /// True if the awaited answers may take their time.
    pub patient: bool,
}

/// The next step of a channel's writer.
pub enum Output {
    Bytes(Bytes),
    /// The last piece of an upload.
    Last(Bytes, u64),
    /// Wait until woken, or until this time.
    Wait(Option<Instant>),
    Stop,
}

impl State {
    /// The next step of a channel's writer; `Err` is a file that is over, and its result.
    pub fn output(&mut self, index: usize, now: Instant) -> Result<Output, (u64, Result<(), Error>)> {
        let Some(channel) = self.channels.get_mut(index) else {
            return Ok(Output::Stop);
        };
        let control = std::mem::take(&mut channel.control);
        if !control.is_empty() {
            return Ok(Output::Bytes(control.into()));
        }
        let mut reads = Vec::new();
        let mut wait: Option<Instant> = None;
        let room = self.request_room();
        let Self {
            channels,
            open_files,
            request,
            limit,
            ..
        } = self;
        let channels_open = channels.len() as u64;
        let Some(channel) = channels.get_mut(index) else {
            return Ok(Output::Stop);
        };
        let share = channel.flow.budget(channels_open);
        let mut room = room.min(share.saturating_sub(channel.in_flight));
        let piece = limit.map_or_else(
            || flow::read_bytes(share, request.read),
            |rate| step(rate, request.read),
        );
        let mut count = 0;
        for (id, file) in open_files.iter_mut() {
            let OpenFile {
                path: _,
                home,
                handles,
                direction,
                done: _,
            } = file;
            let Some((_, handle)) = handles.iter().find(|(on, _)| *on == index) else {
                continue;
            };
            match direction {
                Direction::Down(down) => {
                    // A part missing from a short answer had room when it was first asked for. Data that came early behind it
                    // takes up the room until the part is there, and the room may have become smaller than that.
                    while (room > 0 || down.reads.has_gap())
                        && count < READS_AT_ONCE
                        && channel.channel.in_flight() < MOST_IN_FLIGHT
                        && down.reads.in_flight() < down.ahead
                    {
                        let Some((offset, length)) = down.reads.next(piece) else {
                            down.all_asked = true;
                            break;
                        };
                        let context = Context::Read {
                            file: *id,
                            offset,
                            length,
                        };
                        let read = Request::Read { handle, offset, length };
                        channel.channel.request(&read, context, &mut reads);
                        channel.in_flight += u64::from(length);
                        room = room.saturating_sub(length.into());
                        count += 1;
                    }
                    if down.all_asked
                        && *home == index
                        && let Some(sender) = down.trailer.take()
                    {
                        let fstat = Request::Fstat { handle };
                        channel.channel.request(&fstat, Context::Call(sender), &mut reads);
                    }
                }
                Direction::Up(up) => {
                    if !reads.is_empty() {
                        break;
                    }
                    if let Some(output) =
                        write(channel, *id, handle, up, request.write, now).map_err(|problem| (*id, Err(problem)))?
                    {
                        return Ok(output);
                    }
                    // A stream's end is known only by asking for more.
                    if up.try_finish(now) {
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

    /// The silence since anything last moved; `None` while nothing is asked for, or while a limit holds back received bytes.
    pub fn silence(&self) -> Option<Silence> {
        let mut since = self.last_activity.max(self.last_moved);
        for file in self.open_files.values() {
            if let Direction::Down(down) = &file.direction {
                if down.receiver.is_held_back() {
                    return None;
                }
                since = since.max(down.receiver.last_moved().unwrap_or(since));
            }
        }
        let asked = self.channels.iter().any(|channel| channel.channel.in_flight() > 0);
        asked.then(|| Silence {
            since,
            ever: self
                .channels
                .iter()
                .any(|channel| channel.channel.extensions().is_some()),
            patient: self.patient > 0,
        })
    }

    /// The download to which everything on the connection belongs, if it has a limit of its own.
    fn paced(&mut self) -> Option<&mut Down> {
        let mut open_files = self.open_files.values_mut();
        match (open_files.next().map(|file| &mut file.direction), open_files.next()) {
            (Some(Direction::Down(down)), None) if down.receiver.paces_reads() => Some(down),
            _ => None,
        }
    }

    /// The amount that may be read from a connection's socket now.
    pub fn read_room(&mut self, connection: usize, now: Instant) -> ReadRoom {
        let alone = self.channels.iter().all(|channel| channel.address.0 == connection);
        if let Some(down) = self.paced().filter(|_| alone) {
            return match down.receiver.read_budget(true, now) {
                0 => ReadRoom::NotBefore(down.receiver.next_at().unwrap_or(now)),
                count => ReadRoom::Bytes(count),
            };
        }
        for file in self.open_files.values_mut() {
            if let Direction::Down(down) = &mut file.direction {
                let _ = down.receiver.read_budget(false, now);
            }
        }
        ReadRoom::All
    }

    pub fn was_read(&mut self, bytes: usize, spilled: usize, now: Instant) {
        self.undecoded += bytes;
        // A server that only keeps the connection alive says less than `NOTICED`.
        self.unnoticed += bytes;
        if self.unnoticed >= NOTICED {
            self.unnoticed = 0;
            self.last_moved = now;
        }
        self.spilled = spilled;
        if bytes > 0 {
            self.count_read(now);
        }
    }

    /// Notes that SSH has decoded all bytes that it was given.
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

    fn several_connections(&self) -> bool {
        let mut connections = self.channels.iter().map(|channel| channel.address.0);
        let first = connections.next();
        connections.any(|connection| Some(connection) != first)
    }

    /// The number of further bytes that may be asked for.
    fn request_room(&self) -> u64 {
        let pending: u64 = self
            .open_files
            .values()
            .map(|file| match &file.direction {
                Direction::Down(down) => down.pending(),
                Direction::Up(_) => 0,
            })
            .sum();
        let budget = match self.limit {
            // Data that came early waits in local memory, and not in a server.
            None if self.several_connections() => MOST_OF_SEVERAL,
            None => MOST,
            Some(rate) => {
                // The bytes that the limit lets through while an answer is on its way.
                let ahead = (self.rtt + AHEAD).as_micros().saturating_mul(rate.into()) / 1_000_000;
                let least = 2 * u64::from(step(rate, self.request.read));
                u64::try_from(ahead).unwrap_or(MOST).clamp(least, MOST)
            }
        };
        budget.saturating_sub(pending)
    }
}

/// The length of a limited download's READs: 10 ms of its rate, so that the server's answers come as evenly as they are wanted.
fn step(rate: u64, largest: u32) -> u32 {
    u32::try_from(rate / 100)
        .unwrap_or(u32::MAX)
        .clamp(4096.min(largest), largest)
}

/// Encodes one WRITE: the next piece of the file, as large as allowed.
fn write(
    channel: &mut OpenChannel,
    id: u64,
    handle: &Handle,
    up: &mut Up,
    largest: u32,
    now: Instant,
) -> Result<Option<Output>, Error> {
    if up.sender.exhausted || channel.channel.in_flight() >= MOST_IN_FLIGHT || !span::may_send(&up.writes, largest) {
        return Ok(None);
    }
    // The header's length is known at once, its content only with the piece.
    let header = WRITE_HEADER + handle.as_bytes().len();
    let mut packet = Vec::with_capacity(header + largest as usize);
    packet.resize(header, 0);
    let last = up.sender.fill(now, largest as usize, &mut packet)?;
    let length = u32::try_from(packet.len() - header).unwrap_or(u32::MAX);
    if length == 0 {
        return Ok(None);
    }
    // Another run may have taken this partial file over (`partial`), and may publish it while this WRITE is on its way.
    up.sender.source.check_unchanged()?;
    let offset = up.writes.sent_to();
    up.writes.sent(offset, length);
    let mut head = Vec::with_capacity(header);
    let context = Context::Write {
        file: id,
        offset,
        length,
    };
    channel.channel.write_header(handle, offset, length, context, &mut head);
    packet.iter_mut().zip(head).for_each(|(to, from)| *to = from);
    let packet = Bytes::from(packet);
    Ok(Some(if last {
        Output::Last(packet, id)
    } else {
        Output::Bytes(packet)
    }))
}

/// Length, type, id, length of the handle; offset, length of the data.
const WRITE_HEADER: usize = 4 + 1 + 4 + 4 + 8 + 4;

/// Takes an answer that is complete. Returns the file that is over by it, if any.
pub fn answer(
    context: Context,
    reply: Reply,
    open_files: &mut BTreeMap<u64, OpenFile>,
    in_flight: &mut u64,
    now: Instant,
) -> Option<(u64, Result<(), Error>)> {
    let (id, result) = match context {
        Context::Forget => return None,
        Context::Call(sender) => {
            let _ = sender.send(Ok(reply));
            return None;
        }
        Context::Read {
            file: id,
            offset,
            length,
        } => {
            *in_flight = in_flight.saturating_sub(length.into());
            let file = open_files.get_mut(&id)?;
            let Direction::Down(down) = &mut file.direction else {
                return None;
            };
            let result = match reply {
                Reply::Data { length: got } => down
                    .reads
                    .arrived(offset, length, got)
                    .map_err(|error| broken(&file.path, &error)),
                Reply::Status(status) => read_refused(down, &file.path, offset, length, &status),
                _ => Err(nonsense("READ", &file.path)),
            };
            (id, result.map(|()| down.try_finish(now)))
        }
        Context::Write {
            file: id,
            offset,
            length,
        } => {
            let file = open_files.get_mut(&id)?;
            let Direction::Up(up) = &mut file.direction else {
                return None;
            };
            let result = match reply {
                Reply::Status(status) if status.code == StatusCode::Ok => up
                    .writes
                    .acknowledged(offset, length)
                    .map_err(|error| broken(&file.path, &error)),
                Reply::Status(status) => Err(refused("write to", &file.path, &status)),
                _ => Err(nonsense("WRITE", &file.path)),
            };
            (id, result.map(|()| up.try_finish(now)))
        }
    };
    match result {
        Ok(false) => None,
        Ok(true) => Some((id, Ok(()))),
        Err(problem) => Some((id, Err(problem))),
    }
}
