//! Channels and bodies behind one lock, as the connection's handler, the channels' writers and the files' tasks see them.
//!
//! Everything runs on one thread, so the lock is never waited for; it is there because russh's handler must be `Send`.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferry_sftp::{Channel, Event, FeedError, Handle, Limits, Reply, Request};
use tokio::sync::{Notify, oneshot, watch};

use super::body::{Body, Way};
use super::flow::Flow;
use super::state::{Context, Lane, Output, Sizes, State, answer};
use crate::report::Problem;
use crate::ssh::ReadRoom;
use crate::transfer::throttle::Limit;

/// Every server takes that (draft-ietf-secsh-filexfer-02, section 3: packets of 34,000 bytes).
const SAFE_REQUEST: u32 = 32 * 1024;
/// OpenSSH's own maximum; more gains nothing.
pub const LARGEST_REQUEST: u32 = 255 * 1024;
/// A server that says less means something else, or wants a request for every byte.
const LEAST_REQUEST: u32 = 1024;

pub type Shared = Arc<Core>;
/// Who waits for an answer, or for the reason why there is none.
pub type Asker = oneshot::Sender<Result<Reply, Problem>>;

pub struct Core {
    state: Mutex<State>,
    /// One per lane: there may be something to send.
    wakes: Mutex<Vec<Arc<Notify>>>,
    /// A limited download has got something, or its deadline has changed.
    pub pump: Notify,
    count: watch::Sender<usize>,
}

