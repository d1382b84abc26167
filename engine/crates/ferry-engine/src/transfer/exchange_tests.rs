//! The time-outs of an exchange.

use std::io::Write;

use http::{HeaderMap, Method};

use super::*;
use crate::files::Source;
use crate::stop::Stop;
use crate::transfer::throttle::Limit;

struct Put(Option<Sender>);

impl super::super::Work for Put {
    fn sender(&mut self, _settings: &Settings) -> Option<Sender> {
        self.0.take()
    }

    fn answer(&mut self, _head: &Head, _settings: &Settings) -> Answer {
        Answer::Discard
    }

    fn progress(&mut self, _moved: u64) {}
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

struct Bench {
    exchange: Exchange,
    settings: Settings,
    begin: Instant,
    _file: tempfile::NamedTempFile,
}

impl Bench {
    fn new(size: usize, answer: Option<Duration>) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![0; size]).unwrap();
        let source = Source::open(file.path()).unwrap();
        let settings = Settings {
            limit: Limit::None,
            background: None,
            buffer_size: 64 * 1024,
            timeouts: Timeouts {
                connect: SECOND,
                tls: SECOND,
                first_byte: 60 * SECOND,
                answer,
                stall: 30 * SECOND,
                total: None,
            },
            stop: Stop::default(),
            parallel: 1,
        };
        let task = Task {
            transfer: 0,
            url: "http://h/x".parse().unwrap(),
            method: Method::PUT,
            headers: HeaderMap::new(),
            offset: 0,
            deadline: None,
            work: Box::new(Put(Some(Sender::new(source, None, Limit::None.throttle(), 64 * 1024)))),
        };
        let begin = Instant::now();
        let mut exchange = Exchange::new(task, begin, Phases::default(), Duration::ZERO, &settings);
        exchange.request_sent(begin);
        Self {
            exchange,
            settings,
            begin,
            _file: file,
        }
    }

    /// Hands over the whole body.
    fn give(&mut self) {
        let sender = self.exchange.sender.as_mut().unwrap();
        while !sender.next(self.begin, usize::MAX).unwrap().1 {}
    }

    /// The message of a time-out that is due `after` the start; bytes last arrived at `moved`, and others are on their way if
    /// `in_flight`.
    fn overdue(&self, after: Duration, moved: Duration, in_flight: bool) -> Option<String> {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let signs = Signs {
            socket: SockRef::from(&socket),
            moved_at: self.begin + moved,
            in_flight,
            confirmed_at: None,
            heard: None,
        };
        let problem = self
            .exchange
            .overdue(&signs, &self.settings.timeouts, self.begin + after);
        problem.map(|problem| problem.message)
    }
}

#[test]
fn a_complete_upload_waits_for_its_answer_unless_a_time_is_named() {
    for (answer, named) in [(None, false), (Some(90 * SECOND), true)] {
        let mut bench = Bench::new(200_000, answer);
        bench.give();
        bench.exchange.sender.as_mut().unwrap().left(bench.begin);
        assert_eq!(bench.overdue(80 * SECOND, Duration::ZERO, false), None);
        let late = bench.overdue(HOUR, Duration::ZERO, false);
        assert_eq!(late.is_some_and(|why| why.contains("--timeout-first-byte")), named);
        // An answer that has begun may pause as well.
        bench.exchange.first_byte(bench.begin + HOUR);
        assert_eq!(bench.overdue(HOUR + 80 * SECOND, Duration::ZERO, false), None);
        assert_eq!(bench.overdue(2 * HOUR, Duration::ZERO, false).is_some(), named);
        // But bytes on their way must arrive.
        let late = bench.overdue(HOUR + 31 * SECOND, HOUR, true);
        assert!(late.is_some_and(|why| why.contains("--stall")));
        assert_eq!(bench.overdue(HOUR + 29 * SECOND, HOUR, true), None);
    }
}

#[test]
fn an_empty_upload_costs_nothing_to_send_again() {
    let mut bench = Bench::new(0, None);
    bench.exchange.sender.as_mut().unwrap().left(bench.begin);
    assert_eq!(bench.overdue(59 * SECOND, Duration::ZERO, false), None);
    assert!(bench.overdue(61 * SECOND, Duration::ZERO, false).is_some());
}

#[test]
fn a_body_on_its_way_stalls_when_nothing_arrives() {
    let mut bench = Bench::new(10_000_000, None);
    let sender = bench.exchange.sender.as_mut().unwrap();
    sender.next(bench.begin, usize::MAX).unwrap();
    // The server makes no room, or takes nothing of what is on its way.
    for in_flight in [false, true] {
        assert_eq!(bench.overdue(29 * SECOND, Duration::ZERO, in_flight), None);
        let late = bench.overdue(31 * SECOND, Duration::ZERO, in_flight);
        assert!(late.is_some_and(|why| why.contains("--stall")));
        assert_eq!(bench.overdue(HOUR + SECOND, HOUR, in_flight), None);
    }
}
