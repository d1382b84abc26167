//! Channels and open files behind one lock, as the connection's handler, the channels' writers and the files' tasks see them.
//!
//! Everything runs on one thread, so the lock is never waited for; it is there because russh's handler must be `Send`.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ferry_sftp::{Channel, Event, FeedError, Handle, Limits, MAX_IN_FLIGHT, Reply, Request};
use tokio::sync::{Notify, oneshot, watch};

use super::flow::Flow;
use super::handles::Handles;
use super::open_file::{Direction, OpenFile};
use super::span::LARGEST_REQUEST;
use super::state::{Context, OpenChannel, Output, Silence, Sizes, State, answer};
use crate::error::Error;
use crate::ssh::ReadRoom;
use crate::sync::lock;
use crate::transfer::throttle::Limit;

/// The size that every server takes (draft-ietf-secsh-filexfer-02, section 3: packets of 34,000 bytes).
const SAFE_REQUEST: u32 = 32 * 1024;
/// The smallest size believed: a server that says less means something else, or wants a request for every byte.
const LEAST_REQUEST: u32 = 1024;
/// The most unanswered requests on one channel: far above ferry's own needs, and well below the number that ids tell apart.
const MOST_UNANSWERED: usize = MAX_IN_FLIGHT / 2;

pub type Shared = Arc<Core>;

pub struct Core {
    state: Mutex<State>,
    /// One notice per channel: there may be something to send.
    wakes: Mutex<Vec<Arc<Notify>>>,
    /// Notified when a limited download has received bytes, or its deadline has changed.
    pub paced: Notify,
    /// The number of files and directories that may be open at a time.
    pub handles: Arc<Handles>,
    count: watch::Sender<usize>,
}

