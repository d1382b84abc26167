//! The requests in flight, by id.

use crate::wire::kind;

/// Bits of an id that are the slot's index; the others count how often it was used.
const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
/// The most requests that may be in flight at once.
pub const MAX_IN_FLIGHT: usize = 1 << INDEX_BITS;

/// The properties of a request that its reply is checked against.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    /// The name of the request for messages, e.g. `READ`.
    pub request: &'static str,
    /// The type of the reply: [`kind::STATUS`] where nothing else is asked for.
    pub kind: u8,
    /// Bytes that a READ asked for.
    pub length: u32,
}

impl Expect {
    pub const fn new(request: &'static str, kind: u8) -> Self {
        Self {
            request,
            kind,
            length: 0,
        }
    }

    pub const fn data(length: u32) -> Self {
        Self {
            request: "READ",
            kind: kind::DATA,
            length,
        }
    }
}

#[derive(Debug)]
enum State<T> {
    /// The next free slot, if there is one.
    Free(Option<u32>),
    Busy(Expect, T),
}

#[derive(Debug)]
struct Slot<T> {
    /// The high bits of the id that is, or will be, in use.
    generation: u32,
    state: State<T>,
}

/// Slots that are used again, each time under another id: a duplicate of a late reply finds no request, rather than
/// another one. A slot's ids repeat after 4096 uses.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Option<u32>,
    busy: usize,
}

impl<T> Slab<T> {
    pub const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: None,
            busy: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.busy
    }

    /// Panics above [`MAX_IN_FLIGHT`].
    #[inline]
    pub fn insert(&mut self, expect: Expect, context: T) -> u32 {
        let state = State::Busy(expect, context);
        if let Some(index) = self.free
            && let Some(slot) = self.slots.get_mut(index as usize)
        {
            self.busy += 1;
            if let State::Free(next) = slot.state {
                self.free = next;
            }
            slot.state = state;
            return slot.generation | index;
        }
        assert!(self.slots.len() < MAX_IN_FLIGHT, "too many SFTP requests in flight");
        self.busy += 1;
        let index = u32::try_from(self.slots.len()).unwrap_or(INDEX_MASK);
        self.slots.push(Slot { generation: 0, state });
        index
    }

    /// The request with this id, if it is in flight, and its context.
    #[inline]
    pub fn get(&mut self, id: u32) -> Option<(Expect, &mut T)> {
        let slot = self.slots.get_mut((id & INDEX_MASK) as usize)?;
        match &mut slot.state {
            State::Busy(expect, context) if slot.generation == id & !INDEX_MASK => Some((*expect, context)),
            _ => None,
        }
    }

    #[inline]
    pub fn remove(&mut self, id: u32) -> Option<T> {
        self.get(id)?;
        Some(self.release(id & INDEX_MASK)?.1)
    }

    /// Takes all contexts out, in the order of the slots.
    pub fn drain(&mut self) -> Vec<T> {
        let indices = 0..u32::try_from(self.slots.len()).unwrap_or(INDEX_MASK);
        indices
            .filter_map(|index| self.release(index).map(|(_, context)| context))
            .collect()
    }

    #[inline]
    fn release(&mut self, index: u32) -> Option<(Expect, T)> {
        let slot = self.slots.get_mut(index as usize)?;
        if matches!(slot.state, State::Free(_)) {
            return None;
        }
        let State::Busy(expect, context) = std::mem::replace(&mut slot.state, State::Free(self.free)) else {
            return None;
        };
        slot.generation = slot.generation.wrapping_add(1 << INDEX_BITS);
        self.free = Some(index);
        self.busy -= 1;
        Some((expect, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECT: Expect = Expect::new("CLOSE", kind::STATUS);

    #[test]
    fn a_slot_used_again_has_another_id() {
        let mut slab = Slab::new();
        let first = slab.insert(EXPECT, 'a');
        let other = slab.insert(EXPECT, 'b');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert(Expect::data(7), 'c');
        assert_ne!(first, second);
        assert_eq!(first & INDEX_MASK, second & INDEX_MASK);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some((Expect::data(7), &mut 'c')));
        assert_eq!(slab.len(), 2);
        assert_eq!(slab.get(other + 1), None);
    }

    #[test]
    fn generations_wrap() {
        let mut slab = Slab::new();
        for nth in 0..5000 {
            let id = slab.insert(EXPECT, nth);
            assert_eq!(id & INDEX_MASK, 0);
            assert_eq!(slab.remove(id), Some(nth));
            assert_eq!(slab.remove(id), None);
        }
        assert_eq!(slab.slots.len(), 1);
    }

    #[test]
    fn draining_empties_and_invalidates() {
        let mut slab = Slab::new();
        let ids: Vec<u32> = (0..4).map(|nth| slab.insert(EXPECT, nth)).collect();
        slab.remove(ids[1]);
        assert_eq!(slab.drain(), [0, 2, 3]);
        assert_eq!(slab.len(), 0);
        assert!(ids.iter().all(|id| slab.get(*id).is_none()));
        let again: Vec<u32> = (0..5).map(|nth| slab.insert(EXPECT, nth)).collect();
        assert_eq!(slab.len(), 5);
        assert!(again.iter().all(|id| slab.get(*id).is_some() && !ids.contains(id)));
    }
}
