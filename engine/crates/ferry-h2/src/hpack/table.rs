//! The static table (RFC 7541, Appendix A) and the decoder's dynamic table (2.3.2, section 4).

use std::collections::VecDeque;

/// Appendix A; index 1 is the first.
pub static STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// The overhead of an entry, in bytes, that counts in the table's size (RFC 7541, 4.1).
const OVERHEAD: usize = 32;

#[derive(Copy, Clone)]
struct Entry {
    at: usize,
    name: usize,
    value: usize,
    /// True if the field was found fit to be handed on when it was inserted.
    valid: bool,
}

/// The dynamic table: a queue of entries whose bytes are concatenated in one buffer, so that names and values
/// are slices. The buffer is twice as large as the table may be: the bytes of live entries are moved to its beginning
/// only when it is full, so that an insertion costs its own bytes and about as many again.
pub struct DynamicTable {
    entries: VecDeque<Entry>,
    bytes: Vec<u8>,
    size: usize,
    max: usize,
}

impl DynamicTable {
    pub fn new(max: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: Vec::new(),
            size: 0,
            max,
        }
    }

    pub fn max(&self) -> usize {
        self.max
    }

    /// Name, value and validity of the entry that is `nth` from the newest.
    #[inline]
    pub fn get(&self, nth: usize) -> Option<(&[u8], &[u8], bool)> {
        let entry = self.entries.get(self.entries.len().checked_sub(nth + 1)?)?;
        let (name, rest) = self.bytes.get(entry.at..)?.split_at_checked(entry.name)?;
        Some((name, rest.get(..entry.value)?, entry.valid))
    }

    pub fn set_max(&mut self, max: usize) {
        self.max = max;
        self.make_room(0);
    }

    /// Adds an entry; an entry larger than the table empties the table (RFC 7541, 4.4).
    pub fn insert(&mut self, name: &[u8], value: &[u8], valid: bool) {
        let length = name.len() + value.len();
        if length + OVERHEAD > self.max {
            self.entries.clear();
            self.bytes.clear();
            self.size = 0;
            return;
        }
        self.make_room(length + OVERHEAD);
        if self.bytes.len() + length > 2 * self.max {
            self.compact();
        }
        self.entries.push_back(Entry {
            at: self.bytes.len(),
            name: name.len(),
            value: value.len(),
            valid,
        });
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.size += length + OVERHEAD;
    }

    fn make_room(&mut self, length: usize) {
        while self.size + length > self.max {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.size -= oldest.name + oldest.value + OVERHEAD;
        }
    }

    fn compact(&mut self) {
        let start = self.entries.front().map_or(self.bytes.len(), |oldest| oldest.at);
        self.bytes.copy_within(start.., 0);
        self.bytes.truncate(self.bytes.len() - start);
        for entry in &mut self.entries {
            entry.at -= start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Step = (Option<usize>, Vec<u8>, Vec<u8>);

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..60);
        prop::collection::vec((prop::option::weighted(0.05, 0usize..400), bytes(), bytes()), 0..300)
    }

    proptest! {
        #[test]
        fn behaves_like_a_list(steps in steps()) {
            let mut table = DynamicTable::new(300);
            let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let size = |model: &[(Vec<u8>, Vec<u8>)]| model.iter().map(|(n, v)| n.len() + v.len() + 32).sum::<usize>();
            for (max, name, value) in steps {
                if let Some(max) = max {
                    table.set_max(max);
                } else {
                    table.insert(&name, &value, true);
                    model.insert(0, (name, value));
                }
                while size(&model) > table.max() {
                    model.pop();
                }
                for (nth, (name, value)) in model.iter().enumerate() {
                    prop_assert_eq!(table.get(nth), Some((&name[..], &value[..], true)));
                }
                prop_assert_eq!(table.get(model.len()), None);
                prop_assert!(table.bytes.len() <= 2 * 400);
            }
        }
    }
}
