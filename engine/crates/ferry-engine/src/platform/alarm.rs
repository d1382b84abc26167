//! One thread that wakes tasks at their deadlines, for systems whose event loop waits in ticks of 15.6 ms. Its queue knows no
//! clock; its way of waiting is the system's ([`Sleeper`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Instant;

use crate::sync::lock;

/// Waits for a deadline or for being disturbed, whichever is first.
pub trait Sleeper: Send + Sync + 'static {
    fn wait(&self, until: Option<Instant>);
    fn disturb(&self);
}

struct Entry {
    at: Instant,
    /// In the order they were set, where two are at the same time.
    number: u64,
    waker: Waker,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The tasks to wake, by deadline.
#[derive(Default)]
struct Queue {
    entries: BinaryHeap<Reverse<Entry>>,
    count: u64,
}

impl Queue {
    fn next(&self) -> Option<Instant> {
        self.entries.peek().map(|entry| entry.0.at)
    }

    /// True when this is now the first.
    fn push(&mut self, at: Instant, waker: Waker) -> bool {
        let first = self.next().is_none_or(|next| at < next);
        self.count += 1;
        self.entries.push(Reverse(Entry {
            at,
            number: self.count,
            waker,
        }));
        first
    }

    fn due(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while self.next().is_some_and(|next| next <= now) {
            due.extend(self.entries.pop().map(|entry| entry.0.waker));
        }
        due
    }
}

pub struct Alarm<S> {
    queue: Mutex<Queue>,
    sleeper: S,
}

impl<S: Sleeper> Alarm<S> {
    /// With its thread, which lives as long as the process.
    pub fn start(sleeper: S) -> std::io::Result<Arc<Self>> {
        let alarm = Arc::new(Self {
            queue: Mutex::default(),
            sleeper,
        });
        let own = Arc::clone(&alarm);
        std::thread::Builder::new()
            .name("alarm".to_owned())
            .spawn(move || own.run())?;
        Ok(alarm)
    }

    pub fn wake_at(&self, at: Instant, waker: Waker) {
        let first = self.queue().push(at, waker);
        if first {
            self.sleeper.disturb();
        }
    }

    fn run(&self) -> ! {
        loop {
            let (due, next) = {
                let mut queue = self.queue();
                (queue.due(Instant::now()), queue.next())
            };
            let nothing = due.is_empty();
            due.into_iter().for_each(Waker::wake);
            if nothing {
                self.sleeper.wait(next);
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicU32);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn waker(counter: &Arc<Counter>) -> Waker {
        Arc::clone(counter).into()
    }

    #[test]
    fn what_is_due_comes_in_the_order_of_its_time_and_nothing_else() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut queue = Queue::default();
        let counters: Vec<Arc<Counter>> = (0..4).map(|_| Arc::default()).collect();
        assert!(queue.push(at(20), waker(&counters[0])));
        assert!(!queue.push(at(30), waker(&counters[1])));
        assert!(queue.push(at(10), waker(&counters[2])));
        assert!(!queue.push(at(10), waker(&counters[3])));
        assert!(queue.due(at(9)).is_empty());
        assert_eq!(queue.next(), Some(at(10)));
        queue.due(at(10)).into_iter().for_each(Waker::wake);
        let woken: Vec<_> = counters
            .iter()
            .map(|counter| counter.0.load(Ordering::SeqCst))
            .collect();
        assert_eq!(woken, [0, 0, 1, 1]);
        assert_eq!(queue.due(at(1000)).len(), 2);
        assert_eq!(queue.next(), None);
    }

    /// With what every system has.
    #[derive(Default)]
    struct Patient {
        disturbed: Mutex<bool>,
        bell: Condvar,
    }

    impl Sleeper for Patient {
        fn wait(&self, until: Option<Instant>) {
            let mut disturbed = self.disturbed.lock().unwrap();
            while !*disturbed {
                match until.map(|at| at.saturating_duration_since(Instant::now())) {
                    Some(left) if left.is_zero() => break,
                    Some(left) => disturbed = self.bell.wait_timeout(disturbed, left).unwrap().0,
                    None => disturbed = self.bell.wait(disturbed).unwrap(),
                }
            }
            *disturbed = false;
        }

        fn disturb(&self) {
            *self.disturbed.lock().unwrap() = true;
            self.bell.notify_one();
        }
    }

    struct Tell(u32, std::sync::mpsc::Sender<(u32, Instant)>);

    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            let _ = self.1.send((self.0, Instant::now()));
        }
    }

    /// An earlier deadline that is set later is not held up by the wait for the first.
    #[test]
    fn nobody_is_woken_early_and_the_earliest_first() {
        let alarm = Alarm::start(Patient::default()).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let begin = Instant::now();
        for (number, ms) in [(1, 60), (2, 20), (3, 0)] {
            let at = begin + Duration::from_millis(ms);
            alarm.wake_at(at, Arc::new(Tell(number, sender.clone())).into());
        }
        for (number, ms) in [(3, 0), (2, 20), (1, 60)] {
            let (told, at) = receiver.recv_timeout(Duration::from_secs(20)).unwrap();
            assert_eq!(told, number);
            assert!(at >= begin + Duration::from_millis(ms));
        }
    }
}
