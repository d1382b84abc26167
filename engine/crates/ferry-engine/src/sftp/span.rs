//! The distance by which an upload may run ahead of the server's acknowledgements, and the point from which a later run may go
//! on: the two halves of one invariant.
//!
//! A killed upload leaves a file on the server. Pieces travel over several channels and connections, so any piece that was not
//! acknowledged may be missing from the file. All such pieces lie less than [`WRITE_SPAN`] before the highest byte that was sent.
//! The file is never cut, and pieces that are still on their way when its writer is dead lie within the same span. The size of a
//! file that was taken over from a writer who may be alive tells nothing: `partial` has a mark for such files.

use ferry_sftp::Writes;

/// The longest READ and WRITE, which is OpenSSH's own maximum; more gains nothing.
pub const LARGEST_REQUEST: u32 = 255 * 1024;
/// The most bytes between the first one that is not acknowledged and the end of the last WRITE.
pub const WRITE_SPAN: u64 = 32 << 20;

/// Returns true if a WRITE of up to `largest` bytes behind the last one keeps the span.
pub fn may_send(writes: &Writes, largest: u32) -> bool {
    writes.span() + u64::from(largest) <= WRITE_SPAN
}

/// The offset below which a file of `found` bytes has no hole, if only one run has written to it. The distance is one piece more
/// than the span, because earlier versions exceeded the span by a piece.
pub fn resume_point(found: u64) -> u64 {
    found.saturating_sub(WRITE_SPAN + u64::from(LARGEST_REQUEST))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    /// The next event in the file's history.
    #[derive(Debug, Clone)]
    enum Step {
        /// Pieces leave on a connection until the span, or this count, is reached.
        Send(u32, usize, bool),
        /// The server applies and acknowledges a piece of a connection: the oldest, or any.
        Answer(bool, Index, usize),
        /// The server applies a piece, and the acknowledgement is lost.
        Apply(Index),
        /// The connection is lost, with what is on it, and the same run goes on.
        Reconnect,
        /// The writer notes what is complete.
        Note,
        /// Another run takes the file over. The writer before may live on.
        TakeOver,
    }

    fn steps() -> impl Strategy<Value = Vec<(Index, Step)>> {
        let step = prop_oneof![
            4 => (1..=LARGEST_REQUEST, 1..200_usize, any::<bool>()).prop_map(|(length, count, on)| Step::Send(length, count, on)),
            4 => (any::<bool>(), any::<Index>(), 1..200_usize).prop_map(|(on, which, count)| Step::Answer(on, which, count)),
            2 => any::<Index>().prop_map(Step::Apply),
            1 => Just(Step::Reconnect),
            2 => Just(Step::Note),
            1 => Just(Step::TakeOver),
        ];
        prop::collection::vec((any::<Index>(), step), 1..60)
    }

    /// A run that writes to the file, or did.
    struct Run {
        writes: Writes,
        /// Pieces in flight, with their connection.
        flying: Vec<(u64, u32, bool)>,
        /// Pieces that were on their way when a connection was lost, and may still arrive.
        stray: Vec<(u64, u32)>,
    }

    impl Run {
        fn new(begin: u64) -> Self {
            Self {
                writes: Writes::new(begin),
                flying: Vec::new(),
                stray: Vec::new(),
            }
        }
    }

    /// The file on the server: the ranges that are there, by their first byte.
    #[derive(Default)]
    struct File(std::collections::BTreeMap<u64, u64>);

    impl File {
        fn write(&mut self, from: u64, length: u32) {
            let end = self.0.entry(from).or_insert(from);
            *end = (*end).max(from + u64::from(length));
        }

        fn size(&self) -> u64 {
            self.0.values().copied().max().unwrap_or(0)
        }

        fn without_hole_to(&self) -> u64 {
            self.0
                .iter()
                .fold(0, |to, (from, end)| if *from <= to { to.max(*end) } else { to })
        }
    }

    const MIB: u64 = 1 << 20;

    proptest! {
        #[test]
        fn nothing_is_missing_below_the_place_where_another_run_goes_on(steps in steps()) {
            let mut file = File::default();
            let mut runs = vec![Run::new(0)];
            // The mark of the last run, once there are two.
            let mut mark: Option<u64> = None;
            for (of, step) in steps {
                let last = runs.len() - 1;
                let of = of.index(runs.len());
                let run = &mut runs[of];
                match step {
                    Step::Send(length, count, on) => {
                        for _ in 0..count {
                            if !may_send(&run.writes, length) {
                                break;
                            }
                            run.flying.push((run.writes.sent_to(), length, on));
                            run.writes.sent(run.writes.sent_to(), length);
                        }
                    }
                    Step::Answer(on, which, count) => {
                        for _ in 0..count {
                            let on: Vec<_> = (0..run.flying.len()).filter(|at| run.flying[*at].2 == on).collect();
                            if on.is_empty() {
                                break;
                            }
                            let (offset, length, _) = run.flying.remove(*which.get(&on));
                            file.write(offset, length);
                            run.writes.acknowledged(offset, length).unwrap();
                        }
                    }
                    Step::Apply(which) => {
                        let flying = run.flying.iter().map(|(offset, length, _)| (*offset, *length));
                        let all: Vec<_> = flying.chain(run.stray.iter().copied()).collect();
                        if !all.is_empty() {
                            let (offset, length) = *which.get(&all);
                            file.write(offset, length);
                        }
                    }
                    Step::Reconnect => {
                        let flying = std::mem::take(&mut run.flying);
                        run.stray.extend(flying.into_iter().map(|(offset, length, _)| (offset, length)));
                        run.writes = Writes::new(run.writes.contiguous());
                    }
                    Step::Note if of == last => mark = mark.map(|mark| mark.max(run.writes.contiguous() / MIB * MIB)),
                    Step::Note => {}
                    Step::TakeOver => {
                        let begin = mark.unwrap_or_else(|| resume_point(file.size()));
                        runs.push(Run::new(begin));
                        mark = Some(begin / MIB * MIB);
                    }
                }
                let complete = mark.unwrap_or_else(|| resume_point(file.size()));
                prop_assert!(file.without_hole_to() >= complete);
                for run in &runs {
                    prop_assert!(run.writes.span() <= WRITE_SPAN);
                    // A published file was acknowledged as a whole to one run, from where that run began, so nothing may be
                    // missing here.
                    prop_assert!(file.without_hole_to() >= run.writes.contiguous());
                }
            }
        }
    }

    #[test]
    fn a_piece_that_would_exceed_the_span_waits() {
        let mut writes = Writes::new(0);
        let mut sent = 0;
        while may_send(&writes, LARGEST_REQUEST) {
            writes.sent(writes.sent_to(), LARGEST_REQUEST);
            sent += 1;
        }
        assert_eq!(sent, WRITE_SPAN / u64::from(LARGEST_REQUEST));
        assert_eq!(resume_point(writes.sent_to()), 0);
        assert_eq!(resume_point(100 << 20), (68 << 20) - u64::from(LARGEST_REQUEST));
    }
}
