//! The transfers of a run: those on their way, and the totals of the others.

use std::collections::BTreeMap;

use super::super::entry::Entry;
use crate::error::Error;
use crate::observer::Observer;
use crate::report::Transfer;
use crate::transfer::throttle::Limit;

/// Facts of every transfer in the report.
pub struct Common {
    pub limit: Limit,
    pub insecure: bool,
    pub buffer_size: u64,
}

/// The outcome of all transfers.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    pub files: u64,
    pub failed: u64,
    pub bytes: u64,
    /// The exit code of the worst failure, or 0.
    pub exit_code: u8,
}

pub struct Entries<'a> {
    observer: &'a dyn Observer,
    /// A transfer is given away as soon as it is over, instead of at the end and in the order of the command line: there may be millions of them.
    gives_away: bool,
    common: Common,
    open: BTreeMap<usize, Entry>,
    /// The number of the next transfer.
    number: usize,
    /// The rows that the observer has not taken.
    kept: Vec<Transfer>,
    totals: Totals,
}

impl<'a> Entries<'a> {
    pub fn new(observer: &'a dyn Observer, gives_away: bool, common: Common) -> Self {
        Self {
            observer,
            gives_away,
            common,
            open: BTreeMap::new(),
            number: 0,
            kept: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Adds a transfer, under the next number.
    pub fn push(&mut self, entry: Entry) {
        let number = self.number;
        self.number += 1;
        self.open.insert(number, entry);
        self.settle(number);
    }

    /// Returns the number of transfers so far.
    pub fn count(&self) -> usize {
        self.number
    }

    pub fn get_mut(&mut self, number: usize) -> Option<&mut Entry> {
        self.open.get_mut(&number)
    }

    /// Returns the transfers that are not over yet, with their numbers.
    pub fn unfinished(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let open = self.open.iter().map(|(number, entry)| (*number, entry));
        open.filter(|(_, entry)| !entry.over)
    }

    pub fn unfinished_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.open.values_mut().filter(|entry| !entry.over)
    }

    pub fn failed(&self) -> bool {
        self.totals.failed > 0 || self.open.values().any(|entry| entry.problem.is_some())
    }

    /// Ends all transfers that are not over, with this problem.
    pub fn give_up(&mut self, problem: &Error) {
        for entry in self.unfinished_mut() {
            entry.give_up(problem.clone());
        }
        for number in self.open.keys().copied().collect::<Vec<_>>() {
            self.settle(number);
        }
    }

    /// Gives a transfer away if it is over, where the run does so.
    pub fn settle(&mut self, number: usize) {
        if self.gives_away
            && self.open.get(&number).is_some_and(|entry| entry.over)
            && let Some(entry) = self.open.remove(&number)
        {
            let transfer = self.count_in(entry);
            self.kept.extend(self.observer.finished(transfer));
        }
    }

    fn count_in(&mut self, mut entry: Entry) -> Transfer {
        let Common {
            limit,
            insecure,
            buffer_size,
        } = &self.common;
        let transfer = entry.account(limit, *insecure, *buffer_size);
        self.totals.files += 1;
        self.totals.bytes += transfer.bytes;
        if let Some(failure) = &transfer.error {
            self.totals.failed += 1;
            self.totals.exit_code = self.totals.exit_code.max(failure.class.exit_code());
        }
        transfer
    }

    /// Returns the rows that the observer has not taken, in the order of the request or, in trees, of their ends.
    pub fn finish(mut self) -> (Vec<Transfer>, Totals) {
        for entry in std::mem::take(&mut self.open).into_values() {
            let transfer = self.count_in(entry);
            self.kept.push(transfer);
        }
        (self.kept, self.totals)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::observer::{Progress, Silent};
    use crate::remote::parse_remote;

    #[derive(Default)]
    struct Taker(RefCell<Vec<String>>);

    impl Observer for Taker {
        fn begin(&self, _: &str, _: Option<u64>) -> Box<dyn Progress> {
            Box::new(Silent)
        }

        fn finished(&self, transfer: Transfer) -> Option<Transfer> {
            self.0.borrow_mut().push(transfer.url);
            None
        }
    }

    fn entry(name: &str) -> Entry {
        let remote = parse_remote(&format!("sftp://me@h/{name}")).unwrap();
        Entry::refused(&remote, Error::permanent("no"))
    }

    fn run(gives_away: bool) -> (Vec<String>, Vec<String>, Totals) {
        let taker = Taker::default();
        let common = Common {
            limit: Limit::None,
            insecure: false,
            buffer_size: 1,
        };
        let mut entries = Entries::new(&taker, gives_away, common);
        let mut open = entry("a");
        open.over = false;
        open.problem = None;
        entries.push(open);
        entries.push(entry("b"));
        assert_eq!(entries.count(), 2);
        assert!(entries.failed());
        assert_eq!(entries.unfinished().map(|(number, _)| number).collect::<Vec<_>>(), [0]);
        entries.get_mut(0).unwrap().over = true;
        entries.settle(0);
        entries.push(entry("c"));
        let (kept, totals) = entries.finish();
        (
            taker.0.take(),
            kept.into_iter().map(|transfer| transfer.url).collect(),
            totals,
        )
    }

    #[test]
    fn a_transfer_of_a_tree_is_given_away_when_it_is_over() {
        let (taken, kept, totals) = run(true);
        assert_eq!(taken, ["sftp://h/b", "sftp://h/a", "sftp://h/c"]);
        assert!(kept.is_empty());
        assert_eq!((totals.files, totals.failed, totals.exit_code), (3, 2, 11));
    }

    #[test]
    fn others_are_kept_in_their_order() {
        let (taken, kept, totals) = run(false);
        assert!(taken.is_empty());
        assert_eq!(kept, ["sftp://h/a", "sftp://h/b", "sftp://h/c"]);
        assert_eq!((totals.files, totals.failed), (3, 2));
    }
}