impl Core {
    pub fn new(limit: &Limit, rtt: Duration) -> Self {
        Self {
            state: Mutex::new(State {
                channels: Vec::new(),
                open_files: BTreeMap::new(),
                next_file: 0,
                request: Sizes {
                    read: SAFE_REQUEST,
                    write: SAFE_REQUEST,
                },
                limit: limit.rate().map(ferry_pacing::Rate::byte_s),
                rtt,
                least_rtt: Duration::ZERO,
                idle_rtt: rtt,
                last_activity: Instant::now(),
                last_moved: Instant::now(),
                unnoticed: 0,
                patient: 0,
                failure: None,
                undecoded: 0,
                spilled: 0,
            }),
            wakes: Mutex::new(Vec::new()),
            paced: Notify::new(),
            handles: Arc::default(),
            count: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn wakes(&self) -> MutexGuard<'_, Vec<Arc<Notify>>> {
        lock(&self.wakes)
    }

    pub fn wake(&self, channel: usize) {
        if let Some(notify) = self.wakes().get(channel) {
            notify.notify_one();
        }
    }

    pub fn wake_all(&self) {
        for notify in self.wakes().iter() {
            notify.notify_one();
        }
    }

    /// Adds a channel on which the subsystem runs, and returns its number and its writer's notice. INIT is its first output.
    pub fn add_channel(&self, connection: usize, number: u32) -> (usize, Arc<Notify>) {
        let mut state = self.lock();
        let mut channel = OpenChannel {
            address: (connection, number),
            channel: Channel::new(),
            control: Vec::new(),
            in_flight: 0,
            flow: Flow::new(Instant::now()),
        };
        channel.channel.hello(&mut channel.control);
        if state.channels.is_empty() {
            state.last_activity = Instant::now();
        }
        state.channels.push(channel);
        let notify = Arc::new(Notify::new());
        notify.notify_one();
        self.wakes().push(Arc::clone(&notify));
        let count = state.channels.len();
        drop(state);
        self.count.send_replace(count);
        (count - 1, notify)
    }

    pub fn connections(&self) -> usize {
        let state = self.lock();
        let mut found: Vec<_> = state.channels.iter().map(|channel| channel.address.0).collect();
        found.sort_unstable();
        found.dedup();
        found.len()
    }

    pub fn watch_channels(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// Encodes one more request on this channel.
    ///
    /// # Errors
    /// The connection is of no more use; a server that takes requests and leaves too many unanswered makes it so.
    fn ask(&self, channel: usize, encode: impl FnOnce(&mut Channel<Context>, &mut Vec<u8>)) -> Result<(), Error> {
        let mut state = self.lock();
        if let Some(problem) = &state.failure {
            return Err(problem.clone());
        }
        if let Some(open_channel) = state.channels.get_mut(channel) {
            if open_channel.channel.in_flight() >= MOST_UNANSWERED {
                drop(state);
                let problem = Error::integrity(format!("the server has left {MOST_UNANSWERED} requests unanswered"));
                self.fail(&problem);
                return Err(problem);
            }
            encode(&mut open_channel.channel, &mut open_channel.control);
        }
        drop(state);
        self.wake(channel);
        Ok(())
    }

    /// Encodes a request at once, so that successive calls leave in one flight; the returned future yields the answer.
    pub fn call(&self, channel: usize, request: &Request<'_>) -> impl Future<Output = Result<Reply, Error>> + use<> {
        let (sender, receiver) = oneshot::channel();
        let asked = self.ask(channel, |channel, out| {
            channel.request(request, Context::Call(sender), out);
        });
        async move {
            asked?;
            // An error means that the channel is gone, and the sender with it.
            receiver.await.unwrap_or_else(|_| Err(lost()))
        }
    }

    /// Does what `call` does, for a request that may take the server long: it has a complete file, and brings it to its disk or
    /// to its store.
    pub fn call_patiently(
        self: &Arc<Self>,
        channel: usize,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Reply, Error>> + use<> {
        let (asked, patience) = (self.call(channel, request), Patience::new(self));
        async move {
            let reply = asked.await;
            drop(patience);
            reply
        }
    }

    /// Sends a request whose answer is ignored.
    pub fn post(&self, channel: usize, request: &Request<'_>) {
        let _ = self.ask(channel, |channel, out| {
            channel.request(request, Context::Forget, out);
        });
    }

    /// Sends a WRITE outside of a transfer, whose answer is ignored.
    pub fn post_write(&self, channel: usize, handle: &Handle, offset: u64, data: &[u8]) {
        let _ = self.ask(channel, |channel, out| {
            let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
            channel.write_header(handle, offset, length, Context::Forget, out);
            out.extend_from_slice(data);
        });
    }

    /// Returns true if the server has named the extension in its VERSION.
    pub fn has(&self, channel: usize, extension: &str) -> bool {
        let state = self.lock();
        state
            .channels
            .get(channel)
            .and_then(|channel| channel.channel.extensions())
            .is_some_and(|extensions| extensions.has(extension))
    }

    /// Takes over the limits told by limits@openssh.com. A limit of 0 means "not told"; one below the size that every server
    /// takes is believed, down to 1 KiB.
    pub fn set_limits(&self, limits: &Limits) {
        let clamp = |told: u64| match u32::try_from(told) {
            Ok(0) => SAFE_REQUEST,
            Ok(told) => told.clamp(LEAST_REQUEST, LARGEST_REQUEST),
            Err(_) => LARGEST_REQUEST,
        };
        let (read, write) = (clamp(limits.read), clamp(limits.write));
        tracing::debug!(
            ?limits,
            read,
            write,
            "SFTP limits of the server, and the sizes of requests"
        );
        self.lock().request = Sizes { read, write };
        self.handles.set_most(limits.handles);
    }

    pub fn begin(&self, file: OpenFile) -> u64 {
        let mut state = self.lock();
        if let Some(problem) = state.failure.clone() {
            drop(state);
            file.end(Err(problem));
            return u64::MAX;
        }
        let id = state.next_file;
        state.next_file += 1;
        state.open_files.insert(id, file);
        drop(state);
        self.wake_all();
        id
    }

    /// Adds a handle of a file that is open on one more channel.
    pub fn add_handle(&self, id: u64, channel: usize, handle: Handle) {
        let mut state = self.lock();
        if let Some(file) = state.open_files.get_mut(&id) {
            file.handles.push((channel, handle));
        } else if let Some(channel) = state.channels.get_mut(channel) {
            // The transfer ended before the handle could help.
            let close = Request::Close { handle: &handle };
            channel.channel.request(&close, Context::Forget, &mut channel.control);
        }
        drop(state);
        self.wake(channel);
    }

    /// The bytes of begun files that have not been asked for or sent.
    pub fn backlog(&self) -> u64 {
        let state = self.lock();
        state
            .open_files
            .values()
            .map(|file| match &file.direction {
                Direction::Down(down) => down
                    .reads
                    .size()
                    .map_or(0, |size| size.saturating_sub(down.next).saturating_sub(down.pending())),
                Direction::Up(up) => up.sender.size.map_or(0, |size| size.saturating_sub(up.sender.given)),
            })
            .sum()
    }

    /// Sets the round trip to TCP's figure, but never below the one taken from SSH's own handshake.
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

    /// The round trip of the path while there was no traffic on it.
    pub fn idle_rtt(&self) -> Duration {
        self.lock().idle_rtt
    }

    pub fn silence(&self) -> Option<Silence> {
        self.lock().silence()
    }

    /// Notes that the server's machine has acknowledged more of the sent bytes: something moves, although no answer is complete.
    pub fn moved(&self, now: Instant) {
        self.lock().last_moved = now;
    }

    /// The time of the server's last data.
    pub fn last_activity(&self) -> Instant {
        self.lock().last_activity
    }

    /// The bytes moved so far by a file's attempt.
    pub fn progress(&self, id: u64) -> u64 {
        self.lock().open_files.get(&id).map_or(0, |file| match &file.direction {
            Direction::Down(down) => down.receiver.delivered,
            Direction::Up(up) => up.sender.given,
        })
    }

    /// The offset below which every byte of an upload has been acknowledged.
    pub fn acknowledged(&self, id: u64) -> u64 {
        match self.lock().open_files.get(&id).map(|file| &file.direction) {
            Some(Direction::Up(up)) => up.writes.contiguous(),
            _ => 0,
        }
    }

    /// Notes that the last byte of this upload has left the machine.
    pub fn left(&self, id: u64, now: Instant) {
        if let Some(OpenFile {
            direction: Direction::Up(up),
            ..
        }) = self.lock().open_files.get_mut(&id)
        {
            up.sender.left(now);
        }
    }

    /// Returns true while the last byte of this upload has not left the machine yet.
    pub fn is_leaving(&self, id: u64) -> bool {
        self.lock()
            .open_files
            .get(&id)
            .is_some_and(|file| matches!(&file.direction, Direction::Up(up) if up.sender.ended.is_none()))
    }

    /// Ends all files and calls with `problem`: the connection is of no more use.
    pub fn fail(&self, problem: &Error) {
        let mut state = self.lock();
        if state.failure.is_some() {
            return;
        }
        state.failure = Some(problem.clone());
        for channel in &mut state.channels {
            for context in channel.channel.abandon() {
                if let Context::Call(reply_sender) = context {
                    let _ = reply_sender.send(Err(problem.clone()));
                }
            }
        }
        let open_files = std::mem::take(&mut state.open_files);
        drop(state);
        for file in open_files.into_values() {
            file.end(Err(problem.clone()));
        }
        self.wake_all();
        self.paced.notify_one();
    }

    pub fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    /// Fails the connection if the channel that the server has ended is one of those here.
    pub fn closed(&self, connection: usize, number: u32) {
        let known = self
            .lock()
            .channels
            .iter()
            .any(|channel| channel.address == (connection, number));
        if known {
            self.fail(&Error::transient("the server closed the SFTP channel"));
        }
    }

    /// Takes bytes from the server.
    pub fn data(&self, connection: usize, number: u32, bytes: &[u8]) {
        let now = Instant::now();
        let mut state = self.lock();
        state.last_activity = now;
        state.unnoticed = 0;
        let State {
            channels,
            open_files,
            rtt,
            ..
        } = &mut *state;
        let mut open = channels.iter_mut();
        let Some(channel) = open.find(|channel| channel.address == (connection, number)) else {
            return;
        };
        channel.flow.arrived(bytes.len() as u64, *rtt, now);
        let in_flight = &mut channel.in_flight;
        let mut over = Vec::new();
        let mut answered = false;
        let result = channel.channel.feed(bytes, |event| {
            match event {
                Event::Version => {}
                Event::Data { context, at, bytes, .. } => {
                    if let Context::Read { file, offset, .. } = context
                        && let Some(OpenFile {
                            direction: Direction::Down(down),
                            ..
                        }) = open_files.get_mut(file)
                        && let Err(problem) = down.accept(*offset, *offset + u64::from(at), bytes, now)
                    {
                        over.push((*file, Err(problem)));
                    }
                }
                Event::Reply { context, reply } => {
                    answered = true;
                    if let Some(end) = answer(context, reply, open_files, in_flight, now) {
                        over.push(end);
                    }
                }
            }
            Ok::<(), std::convert::Infallible>(())
        });
        let ended: Vec<_> = over
            .into_iter()
            .filter_map(|(id, result)| Some((open_files.remove(&id)?, result)))
            .collect();
        let limited = state.limit.is_some();
        state.decoded(now);
        drop(state);
        for (file, result) in ended {
            file.end(result);
        }
        if let Err(FeedError::Protocol(error)) = result {
            let problem = format!("the server broke the SFTP protocol: {error}");
            self.fail(&Error::integrity(problem).with_source(error));
        } else if answered {
            self.wake_all();
        }
        if limited {
            self.paced.notify_one();
        }
    }

    /// The amount that may be read from a connection's socket now.
    pub fn read_room(&self, connection: usize, now: Instant) -> ReadRoom {
        self.lock().read_room(connection, now)
    }

    /// Notes that `bytes` have come off the socket, and that `spilled` bytes of all that came are not given to SSH yet.
    pub fn was_read(&self, bytes: usize, spilled: usize, now: Instant) {
        self.lock().was_read(bytes, spilled, now);
    }

    /// Hands on the due bytes of limited downloads; returns the time of the next call.
    pub fn poll_paced(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        let mut over = Vec::new();
        let mut next: Option<Instant> = None;
        for (id, file) in &mut state.open_files {
            let Direction::Down(down) = &mut file.direction else {
                continue;
            };
            if let Err(problem) = down.receiver.poll_paced(now) {
                over.push((*id, Err(problem)));
            } else if down.try_finish(now) {
                over.push((*id, Ok(())));
            } else if let Some(at) = down.receiver.due_at() {
                next = Some(next.map_or(at, |first| first.min(at)));
            }
        }
        let ended: Vec<_> = over
            .into_iter()
            .filter_map(|(id, result)| Some((state.open_files.remove(&id)?, result)))
            .collect();
        drop(state);
        for (file, result) in ended {
            file.end(result);
        }
        self.wake_all();
        next
    }

    /// The next output of this channel.
    pub fn output(&self, channel: usize, now: Instant) -> Output {
        let mut state = self.lock();
        if state.failure.is_some() {
            return Output::Stop;
        }
        let output = state.output(channel, now);
        // A source that cannot be read ends its file only.
        match output {
            Ok(output) => output,
            Err((id, result)) => {
                let file = state.open_files.remove(&id);
                drop(state);
                if let Some(file) = file {
                    file.end(result);
                }
                self.wake(channel);
                Output::Wait(None)
            }
        }
    }
}

/// A guard that gives a silent server time while it lives.
struct Patience(Shared);

impl Patience {
    fn new(core: &Shared) -> Self {
        core.lock().patient += 1;
        Self(Shared::clone(core))
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        self.0.lock().patient -= 1;
    }
}

pub fn lost() -> Error {
    Error::transient("the connection was lost")
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
