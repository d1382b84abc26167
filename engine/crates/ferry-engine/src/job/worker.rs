//! Threads that hold one connection each, and the queue they take their tasks from.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use url::Url;

use crate::error::Error;
use crate::platform;
use crate::report::Phases;
use crate::sync::lock;
use crate::transfer::connect::ConnectOptions;
use crate::transfer::line::{Line, open};
use crate::transfer::{Facts, Outcome, Pull, Settings, Task, Tasks};

/// Scheme, host and port: a connection serves one origin.
pub type Origin = String;

pub fn origin(url: &Url) -> Origin {
    url.origin().ascii_serialization()
}

/// Tasks that wait for a connection. A run may have many thousands: nothing here looks at all of them for each.
pub struct Queue {
    /// In the order they were put in; no queue is empty.
    waiting: BTreeMap<Origin, VecDeque<(Instant, Task)>>,
    /// The time limit of a transfer, from the start of its first attempt.
    total: Option<Duration>,
    /// Tasks that were taken and are not over.
    pub active: usize,
    /// The largest number of tasks that are wanted at once.
    pub most: usize,
    /// The origin for which there will be more tasks, and the interval at which its connections, which stay, look for them.
    pub expecting: Option<(Origin, Duration)>,
}

impl Queue {
    pub fn new(total: Option<Duration>) -> Self {
        Self {
            waiting: BTreeMap::new(),
            total,
            active: 0,
            most: usize::MAX,
            expecting: None,
        }
    }

    /// Adds a task that is not ready before `at`.
    pub fn push(&mut self, at: Instant, task: Task) {
        let waiting = self.waiting.entry(origin(&task.url)).or_default();
        waiting.push_back((at, task));
    }

    /// Drops the tasks that wait. Returns the numbers of their transfers.
    pub fn clear(&mut self) -> HashSet<usize> {
        let waiting = std::mem::take(&mut self.waiting).into_values().flatten();
        waiting.map(|(_, task)| task.transfer).collect()
    }

    /// Drops the tasks of this transfer that wait.
    pub fn remove(&mut self, transfer: usize) {
        for waiting in self.waiting.values_mut() {
            waiting.retain(|(_, task)| task.transfer != transfer);
        }
        self.waiting.retain(|_, waiting| !waiting.is_empty());
    }

    /// Returns the number of connections, out of `connections`, for which there is no task.
    pub fn idle(&self, connections: usize) -> usize {
        connections.saturating_sub(self.active + self.waiting.len())
    }

    /// Returns the first task that is ready, in the order in which they were added, or else the time to look again.
    fn pull(&mut self, origin: &Origin, now: Instant) -> Pull {
        if self.active >= self.most {
            return Pull::Empty;
        }
        if let Some(mut task) = self.take(origin, now) {
            self.active += 1;
            task.deadline = task
                .deadline
                .or_else(|| self.total.and_then(|total| now.checked_add(total)));
            return Pull::Task(Box::new(task));
        }
        let next = self
            .waiting
            .get(origin)
            .and_then(|waiting| waiting.iter().map(|(at, _)| *at).min());
        let expected = self.expecting.as_ref().filter(|(of, _)| of == origin);
        let look = expected.map(|(_, look)| now + *look);
        next.into_iter().chain(look).min().map_or(Pull::Empty, Pull::Later)
    }

    fn take(&mut self, origin: &Origin, now: Instant) -> Option<Task> {
        let waiting = self.waiting.get_mut(origin)?;
        // Only tasks that wait for another attempt are not ready.
        let ready = waiting.iter().position(|(at, _)| *at <= now)?;
        let (_, task) = waiting.remove(ready)?;
        if waiting.is_empty() {
            self.waiting.remove(origin);
        }
        Some(task)
    }

    /// Returns the origins with waiting tasks, and the number of their tasks.
    pub fn origins(&self) -> Vec<(Origin, usize)> {
        let counted = self
            .waiting
            .iter()
            .map(|(origin, waiting)| (origin.clone(), waiting.len()));
        counted.collect()
    }
}

/// A message from a worker to the scheduler.
pub enum Event {
    /// After anything but success, a worker that goes on waits for the answer, because the scheduler may have more for it.
    Done(Box<Outcome>, Option<Sender<()>>),
    ConnectFailed {
        task: Box<Task>,
        problem: Error,
        total_s: f64,
    },
    /// A new connection. The flag is true if the connection carries several requests at once; the duration is its round trip.
    Connected(Origin, bool, Duration),
    /// The first range of a transfer is on its way, so that the others can be asked for.
    Answered(usize),
    Ended(Origin),
}

pub struct Worker {
    pub origin: Origin,
    pub queue: Arc<Mutex<Queue>>,
    pub events: Sender<Event>,
    pub connect_options: ConnectOptions,
    pub settings: Settings,
    /// The URL to connect to before there is a task.
    pub early: Option<Url>,
}

impl Worker {
    pub fn start(self) -> std::io::Result<()> {
        std::thread::Builder::new().name(self.origin.clone()).spawn(move || {
            self.run();
            let _ = self.events.send(Event::Ended(self.origin.clone()));
        })?;
        Ok(())
    }

