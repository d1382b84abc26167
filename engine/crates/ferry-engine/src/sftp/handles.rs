//! The number of files and directories that a channel has open at a time: no more than the server takes.
//!
//! `limits@openssh.com` tells a number, but the answer comes after the first files were opened, and few servers know the request.
//! So a refusal counts as well: OPEN has no status for "too many", only FAILURE. The number may be to blame if there were never
//! more files open than at the refused request; the file is then opened again when fewer are open. After a second refusal, the
//! file itself is to blame.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::sync::lock;

/// The open handles of all channels, and their limits.
#[derive(Default)]
pub struct Handles {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    /// The limit that the server has told; null if it told none.
    told: Option<usize>,
    channels: Vec<OfChannel>,
}

#[derive(Default, Clone)]
struct OfChannel {
    /// The limit learned from a refusal.
    learned: Option<usize>,
    /// Handles that are open, being opened, or about to be.
    taken: usize,
    open: usize,
    /// The highest number that was ever open.
    peak: usize,
}

impl State {
    fn of(&mut self, channel: usize) -> &mut OfChannel {
        if self.channels.len() <= channel {
            self.channels.resize(channel + 1, OfChannel::default());
        }
        &mut self.channels[channel]
    }

    fn take(&mut self, channel: usize, bound: Option<usize>) -> bool {
        let told = self.told.unwrap_or(usize::MAX);
        let of = self.of(channel);
        let most = told.min(bound.or(of.learned).unwrap_or(usize::MAX)).max(1);
        let free = of.taken < most;
        of.taken += usize::from(free);
        free
    }
}

impl Handles {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Sets the limit to the server's `max-open-handles` of a channel; 0 means "not told".
    pub fn set_most(&self, told: u64) {
        if told > 0 {
            self.lock().told = Some(usize::try_from(told).unwrap_or(usize::MAX));
            self.freed.notify_waiters();
        }
    }

    /// Returns room for one more handle, or none without waiting.
    pub fn try_room(self: &Arc<Self>, channel: usize) -> Option<Room> {
        let free = self.lock().take(channel, None);
        free.then(|| Room::new(self, channel))
    }

    /// Waits for room for one more handle.
    pub async fn room(self: &Arc<Self>, channel: usize) -> Room {
        self.wait(channel, None).await;
        Room::new(self, channel)
    }

    async fn wait(&self, channel: usize, bound: Option<usize>) {
        loop {
            let freed = self.freed.notified();
            if self.lock().take(channel, bound) {
                return;
            }
            freed.await;
        }
    }
}

/// Room for one file or directory, from before its OPEN to behind its CLOSE.
pub struct Room {
    handles: Arc<Handles>,
    channel: usize,
    held: bool,
    open: bool,
    /// The number of other handles that may have been open when this one was asked for.
    others: usize,
    /// Set by a refusal that was put down to the number: the file is asked for again with fewer than so many open.
    bound: Option<usize>,
}

impl Room {
    fn new(handles: &Arc<Handles>, channel: usize) -> Self {
        let mut room = Self {
            handles: Arc::clone(handles),
            channel,
            held: true,
            open: false,
            others: 0,
            bound: None,
        };
        room.asks();
        room
    }

    /// To be called before an OPEN that does not leave at once.
    pub fn asks(&mut self) {
        self.others = self.handles.lock().of(self.channel).taken - 1;
    }

    /// The channel of this room.
    pub const fn channel(&self) -> usize {
        self.channel
    }

    /// To be called when the server has opened the file.
    pub fn opened(&mut self) {
        let mut state = self.handles.lock();
        let of = state.of(self.channel);
        of.open += usize::from(!self.open);
        of.peak = of.peak.max(of.open);
        self.open = true;
    }

    /// Waits for room again, after a refusal that `refused` put down to the number.
    pub async fn again(&mut self) {
        self.handles.wait(self.channel, self.bound).await;
        self.held = true;
    }

    /// To be called when the server has refused the file. Returns true if the number of open files may be to blame; the room is
    /// given back then.
    pub fn refused(&mut self) -> bool {
        let mut state = self.handles.lock();
        let of = state.of(self.channel);
        if self.bound.is_some() {
            of.learned = None;
            drop(state);
            self.handles.freed.notify_waiters();
            return false;
        }
        // Some of the others may have been closed since.
        if of.peak == 0 || self.others < of.peak {
            return false;
        }
        self.bound = Some(of.peak);
        of.learned = Some(of.peak);
        tracing::debug!(channel = self.channel, most = of.peak, "refused: fewer open files");
        of.taken -= 1;
        self.held = false;
        true
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut state = self.handles.lock();
        let of = state.of(self.channel);
        of.taken -= usize::from(self.held);
        of.open -= usize::from(self.open);
        drop(state);
        self.handles.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(handles: &Arc<Handles>, count: usize) -> Vec<Room> {
        let rooms = (0..count).filter_map(|_| {
            let mut room = handles.try_room(0)?;
            room.opened();
            Some(room)
        });
        rooms.collect()
    }

    #[test]
    fn no_more_are_open_than_the_server_has_told() {
        let handles = Arc::new(Handles::default());
        handles.set_most(0);
        assert_eq!(opened(&handles, 100).len(), 100);
        handles.set_most(43);
        let mut rooms = opened(&handles, 100);
        assert_eq!(rooms.len(), 43);
        assert!(handles.try_room(1).is_some(), "each channel has its own");
        rooms.pop();
        assert_eq!(opened(&handles, 2).len(), 1);
    }

    #[test]
    fn a_refusal_next_to_many_open_files_means_fewer() {
        let handles = Arc::new(Handles::default());
        let mut rooms = opened(&handles, 5);
        let mut late = handles.try_room(0).unwrap();
        // The answer comes when some have been closed.
        rooms.truncate(3);
        assert!(late.refused());
        rooms.extend(opened(&handles, 5));
        assert_eq!(rooms.len(), 5);
    }

    #[test]
    fn a_refusal_that_fewer_open_files_do_not_change_is_the_files_own() {
        let handles = Arc::new(Handles::default());
        let mut alone = handles.try_room(0).unwrap();
        assert!(!alone.refused());
        drop(alone);
        let mut rooms = opened(&handles, 5);
        let mut room = handles.try_room(0).unwrap();
        assert!(room.refused());
        assert!(!handles.lock().take(0, room.bound));
        rooms.pop();
        assert!(handles.lock().take(0, room.bound));
        room.held = true;
        assert!(!room.refused());
        drop(room);
        rooms.extend(opened(&handles, 50));
        assert_eq!(rooms.len(), 54, "the number is not to blame any more");
        rooms.truncate(10);
        let mut room = handles.try_room(0).unwrap();
        assert!(!room.refused(), "more have been open");
    }
}
