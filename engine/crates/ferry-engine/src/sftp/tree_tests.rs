//! Lists of names on a server whose answers are written by hand.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::super::in_turn::AT_ONCE;
use super::super::remove::{Doomed, remove};
use super::super::state::Output;
use super::*;
use crate::transfer::throttle::Limit;

const STATUS: u8 = 101;
const ATTRS: u8 = 105;
const LSTAT: u8 = 7;
const STAT: u8 = 17;
const PERMISSION_DENIED: u32 = 3;

fn packet(kind: u8, rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(rest.len() + 1).unwrap();
    [&length.to_be_bytes()[..], &[kind], rest].concat()
}

fn server() -> Core {
    let core = Core::new(&Limit::None, Duration::from_millis(20));
    core.add_channel(0, 0);
    core.data(0, 0, &packet(2, &3_u32.to_be_bytes()));
    assert_eq!(asked(&core), [(1, 3)], "INIT");
    core
}

/// Type and number of each request that is to be sent.
fn asked(core: &Core) -> Vec<(u8, u32)> {
    let mut found = Vec::new();
    while let Output::Bytes(bytes) = core.output(0, Instant::now()) {
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut at = 0;
        while at < bytes.len() {
            found.push((bytes[at + 4], number(at + 5)));
            at += 4 + number(at) as usize;
        }
    }
    found
}

/// Answers every request, `refused` (counted from 0) with "permission denied". Returns the result, and the most requests in flight.
fn driven(core: &Core, refused: usize, work: impl Future<Output = Result<(), Error>>) -> (Result<(), Error>, usize) {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    let (mut most, mut count) = (0, 0);
    loop {
        if let Poll::Ready(result) = work.as_mut().poll(&mut context) {
            return (result, most);
        }
        let asked = asked(core);
        assert!(!asked.is_empty(), "nothing is asked for, and something is waited for");
        most = most.max(asked.len());
        for (kind, number) in asked {
            let number = number.to_be_bytes();
            let answer = if count == refused { PERMISSION_DENIED } else { 0 };
            let reply = if matches!(kind, STAT | LSTAT) && count != refused {
                packet(
                    ATTRS,
                    &[number, 4_u32.to_be_bytes(), 0o040_755_u32.to_be_bytes()].concat(),
                )
            } else {
                packet(STATUS, &[number, answer.to_be_bytes(), [0; 4], [0; 4]].concat())
            };
            core.data(0, 0, &reply);
            count += 1;
        }
    }
}

#[test]
fn a_list_of_any_length_has_few_requests_in_flight() {
    let names: Vec<Vec<u8>> = (0..5 * AT_ONCE).map(|name| name.to_string().into_bytes()).collect();
    let modes: Vec<_> = names.iter().map(|name| (name.clone(), 0o700)).collect();
    let doomed: Vec<_> = names
        .iter()
        .map(|name| Doomed {
            path: name.clone(),
            directory: false,
        })
        .collect();
    let core = server();
    for (what, (result, most)) in [
        ("make", driven(&core, usize::MAX, make(&core, 0, &names))),
        ("set_modes", driven(&core, usize::MAX, set_modes(&core, 0, &modes))),
        ("look", driven(&core, usize::MAX, remove(&core, 0, &names, &[], |_| {}))),
        (
            "remove",
            driven(&core, usize::MAX, remove(&core, 0, &[], &doomed, |_| {})),
        ),
    ] {
        result.unwrap();
        assert!(most <= 2 * AT_ONCE, "{what}: {most}");
    }
}

#[test]
fn what_was_asked_for_behind_a_refusal_counts() {
    let doomed = |name: &str| Doomed {
        path: name.into(),
        directory: false,
    };
    let doomed = [doomed("a"), doomed("b"), doomed("c")];
    let core = server();
    let mut removed = Vec::new();
    let work = remove(&core, 0, &[], &doomed, |each| removed.push(each.path.clone()));
    let (result, _) = driven(&core, 1, work);
    assert!(result.unwrap_err().message.contains("cannot remove b"));
    assert_eq!(removed, [b"a".to_vec(), b"c".to_vec()]);
}
