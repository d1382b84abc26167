//! The transfers of an HTTP run. A run may have a million: each is a URL until its turn comes, an entry while it is under way, and when it is
//! over a row of the report, or no more than its part of the totals.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::time::{Duration, Instant};

use super::entry::Entry;
use crate::options::Remote;
use crate::report::{FileSet, Percentiles, Phases, Transfer};

/// The number of transfers that wait for a connection, so that no connection waits for a transfer.
pub const AHEAD: usize = 4096;

/// The transfers to come, and the way to make entries of them.
pub struct Coming<'a> {
    pub remotes: Box<dyn Iterator<Item = &'a Remote> + 'a>,
    pub make: Box<dyn FnMut(&Remote) -> Entry + 'a>,
    /// The number of all transfers of the run.
    pub count: usize,
    /// The number of transfers that have begun, or never will.
    pub begun: usize,
}

impl<'a> Coming<'a> {
    pub fn of(
        remotes: impl ExactSizeIterator<Item = &'a Remote> + 'a,
        make: impl FnMut(&Remote) -> Entry + 'a,
    ) -> Self {
        Self {
            count: remotes.len(),
            remotes: Box::new(remotes),
            make: Box::new(make),
            begun: 0,
        }
    }

    /// Returns the next transfer's number in the run, and its entry.
    pub fn next_entry(&mut self) -> Option<(usize, Entry)> {
        let (index, remote) = self.next_remote()?;
        Some((index, (self.make)(remote)))
    }

    /// Returns the next transfer's number in the run, and its remote: for transfers that are not to begin any more.
    pub fn next_remote(&mut self) -> Option<(usize, &'a Remote)> {
        let remote = self.remotes.next()?;
        self.begun += 1;
        Some((self.begun - 1, remote))
    }
}

/// Transfers under way, by their number in the run.
#[derive(Default)]
pub struct Entries(BTreeMap<usize, Entry>);

impl Entries {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn insert(&mut self, index: usize, entry: Entry) {
        self.0.insert(index, entry);
    }

    pub fn get(&self, index: usize) -> Option<&Entry> {
        self.0.get(&index)
    }

    pub fn numbers(&self) -> Vec<usize> {
        self.0.keys().copied().collect()
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = (usize, &mut Entry)> {
        self.0.iter_mut().map(|(index, entry)| (*index, entry))
    }

    pub fn any(&self, is: impl Fn(&Entry) -> bool) -> bool {
        self.0.values().any(is)
    }

    /// Takes the entry out if it is over.
    pub fn take_over(&mut self, index: usize) -> Option<Entry> {
        if self.get(index)?.over {
            self.0.remove(&index)
        } else {
            None
        }
    }
}

/// For numbers of entries that are under way.
impl Index<usize> for Entries {
    type Output = Entry;

    fn index(&self, index: usize) -> &Entry {
        &self.0[&index]
    }
}

impl IndexMut<usize> for Entries {
    fn index_mut(&mut self, index: usize) -> &mut Entry {
        self.0.get_mut(&index).expect("the transfer is under way")
    }
}

/// The outcome of transfers that are over.
pub struct Finished {
    begin: Instant,
    /// Only failed transfers get a row.
    totals: bool,
    rows: Vec<(usize, Transfer)>,
    set: FileSet,
    latencies_us: Vec<u32>,
    /// The number of connections that were made.
    pub connections: u32,
}

impl Finished {
    pub fn new(totals: bool) -> Self {
        Self {
            begin: Instant::now(),
            totals,
            rows: Vec::new(),
            set: FileSet::default(),
            latencies_us: Vec::new(),
            connections: 0,
        }
    }

    pub fn add(&mut self, index: usize, row: Transfer) {
        self.set.files += 1;
        self.set.bytes += row.bytes;
        self.set.total_s = self.begin.elapsed().as_secs_f64();
        if let Some(protocol) = row.protocol
            && !self.set.protocols.contains(&protocol)
        {
            self.set.protocols.push(protocol);
        }
        if row.error.is_some() {
            self.set.failed += 1;
        } else {
            self.latencies_us.push(latency_us(&row.phases));
        }
        if row.error.is_some() || !self.totals {
            self.rows.push((index, row));
        }
    }

    /// The rows in the order in which they were asked for, and the totals.
    pub fn into_parts(mut self) -> (Vec<Transfer>, FileSet) {
        self.rows.sort_unstable_by_key(|(index, _)| *index);
        self.set.connections = Some(self.connections);
        self.set.latency_us = Percentiles::of(&mut self.latencies_us);
        (self.rows.into_iter().map(|(_, row)| row).collect(), self.set)
    }
}

/// Returns the time from the request to the end of its answer, by the last attempt.
fn latency_us(phases: &Phases) -> u32 {
    let connecting: f64 = [phases.dns_s, phases.connect_s, phases.tls_s]
        .into_iter()
        .flatten()
        .sum();
    let latency = Duration::try_from_secs_f64(phases.total_s - connecting).unwrap_or_default();
    u32::try_from(latency.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::remote::parse_remote;
    use crate::transfer::throttle::Limit;

    #[test]
    fn rows_come_in_the_order_of_the_list_and_totals_keep_those_that_failed() {
        let remotes: Vec<_> = (0..3)
            .map(|n| parse_remote(&format!("http://h/{n}")).unwrap())
            .collect();
        let row = |index: usize, failed: bool| {
            let mut entry = Entry::refused(&remotes[index], Error::transient("lost"));
            entry.problem = entry.problem.filter(|_| failed);
            entry.account(&Limit::None, false, 1)
        };
        for (totals, left) in [(false, &[0, 1, 2][..]), (true, &[1][..])] {
            let mut finished = Finished::new(totals);
            for index in [2, 0, 1] {
                finished.add(index, row(index, index == 1));
            }
            let (rows, set) = finished.into_parts();
            let wanted: Vec<_> = left.iter().map(|index| remotes[*index].url.as_str()).collect();
            assert_eq!(rows.iter().map(|row| row.url.as_str()).collect::<Vec<_>>(), wanted);
            assert_eq!((set.files, set.failed), (3, 1));
        }
    }

    #[test]
    fn what_is_to_come_is_counted_as_it_begins() {
        let remotes: Vec<_> = (0..2)
            .map(|n| parse_remote(&format!("http://h/{n}")).unwrap())
            .collect();
        let mut coming = Coming::of(remotes.iter(), |remote| Entry::refused(remote, Error::transient("no")));
        assert_eq!(coming.count, 2);
        let (first, entry) = coming.next_entry().unwrap();
        assert_eq!((first, entry.remote.url.path()), (0, "/0"));
        assert_eq!(coming.next_remote().map(|(index, _)| index), Some(1));
        assert!(coming.next_entry().is_none());
    }

    #[test]
    fn a_latency_does_not_count_the_connection() {
        let phases = Phases {
            dns_s: Some(0.01),
            connect_s: Some(0.02),
            tls_s: Some(0.03),
            total_s: 0.1,
            ..Phases::default()
        };
        assert_eq!(latency_us(&phases), 40_000);
        let kept = Phases {
            total_s: 0.1,
            ..Phases::default()
        };
        assert_eq!(latency_us(&kept), 100_000);
    }
}