impl Core {
    pub fn new(limit: &Limit, rtt: Duration) -> Self {
        Self {
            state: Mutex::new(State {
                lanes: Vec::new(),
                bodies: BTreeMap::new(),
                next_body: 0,
                request: Sizes {
                    read: SAFE_REQUEST,
                    write: SAFE_REQUEST,
                },
                limit: limit.rate().map(ferry_pacing::Rate::byte_s),
                rtt,
                least_rtt: Duration::ZERO,
                idle_rtt: rtt,
                flow: Flow::new(Instant::now()),
                heard: Instant::now(),
                failure: None,
                undecoded: 0,
                spilled: 0,
            }),
            wakes: Mutex::new(Vec::new()),
            pump: Notify::new(),
            count: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wakes(&self) -> MutexGuard<'_, Vec<Arc<Notify>>> {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wake(&self, lane: usize) {
        if let Some(notify) = self.wakes().get(lane) {
            notify.notify_one();
        }
    }

    pub fn wake_all(&self) {
        for notify in self.wakes().iter() {
            notify.notify_one();
        }
    }

    /// A channel on which the subsystem runs; the returned notice is its writer's. INIT is its first output.
    pub fn add_lane(&self, connection: usize, channel: u32) -> (usize, Arc<Notify>) {
        let mut state = self.lock();
        let mut lane = Lane {
            address: (connection, channel),
            channel: Channel::new(),
            control: Vec::new(),
            in_flight: 0,
        };
        lane.channel.hello(&mut lane.control);
        if state.lanes.is_empty() {
            state.heard = Instant::now();
        }
        state.lanes.push(lane);
        let notify = Arc::new(Notify::new());
        notify.notify_one();
        self.wakes().push(Arc::clone(&notify));
        let count = state.lanes.len();
        drop(state);
        self.count.send_replace(count);
        (count - 1, notify)
    }

    pub fn connections(&self) -> usize {
        let state = self.lock();
        let mut found: Vec<_> = state.lanes.iter().map(|lane| lane.address.0).collect();
        found.sort_unstable();
        found.dedup();
        found.len()
    }

    pub fn watch_lanes(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// Encoded at once, so that what is called one after the other leaves in one flight; the answer is waited for by who needs it.
    pub fn call(&self, lane: usize, request: &Request<'_>) -> impl Future<Output = Result<Reply, Problem>> + use<> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        let failure = state.failure.clone();
        if failure.is_none() {
            let lane = &mut state.lanes[lane];
            lane.channel.request(request, Context::Call(sender), &mut lane.control);
        }
        drop(state);
        self.wake(lane);
        async move {
            match failure {
                Some(problem) => Err(problem),
                // Its channel has gone with it.
                None => receiver.await.unwrap_or_else(|_| Err(lost())),
            }
        }
    }

    /// A request whose answer nobody needs.
    pub fn post(&self, lane: usize, request: &Request<'_>) {
        let mut state = self.lock();
        if state.failure.is_some() {
            return;
        }
        let lane_state = &mut state.lanes[lane];
        lane_state
            .channel
            .request(request, Context::Forget, &mut lane_state.control);
        drop(state);
        self.wake(lane);
    }

    /// Whether the server has named an extension in its VERSION.
    pub fn has(&self, lane: usize, extension: &str) -> bool {
        let state = self.lock();
        state.lanes[lane]
            .channel
            .extensions()
            .is_some_and(|extensions| extensions.has(extension))
    }

    /// What limits@openssh.com said; 0 is "not told"; less than what every server takes is believed, down to 1 KiB.
    pub fn set_limits(&self, limits: &Limits) {
        let clamp = |told: u64| match u32::try_from(told) {
            Ok(0) => SAFE_REQUEST,
            Ok(told) => told.clamp(LEAST_REQUEST, LARGEST_REQUEST),
            Err(_) => LARGEST_REQUEST,
        };
        let mut state = self.lock();
        state.request = Sizes {
            read: clamp(limits.read),
            write: clamp(limits.write),
        };
    }

    pub fn begin(&self, body: Body) -> u64 {
        let mut state = self.lock();
        if let Some(problem) = state.failure.clone() {
            drop(state);
            body.end(Err(problem));
            return u64::MAX;
        }
        let id = state.next_body;
        state.next_body += 1;
        state.bodies.insert(id, body);
        drop(state);
        self.wake_all();
        id
    }

    /// The file is open on one more channel.
    pub fn add_handle(&self, id: u64, lane: usize, handle: Handle) {
        let mut state = self.lock();
        if let Some(body) = state.bodies.get_mut(&id) {
            body.handles.push((lane, handle));
        } else {
            // Over before it could help.
            let lane = &mut state.lanes[lane];
            let close = Request::Close { handle: &handle };
            lane.channel.request(&close, Context::Forget, &mut lane.control);
        }
        drop(state);
        self.wake(lane);
    }

    /// Bytes of begun files that have not been asked for or sent.
    pub fn backlog(&self) -> u64 {
        let state = self.lock();
        state
            .bodies
            .values()
            .map(|body| match &body.way {
                Way::Down(down) => down
                    .reads
                    .size()
                    .map_or(0, |size| size.saturating_sub(down.next).saturating_sub(down.pending())),
                Way::Up(up) => up.sender.size.map_or(0, |size| size.saturating_sub(up.sender.given)),
            })
            .sum()
    }

    /// What TCP says; never less than what SSH's own handshake took.
    pub fn set_rtt(&self, rtt: Duration) {
        let mut state = self.lock();
        state.rtt = rtt.max(state.least_rtt);
    }

    pub fn set_least_rtt(&self, rtt: Duration) {
        let mut state = self.lock();
        state.least_rtt = rtt;
        state.rtt = state.rtt.max(rtt);
        state.idle_rtt = state.idle_rtt.max(rtt);
    }

    /// Of the path while nothing was on it.
    pub fn idle_rtt(&self) -> Duration {
        self.lock().idle_rtt
    }

    /// Since when nothing has come although something was asked for, and whether anything ever has; null while nothing is.
    pub fn silent_since(&self) -> Option<(Instant, bool)> {
        let state = self.lock();
        let asked = state.lanes.iter().any(|lane| lane.channel.in_flight() > 0);
        let ever = state.lanes.iter().any(|lane| lane.channel.extensions().is_some());
        asked.then_some((state.heard, ever))
    }

    /// When the server last said anything.
    pub fn heard(&self) -> Instant {
        self.lock().heard
    }

    /// Bytes of a body's attempt so far.
    pub fn progress(&self, id: u64) -> u64 {
        self.lock().bodies.get(&id).map_or(0, |body| match &body.way {
            Way::Down(down) => down.receiver.delivered,
            Way::Up(up) => up.sender.given,
        })
    }

    /// The last byte of this upload has left the machine.
    pub fn left(&self, id: u64, now: Instant) {
        if let Some(Body { way: Way::Up(up), .. }) = self.lock().bodies.get_mut(&id) {
            up.sender.left(now);
        }
    }

    /// Whether it is still waited for that the last byte of this upload leaves.
    pub fn is_leaving(&self, id: u64) -> bool {
        self.lock()
            .bodies
            .get(&id)
            .is_some_and(|body| matches!(&body.way, Way::Up(up) if up.sender.ended.is_none()))
    }

    /// The connection is of no more use.
    pub fn fail(&self, problem: &Problem) {
        let mut state = self.lock();
        if state.failure.is_some() {
            return;
        }
        state.failure = Some(problem.clone());
        for lane in &mut state.lanes {
            for context in lane.channel.abandon() {
                if let Context::Call(asker) = context {
                    let _ = asker.send(Err(problem.clone()));
                }
            }
        }
        let bodies = std::mem::take(&mut state.bodies);
        drop(state);
        for body in bodies.into_values() {
            body.end(Err(problem.clone()));
        }
        self.wake_all();
        self.pump.notify_one();
    }

    pub fn failure(&self) -> Option<Problem> {
        self.lock().failure.clone()
    }

    /// The server has ended a channel.
    pub fn closed(&self, connection: usize, channel: u32) {
        let known = self
            .lock()
            .lanes
            .iter()
            .any(|lane| lane.address == (connection, channel));
        if known {
            self.fail(&Problem::transient("the server closed the SFTP channel"));
        }
    }

    /// Bytes from the server.
    pub fn data(&self, connection: usize, channel: u32, bytes: &[u8]) {
        let now = Instant::now();
        let mut state = self.lock();
        state.heard = now;
        let State {
            lanes,
            bodies,
            flow,
            rtt,
            ..
        } = &mut *state;
        flow.arrived(bytes.len() as u64, *rtt, now);
        let Some(index) = lanes.iter().position(|lane| lane.address == (connection, channel)) else {
            return;
        };
        let lane = &mut lanes[index];
        let in_flight = &mut lane.in_flight;
        let mut over = Vec::new();
        let mut answered = false;
        let result = lane.channel.feed(bytes, |event| {
            match event {
                Event::Version => {}
                Event::Data { context, at, bytes, .. } => {
                    if let Context::Read { body, offset, .. } = context
                        && let Some(Body {
                            way: Way::Down(down), ..
                        }) = bodies.get_mut(body)
                        && let Err(problem) = down.accept(*offset, *offset + u64::from(at), bytes, now)
                    {
                        over.push((*body, Err(problem)));
                    }
                }
                Event::Reply { context, reply } => {
                    answered = true;
                    if let Some(end) = answer(context, reply, bodies, in_flight, now) {
                        over.push(end);
                    }
                }
            }
            Ok::<(), std::convert::Infallible>(())
        });
        let ended: Vec<_> = over
            .into_iter()
            .filter_map(|(id, result)| Some((bodies.remove(&id)?, result)))
            .collect();
        let limited = state.limit.is_some();
        state.decoded(now);
        drop(state);
        for (body, result) in ended {
            body.end(result);
        }
        if let Err(FeedError::Protocol(error)) = result {
            self.fail(&Problem::integrity(format!(
                "the server broke the SFTP protocol: {error}"
            )));
        } else if answered {
            self.wake_all();
        }
        if limited {
            self.pump.notify_one();
        }
    }

    /// How much of a connection's socket may be read now.
    pub fn read_room(&self, connection: usize, now: Instant) -> ReadRoom {
        self.lock().read_room(connection, now)
    }

    /// `bytes` have come off the socket, and `spilled` of all that came are not given to SSH yet.
    pub fn was_read(&self, bytes: usize, spilled: usize, now: Instant) {
        self.lock().was_read(bytes, spilled, now);
    }

    /// Moves what is due of limited downloads; tells when to come again.
    pub fn pump(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        let mut over = Vec::new();
        let mut next: Option<Instant> = None;
        for (id, body) in &mut state.bodies {
            let Way::Down(down) = &mut body.way else { continue };
            if let Err(problem) = down.receiver.pump(now) {
                over.push((*id, Err(problem)));
            } else if down.settle(now) {
                over.push((*id, Ok(())));
            } else if let Some(at) = down.receiver.due_at() {
                next = Some(next.map_or(at, |first| first.min(at)));
            }
        }
        let ended: Vec<_> = over
            .into_iter()
            .filter_map(|(id, result)| Some((state.bodies.remove(&id)?, result)))
            .collect();
        drop(state);
        for (body, result) in ended {
            body.end(result);
        }
        self.wake_all();
        next
    }

    /// What this channel sends now.
    pub fn output(&self, lane: usize, now: Instant) -> Output {
        let mut state = self.lock();
        if state.failure.is_some() {
            return Output::Stop;
        }
        let output = state.output(lane, now);
        // A source that cannot be read ends its body only.
        match output {
            Ok(output) => output,
            Err((id, result)) => {
                let body = state.bodies.remove(&id);
                drop(state);
                if let Some(body) = body {
                    body.end(result);
                }
                self.wake(lane);
                Output::Wait(None)
            }
        }
    }
}

fn lost() -> Problem {
    Problem::transient("the connection was lost")
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
