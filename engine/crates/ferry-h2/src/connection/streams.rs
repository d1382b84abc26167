//! The open streams: a hash table whose hash is the stream's number.
//!
//! Numbers rise by two, so that `number / 2` modulo the capacity spreads streams perfectly, and a look-up is one
//! comparison unless a long-lived stream is in the way. Streams lie in the table itself, ordered along each run of
//! places by their distance from home (Robin Hood hashing): consecutive numbers are neighbours, so a removal
//! must see at once that the neighbour is at home and stays there, instead of walking along all of them.
//! Once the table has grown nothing is allocated.

use crate::flow::{ReceiveWindow, SendWindow};

/// The frames that the peer may send next on a stream (RFC 9113, 8.1).
#[derive(Copy, Clone, Eq, PartialEq, Debug)]
pub enum Expect {
    /// The final response's headers, or a 1xx response.
    Response,
    /// DATA or trailers.
    Body,
    /// Nothing: `END_STREAM` has come (half closed, remote).
    Nothing,
}

#[derive(Copy, Clone, Debug)]
pub struct Stream {
    /// 0 marks a free place: no stream has that number.
    pub id: u32,
    pub expect: Expect,
    /// This side has sent `END_STREAM` (half closed, local).
    pub sent_all: bool,
    pub manual: bool,
    pub receive: ReceiveWindow,
    pub send: SendWindow,
}

impl Stream {
    pub fn new(id: u32, sent_all: bool, receive: u32, send: u32) -> Self {
        Self {
            id,
            expect: Expect::Response,
            sent_all,
            manual: false,
            receive: ReceiveWindow::new(receive),
            send: SendWindow::new(send),
        }
    }
}

pub struct Streams {
    /// A power of two, at most half full.
    places: Vec<Stream>,
    count: usize,
}

const FREE: Stream = Stream {
    id: 0,
    expect: Expect::Nothing,
    sent_all: true,
    manual: false,
    receive: ReceiveWindow::EMPTY,
    send: SendWindow::EMPTY,
};

impl Streams {
    pub fn new() -> Self {
        Self {
            places: vec![FREE; 256],
            count: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    #[inline]
    fn home(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.places.len() - 1)
    }

    /// The distance of the stream at `at` from its home.
    #[inline]
    fn distance(&self, at: usize) -> usize {
        at.wrapping_sub(self.home(self.places[at].id)) & (self.places.len() - 1)
    }

    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        let mask = self.places.len() - 1;
        let mut at = self.home(id);
        let mut distance = 0;
        loop {
            let found = self.places[at].id;
            if found == id {
                return (id != 0).then_some(at);
            }
            if found == 0 || self.distance(at) < distance {
                return None;
            }
            at = (at + 1) & mask;
            distance += 1;
        }
    }

    #[inline]
    pub fn get(&self, id: u32) -> Option<&Stream> {
        self.place(id).map(|at| &self.places[at])
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.place(id).map(|at| &mut self.places[at])
    }

    pub fn insert(&mut self, stream: Stream) {
        debug_assert!(stream.id != 0 && self.get(stream.id).is_none());
        if (self.count + 1) * 2 > self.places.len() {
            let larger = vec![FREE; self.places.len() * 2];
            let smaller = std::mem::replace(&mut self.places, larger);
            smaller
                .into_iter()
                .filter(|old| old.id != 0)
                .for_each(|old| self.put(old));
        }
        self.put(stream);
        self.count += 1;
    }

    fn put(&mut self, mut stream: Stream) {
        let mask = self.places.len() - 1;
        let mut at = self.home(stream.id);
        let mut distance = 0;
        while self.places[at].id != 0 {
            let other = self.distance(at);
            if other < distance {
                std::mem::swap(&mut stream, &mut self.places[at]);
                distance = other;
            }
            at = (at + 1) & mask;
            distance += 1;
        }
        self.places[at] = stream;
    }

    pub fn remove(&mut self, id: u32) -> bool {
        let Some(mut gap) = self.place(id) else { return false };
        let mask = self.places.len() - 1;
        loop {
            let next = (gap + 1) & mask;
            if self.places[next].id == 0 || self.distance(next) == 0 {
                break;
            }
            self.places[gap] = self.places[next];
            gap = next;
        }
        self.places[gap] = FREE;
        self.count -= 1;
        true
    }

    /// The open streams, in no particular order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.places.iter_mut().filter(|stream| stream.id != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(
            // Multiples of the capacity share a home, which makes long runs.
            steps in prop::collection::vec((any::<bool>(), (0u32..40, 0u32..20).prop_map(|(n, m)| n + m * 256)), 0..1500),
        ) {
            let mut streams = Streams::new();
            let mut model = BTreeSet::new();
            for (insert, number) in steps {
                let id = number * 2 + 1;
                if insert && model.insert(id) {
                    streams.insert(Stream::new(id, false, 1, 1));
                } else if !insert {
                    prop_assert_eq!(streams.remove(id), model.remove(&id));
                }
                prop_assert_eq!(streams.len(), model.len());
                prop_assert_eq!(streams.get(id).map(|s| s.id), model.get(&id).copied());
            }
            prop_assert!(model.iter().all(|id| streams.get(*id).is_some()));
            let all: BTreeSet<u32> = streams.iter_mut().map(|s| s.id).collect();
            prop_assert_eq!(all, model);
        }
    }

    #[test]
    fn the_free_mark_is_no_stream() {
        let mut streams = Streams::new();
        assert!(streams.get(0).is_none());
        assert!(!streams.remove(0));
    }
}
