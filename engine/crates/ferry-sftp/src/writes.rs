//! The books of an upload.

use std::collections::BTreeMap;

use crate::error::RangeError;
use crate::ranges::RangeSet;

/// The byte ranges of a file that were sent, and those that the server has acknowledged. Offsets are the file's, in bytes.
#[derive(Clone, Debug)]
pub struct Writes {
    sent_to: u64,
    /// The ranges below `sent_to` that are neither acknowledged nor in flight: jumped over, or lost.
    missing: RangeSet,
    /// The requests in flight: offset to length.
    flying: BTreeMap<u64, u32>,
    in_flight: u64,
}

impl Writes {
    /// The books before the first WRITE; the server has everything below `begin`.
    #[must_use]
    pub fn new(begin: u64) -> Self {
        Self {
            sent_to: begin,
            missing: RangeSet::new(),
            flying: BTreeMap::new(),
            in_flight: 0,
        }
    }

    /// Records a WRITE of this range. Ranges need not come in order; bytes jumped over are missing until they are sent.
    /// A second WRITE at the offset of one in flight replaces it, and the bytes of the first are missing.
    pub fn sent(&mut self, offset: u64, length: u32) {
        if length == 0 {
            return;
        }
        let end = offset.saturating_add(u64::from(length));
        self.missing.insert(self.sent_to..offset);
        self.missing.remove(offset..end);
        self.sent_to = self.sent_to.max(end);
        self.in_flight += u64::from(length);
        if let Some(replaced) = self.flying.insert(offset, length) {
            self.in_flight -= u64::from(replaced);
            self.missing.insert(offset..offset.saturating_add(u64::from(replaced)));
        }
    }

    /// Records that the server has this range.
    ///
    /// # Errors
    /// [`RangeError::NotInFlight`].
    pub fn acknowledged(&mut self, offset: u64, length: u32) -> Result<(), RangeError> {
        if self.flying.get(&offset) != Some(&length) {
            return Err(RangeError::NotInFlight { offset, length });
        }
        self.flying.remove(&offset);
        self.in_flight -= u64::from(length);
        Ok(())
    }

    /// Records that the WRITE's channel is gone: the server may or may not have the range. A range not in flight is left alone.
    pub fn lost(&mut self, offset: u64, length: u32) {
        if self.acknowledged(offset, length).is_ok() {
            self.missing.insert(offset..offset.saturating_add(u64::from(length)));
        }
    }

    /// The ranges below [`Self::sent_to`] that have to be sent, for the first time or again.
    #[must_use]
    pub fn missing(&self) -> &RangeSet {
        &self.missing
    }

    /// The offset below which everything is acknowledged.
    #[must_use]
    pub fn contiguous(&self) -> u64 {
        let flying = self.flying.first_key_value().map_or(u64::MAX, |(&offset, _)| offset);
        let missing = self.missing.first().map_or(u64::MAX, |range| range.start);
        self.sent_to.min(flying).min(missing)
    }

    /// The offset behind the highest byte that was sent.
    #[must_use]
    pub fn sent_to(&self) -> u64 {
        self.sent_to
    }

    /// Bytes that were sent and not acknowledged.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Bytes between [`Self::contiguous`] and [`Self::sent_to`], among which a crash may leave holes.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.sent_to - self.contiguous()
    }

    /// Returns true once every byte sent is acknowledged and none is missing.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.flying.is_empty() && self.missing.is_empty()
    }
}
