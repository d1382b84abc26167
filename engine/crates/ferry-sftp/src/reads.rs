//! The books of a download.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::RangeError;
use crate::ranges::RangeSet;

/// The end of the file, and the source of that knowledge.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum End {
    Unknown,
    /// Set by the caller: an earlier end is an error.
    Told(u64),
    /// Seen in the reply to a READ: an earlier end corrects it.
    Seen(u64),
}

/// The byte ranges of a file, or of its remainder, that are to be requested, in flight or arrived. Offsets are the file's,
/// in bytes.
///
/// Replies may come in any order, and be short. Bytes beyond the end, because the size became known later or the file
/// grows, are counted but never requested again.
#[derive(Clone, Debug)]
pub struct Reads {
    begin: u64,
    end: End,
    /// The offset below which every byte was requested at least once: a byte there that is neither in `gaps` nor in `flying`
    /// has arrived.
    frontier: u64,
    /// The ranges to be requested again.
    gaps: RangeSet,
    /// The requests in flight: offset to length.
    flying: BTreeMap<u64, u32>,
    in_flight: u64,
    /// The offset behind the highest byte that arrived.
    highest: u64,
}

impl Reads {
    /// The books of all bytes from `begin` to `size`, or to the end of the file. A `begin` behind `size` is complete.
    #[must_use]
    pub fn new(begin: u64, size: Option<u64>) -> Self {
        Self {
            begin,
            end: size.map_or(End::Unknown, End::Told),
            frontier: begin,
            gaps: RangeSet::new(),
            flying: BTreeMap::new(),
            in_flight: 0,
            highest: begin,
        }
    }

    /// Sets the size once it is known.
    ///
    /// # Errors
    /// [`RangeError::Shrunk`] if more than that has arrived, [`RangeError::Truncated`] if the file was seen to end before.
    pub fn set_size(&mut self, size: u64) -> Result<(), RangeError> {
        if size < self.highest && self.highest > self.begin {
            return Err(RangeError::Shrunk {
                size,
                arrived: self.highest,
            });
        }
        if let End::Seen(at) = self.end
            && at < size
        {
            return Err(RangeError::Truncated { at, size });
        }
        self.end = End::Told(size);
        Ok(())
    }

    /// The next range to request, offset and length, at most `most` bytes: first the ranges answered short or lost, lowest
    /// offset first, then those never requested. `None` once everything is requested, or if `most` is 0. Without a size there
    /// is always a next range; the caller has to stop.
    pub fn next(&mut self, most: u32) -> Option<(u64, u32)> {
        let range = self.gap().unwrap_or(self.frontier..self.bound());
        let length = u32::try_from(range.end.saturating_sub(range.start)).map_or(most, |length| length.min(most));
        if length == 0 {
            return None;
        }
        let behind = range.start + u64::from(length);
        self.gaps.remove(range.start..behind);
        self.frontier = self.frontier.max(behind);
        self.flying.insert(range.start, length);
        self.in_flight += u64::from(length);
        Some((range.start, length))
    }

    /// Records that `got` of the `asked` bytes at `offset` have come, and no more will by this request: the rest is requested
    /// again. This is also for a request whose channel went away in the middle of its data.
    ///
    /// # Errors
    /// [`RangeError::NotInFlight`], [`RangeError::Empty`] if `got` is 0, [`RangeError::TooMuch`].
    pub fn arrived(&mut self, offset: u64, asked: u32, got: u32) -> Result<(), RangeError> {
        if got == 0 {
            return Err(RangeError::Empty { offset });
        }
        if got > asked {
            return Err(RangeError::TooMuch { asked, got });
        }
        self.land(offset, asked)?;
        let behind = offset + u64::from(got);
        self.highest = self.highest.max(behind);
        self.gaps.insert(behind..offset + u64::from(asked));
        Ok(())
    }

    /// Records the server's reply that no byte is at `offset` or behind it. Without a size, the file ends here at the latest;
    /// a later reply may correct this downwards.
    ///
    /// # Errors
    /// [`RangeError::NotInFlight`]; [`RangeError::Truncated`] if the size is known and `offset` is below it, after which
    /// the range counts as lost.
    pub fn end_of_file(&mut self, offset: u64, asked: u32) -> Result<(), RangeError> {
        self.land(offset, asked)?;
        // The range has not arrived; if it is behind the end, `next` does not look at it.
        self.gaps.insert(offset..offset + u64::from(asked));
        match self.end {
            End::Told(size) if offset < size => Err(RangeError::Truncated { at: offset, size }),
            End::Told(_) => Ok(()),
            End::Seen(at) => {
                self.end = End::Seen(at.min(offset));
                Ok(())
            }
            End::Unknown => {
                self.end = End::Seen(offset);
                Ok(())
            }
        }
    }

    /// Records that the request's channel is gone: its range is to be requested again. A range not in flight is left alone.
    pub fn lost(&mut self, offset: u64, asked: u32) {
        if self.land(offset, asked).is_ok() {
            self.gaps.insert(offset..offset + u64::from(asked));
        }
    }

    /// Returns true if [`Self::next`] would return a range that was answered short or lost.
    #[must_use]
    pub fn has_gap(&self) -> bool {
        self.gap().is_some()
    }

    /// Bytes that were requested and not answered.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The offset up to which everything from the beginning has arrived. Never falls, and is never behind the size.
    #[must_use]
    pub fn contiguous(&self) -> u64 {
        let flying = self.flying.first_key_value().map_or(u64::MAX, |(&offset, _)| offset);
        let gap = self.gaps.first().map_or(u64::MAX, |gap| gap.start);
        self.frontier.min(flying).min(gap).min(self.bound()).max(self.begin)
    }

    /// Returns true once everything has arrived. Requests behind the end may still be in flight.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.size().is_some_and(|size| self.contiguous() >= size)
    }

    /// The size, if set or seen; a seen size may still fall until [`Self::is_complete`].
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        match self.end {
            End::Unknown => None,
            End::Told(size) | End::Seen(size) => Some(size),
        }
    }

    /// The lowest gap below the end.
    fn gap(&self) -> Option<Range<u64>> {
        let (gap, end) = (self.gaps.first()?, self.bound());
        (gap.start < end).then(|| gap.start..gap.end.min(end))
    }

    fn bound(&self) -> u64 {
        self.size().unwrap_or(u64::MAX)
    }

    /// Removes a request from those in flight.
    fn land(&mut self, offset: u64, length: u32) -> Result<(), RangeError> {
        if self.flying.get(&offset) != Some(&length) {
            return Err(RangeError::NotInFlight { offset, length });
        }
        self.flying.remove(&offset);
        self.in_flight -= u64::from(length);
        Ok(())
    }
}
