//! The books of an upload.

use std::collections::BTreeMap;

use crate::error::RangeError;
use crate::ranges::RangeSet;

/// Which ranges of a file were sent, and which of them the server has acknowledged. Offsets are the file's, in bytes.
#[derive(Clone, Debug)]
pub struct Writes {
    sent_to: u64,
    /// Neither acknowledged nor in flight, below `sent_to`: jumped over, or lost.
    missing: RangeSet,
    /// Requests: offset to length.
    flying: BTreeMap<u64, u32>,
    in_flight: u64,
}

impl Writes {
    /// Nothing is sent; everything below `begin` is there.
    #[must_use]
    pub fn new(begin: u64) -> Self {
        Self {
            sent_to: begin,
            missing: RangeSet::new(),
            flying: BTreeMap::new(),
            in_flight: 0,
        }
    }

    /// A WRITE of this range leaves. Ranges need not come in order; what one jumps over is missing until it is sent.
    /// A second WRITE at the offset of one in flight replaces it, and the first is missing.
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

    /// The server has this range.
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

    /// The WRITE's channel is gone: whether the server has the range is not known. What is not in flight is left alone.
    pub fn lost(&mut self, offset: u64, length: u32) {
        if self.acknowledged(offset, length).is_ok() {
            self.missing.insert(offset..offset.saturating_add(u64::from(length)));
        }
    }

    /// What has to be sent (again) below [`Self::sent_to`].
    #[must_use]
    pub fn missing(&self) -> &RangeSet {
        &self.missing
    }

    /// Everything below is acknowledged.
    #[must_use]
    pub fn contiguous(&self) -> u64 {
        let flying = self.flying.first_key_value().map_or(u64::MAX, |(&offset, _)| offset);
        let missing = self.missing.first().map_or(u64::MAX, |range| range.start);
        self.sent_to.min(flying).min(missing)
    }

    /// Behind the highest byte that was sent.
    #[must_use]
    pub fn sent_to(&self) -> u64 {
        self.sent_to
    }

    /// Bytes that were sent and not acknowledged.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Bytes between [`Self::contiguous`] and [`Self::sent_to`]: where a crash may leave holes.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.sent_to - self.contiguous()
    }

    /// Whether all that was sent is acknowledged and nothing is missing.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.flying.is_empty() && self.missing.is_empty()
    }
}