    fn run(&self) {
        platform::precise_timers();
        if let Some(url) = &self.early {
            self.connect_early(url);
        }
        loop {
            let now = Instant::now();
            let pulled = lock(&self.queue).pull(&self.origin, now);
            match pulled {
                Pull::Empty => return,
                Pull::Later(at) => {
                    std::thread::sleep(at.saturating_duration_since(now).min(Duration::from_millis(200)));
                }
                Pull::Task(task) => self.serve(*task),
            }
        }
    }

    /// Connects for tasks that are to come. A failure is not reported here: the first task connects again.
    fn connect_early(&self, url: &Url) {
        if let Ok(connection) = open(url, &self.connect_options, &self.settings) {
            self.stay(connection, None);
        }
    }

    /// Connects for this task and stays for those that follow.
    fn serve(&self, task: Task) {
        let begin = Instant::now();
        match open(&task.url, &self.connect_options, &self.settings) {
            Ok(connection) => self.stay(connection, Some(Box::new(task))),
            Err(problem) => {
                lock(&self.queue).active -= 1;
                let total_s = begin.elapsed().as_secs_f64();
                let _ = self.events.send(Event::ConnectFailed {
                    task: Box::new(task),
                    problem,
                    total_s,
                });
            }
        }
    }

    fn stay(&self, connection: Line, first: Option<Box<Task>>) {
        let connected = Event::Connected(self.origin.clone(), connection.is_shared(), connection.rtt());
        let _ = self.events.send(connected);
        let mut queue = ConnectionQueue { worker: self, first };
        connection.run(&mut queue, &self.settings);
    }
}

struct ConnectionQueue<'a> {
    worker: &'a Worker,
    /// The task for which the connection was made.
    first: Option<Box<Task>>,
}

impl Tasks for ConnectionQueue<'_> {
    fn pull(&mut self, now: Instant) -> Pull {
        match self.first.take() {
            Some(task) => Pull::Task(task),
            None => lock(&self.worker.queue).pull(&self.worker.origin, now),
        }
    }

    fn done(&mut self, outcome: Outcome) {
        lock(&self.worker.queue).active -= 1;
        let succeeded = matches!(outcome.ending, crate::transfer::Ending::Done);
        if succeeded {
            let _ = self.worker.events.send(Event::Done(Box::new(outcome), None));
            return;
        }
        let (answer, answered) = mpsc::channel();
        let _ = self.worker.events.send(Event::Done(Box::new(outcome), Some(answer)));
        // The scheduler answers at once, or after a file has been finished; an error means that it has gone.
        let _ = answered.recv_timeout(Duration::from_secs(5));
    }
}

/// Facts of an attempt that got no connection.
pub fn no_connection(total_s: f64) -> Facts {
    Facts {
        phases: Phases {
            total_s,
            ..Phases::default()
        },
        ..Facts::default()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;
    use crate::transfer::send::Sender as Upload;
    use crate::transfer::{Answer, Head, Work};

    struct Nothing;

    impl Work for Nothing {
        fn sender(&mut self, _: &Settings) -> Option<Upload> {
            None
        }

        fn answer(&mut self, _: &Head, _: &Settings) -> Answer {
            Answer::Discard
        }

        fn progress(&mut self, _: u64) {}
    }

    fn task(transfer: usize, url: &str) -> Task {
        Task {
            transfer,
            url: url.parse().unwrap(),
            method: Method::GET,
            headers: HeaderMap::new(),
            offset: 0,
            deadline: None,
            work: Box::new(Nothing),
        }
    }

    fn pulled(queue: &mut Queue, origin: &str, now: Instant) -> Option<usize> {
        match queue.pull(&origin.to_owned(), now) {
            Pull::Task(task) => Some(task.transfer),
            _ => None,
        }
    }

    #[test]
    fn tasks_come_in_their_order_by_origin_and_not_before_their_time() {
        let (now, wait) = (Instant::now(), Duration::from_secs(1));
        let mut queue = Queue::new(Some(wait));
        for (transfer, at, url) in [
            (0, now + wait, "https://a/x"),
            (1, now, "https://a/y"),
            (2, now, "http://b/"),
            (3, now, "https://a/z"),
        ] {
            queue.push(at, task(transfer, url));
        }
        let origins = [("http://b".to_owned(), 1), ("https://a".to_owned(), 3)];
        assert_eq!(queue.origins(), origins);
        assert_eq!(pulled(&mut queue, "https://a", now), Some(1));
        assert_eq!(pulled(&mut queue, "https://a", now), Some(3));
        let later = queue.pull(&"https://a".to_owned(), now);
        assert!(matches!(later, Pull::Later(at) if at == now + wait));
        assert_eq!(pulled(&mut queue, "https://c", now), None);
        let Pull::Task(last) = queue.pull(&"https://a".to_owned(), now + wait) else {
            panic!("it is ready");
        };
        assert_eq!((last.transfer, last.deadline), (0, Some(now + 2 * wait)));
        assert!(matches!(queue.pull(&"https://a".to_owned(), now + wait), Pull::Empty));
        assert_eq!((queue.origins().len(), queue.active), (1, 3));
        queue.push(now, task(4, "http://b/"));
        queue.push(now, task(4, "https://c/"));
        queue.remove(4);
        assert_eq!(queue.origins(), [("http://b".to_owned(), 1)]);
        assert_eq!(queue.clear(), HashSet::from([2]));
        assert!(queue.origins().is_empty());
    }
}
