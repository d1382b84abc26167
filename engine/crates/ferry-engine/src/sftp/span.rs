//! How far an upload may run ahead of what the server has acknowledged, and where a later run may go on: the two halves of one invariant.
//!
//! A killed upload leaves a file on the server. Pieces travel over several channels and connections, so any piece that was not acknowledged
//! may be missing from it. All of those lie less than [`WRITE_SPAN`] before the highest byte that was sent.

use ferry_sftp::Writes;

/// The longest READ and WRITE, which is OpenSSH's own maximum; more gains nothing.
pub const LARGEST_REQUEST: u32 = 255 * 1024;
/// At most so many bytes lie between the first one that is not acknowledged and the end of the last WRITE.
pub const WRITE_SPAN: u64 = 32 << 20;

/// Whether a WRITE of up to `largest` bytes behind the last one keeps the span.
pub fn may_send(writes: &Writes, largest: u32) -> bool {
    writes.span() + u64::from(largest) <= WRITE_SPAN
}

/// Below this byte, a file of `found` bytes that a killed run has left has no hole. One piece more than the span, because earlier versions
/// exceeded the span by a piece.
pub fn resume_point(found: u64) -> u64 {
    found.saturating_sub(WRITE_SPAN + u64::from(LARGEST_REQUEST))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    /// What happens next.
    #[derive(Debug, Clone)]
    enum Step {
        /// Pieces leave on a connection until the span, or this count, is reached.
        Send(u32, usize, bool),
        /// The server applies and acknowledges a piece of a connection: the oldest, or any.
        Answer(bool, Index, usize),
        /// The server applies a piece, and the acknowledgement is lost.
        Apply(Index),
        /// The client is killed, and another run goes on with what is there.
        Kill,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (1..=LARGEST_REQUEST, 1..200_usize, any::<bool>()).prop_map(|(length, count, on)| Step::Send(length, count, on)),
            4 => (any::<bool>(), any::<Index>(), 1..200_usize).prop_map(|(on, which, count)| Step::Answer(on, which, count)),
            1 => any::<Index>().prop_map(Step::Apply),
            1 => Just(Step::Kill),
        ];
        prop::collection::vec(step, 1..40)
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

        fn truncate(&mut self, size: u64) {
            self.0.retain(|from, _| *from < size);
            for end in self.0.values_mut() {
                *end = (*end).min(size);
            }
        }
    }

    proptest! {
        #[test]
        fn a_file_has_no_hole_below_the_resume_point(steps in steps()) {
            let mut file = File::default();
            let mut writes = Writes::new(0);
            // In flight, with the connection.
            let mut flying: Vec<(u64, u32, bool)> = Vec::new();
            for step in steps {
                match step {
                    Step::Send(length, count, on) => {
                        for _ in 0..count {
                            if !may_send(&writes, length) {
                                break;
                            }
                            flying.push((writes.sent_to(), length, on));
                            writes.sent(writes.sent_to(), length);
                        }
                    }
                    Step::Answer(on, which, count) => {
                        for _ in 0..count {
                            let of: Vec<_> = (0..flying.len()).filter(|at| flying[*at].2 == on).collect();
                            if of.is_empty() {
                                break;
                            }
                            let (offset, length, _) = flying.remove(*which.get(&of));
                            file.write(offset, length);
                            writes.acknowledged(offset, length).unwrap();
                        }
                    }
                    Step::Apply(which) if !flying.is_empty() => {
                        let (offset, length, _) = *which.get(&flying);
                        file.write(offset, length);
                    }
                    Step::Apply(_) => {}
                    Step::Kill => {
                        let offset = resume_point(file.size());
                        file.truncate(offset);
                        writes = Writes::new(offset);
                        flying.clear();
                    }
                }
                prop_assert!(writes.span() <= WRITE_SPAN);
                prop_assert!(file.without_hole_to() >= resume_point(file.size()));
                // Exact where the run itself goes on.
                prop_assert!(file.without_hole_to() >= writes.contiguous());
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
