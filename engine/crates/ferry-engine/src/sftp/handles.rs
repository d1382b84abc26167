//! How many files and directories a channel has open at a time: no more than the server takes.
//!
//! `limits@openssh.com` tells a number, but after the first files were opened, and few servers know it. So a refusal counts as well: OPEN has no
//! status for "too many", only FAILURE. The number may be to blame if no more were ever open than when it was asked for; the file is then opened
//! again when there are fewer. If it is refused again, it was the file.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::sync::lock;

/// Of all channels.
#[derive(Default)]
pub struct Handles {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    /// What the server has told; null is "nothing".
    told: Option<usize>,
    channels: Vec<OfChannel>,
}

#[derive(Default, Clone)]
struct OfChannel {
    /// What a refusal has taught.
    learned: Option<usize>,
    /// Open, being opened, or about to be.
    taken: usize,
    open: usize,
    /// The most that were ever open.
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

    /// What `max-open-handles` of a channel is; 0 is "not told".
    pub fn set_most(&self, told: u64) {
        if told > 0 {
            self.lock().told = Some(usize::try_from(told).unwrap_or(usize::MAX));
            self.freed.notify_waiters();
        }
    }

    /// Room for one more, now or never.
    pub fn try_room(self: &Arc<Self>, channel: usize) -> Option<Room> {
        let free = self.lock().take(channel, None);
        free.then(|| Room::new(self, channel))
    }

    /// Room for one more, when there is some.
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

/// For one file or directory, from before its OPEN to behind its CLOSE.
pub struct Room {
    handles: Arc<Handles>,
    channel: usize,
    held: bool,
    open: bool,
    /// The others that may have been open when it was asked for.
    others: usize,
    /// A refusal was put down to the number: it was asked for again with fewer than so many open.
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

    /// The channel that it is of.
    pub const fn channel(&self) -> usize {
        self.channel
    }

    /// To be called when the server has opened it.
    pub fn opened(&mut self) {
        let mut state = self.handles.lock();
        let of = state.of(self.channel);
        of.open += usize::from(!self.open);
        of.peak = of.peak.max(of.open);
        self.open = true;
    }

    /// Room again, after a refusal that `refused` put down to the number.
    pub async fn again(&mut self) {
        self.handles.wait(self.channel, self.bound).await;
        self.held = true;
    }

    /// To be called when the server has refused it: whether the number of open files may be to blame. The room is given back then.
    pub fn refused(&mut self) -> bool {
        let mut state = self.handles.lock();
        let of = state.of(self.channel);
        if self.bound.is_some() {
            of.learned = None;
            drop(state);
            self.handles.freed.notify_waiters();
            return false;
        }
        // Some of them may have been closed since.
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
