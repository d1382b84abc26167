//! A file that several connections write at once, and the range of it that one of them writes.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::Missing;
use super::flight::{Flight, Pace, relieve};
use crate::clock::{nanos, seconds};
use crate::error::Error;
use crate::platform;
use crate::report::{SeriesBuilder, SeriesFacts};
use crate::sync::lock;

/// The bytes gathered before they are written.
const SLAB: usize = 256 * 1024;

/// The parts of a file that have come, and those on their way. Shared by the connections that fetch the file.
#[derive(Default)]
pub struct Parts {
    /// The file that the bytes are written to; `None` in it drops them.
    place: OnceLock<Option<File>>,
    state: Mutex<State>,
    /// True once nothing more is written. Held for reading by every writer.
    closed: RwLock<bool>,
}

#[derive(Default)]
struct State {
    /// Not handed out yet.
    unasked: Missing,
    /// Not handed over by any part yet.
    unseen: Missing,
    /// Not on the disk.
    absent: Missing,
    /// The size of the file is known.
    sized: bool,
    flying: BTreeMap<u64, Flight>,
    next: u64,
    /// Bytes of the file, each counted once unless it was lost again.
    bytes: u64,
    /// Parts that have come to their end.
    ranges: u32,
    began: Option<Instant>,
    ended: Option<Instant>,
    series: Option<SeriesBuilder>,
}

/// A range that one connection fetches. Bytes of it that are not on the disk when the part is dropped are missing again.
pub struct Part {
    parts: Arc<Parts>,
    id: u64,
    /// The range as it was asked for.
    range: Range<u64>,
    /// The next byte to be handed over.
    at: u64,
    /// The size of the file is unknown, so these bytes may not exist.
    guessed: bool,
    gathered: Vec<u8>,
}

impl Parts {
    #[must_use]
    pub fn new(missing: Missing) -> Arc<Self> {
        let this = Self::default();
        let mut state = lock(&this.state);
        state.sized = !missing.is_empty();
        state.unseen = missing.clone();
        state.absent = missing.clone();
        state.unasked = missing;
        drop(state);
        Arc::new(this)
    }

    /// Sets the file that the parts are written to, or none. A part may be written only after this.
    pub fn open(&self, place: Option<File>) {
        // A second answer finds the place that the first one has set.
        let _ = self.place.set(place);
    }

    /// Returns the next piece for one of `connections`. A request costs a round trip in which nothing comes: the bytes that one
    /// connection brings in four round trips are the least that is worth a request. When everything is asked for, one of `idle`
    /// connections relieves the slowest.
    pub fn take(self: &Arc<Self>, connections: usize, idle: usize, rtt: Duration) -> Option<Part> {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let seconds = state
            .began
            .zip(state.ended)
            .map_or(0.0, |(began, ended)| seconds(began, ended));
        let byte_s = state.bytes as f64 / seconds.max(rtt.as_secs_f64()).max(1e-3) / connections.max(1) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float saturates"
        )]
        let least = (4.0 * rtt.as_secs_f64() * byte_s) as u64;
        let range = match state.unasked.take(connections, least) {
            None if idle > 0 => relieve(state.flying.values_mut(), &Pace { byte_s, rtt }, now),
            range => range,
        }?;
        drop(state);
        Some(self.part(range, false))
    }

    /// Returns the beginning of a file of unknown size.
    pub fn guess(self: &Arc<Self>, bytes: u64) -> Part {
        self.part(0..bytes, true)
    }

    fn part(self: &Arc<Self>, range: Range<u64>, guessed: bool) -> Part {
        let mut state = lock(&self.state);
        let id = state.next;
        state.next += 1;
        state.flying.insert(id, Flight::new(&range));
        drop(state);
        Part {
            parts: Arc::clone(self),
            id,
            at: range.start,
            range,
            guessed,
            gathered: Vec::new(),
        }
    }

    /// The server has been asked for this part.
    pub fn asked(&self, id: u64) {
        if let Some(flight) = lock(&self.state).flying.get_mut(&id) {
            flight.asked(Instant::now());
        }
    }

    /// True while this part still brings anything: not after others have brought all of it, nor once another part is ahead of it.
    pub fn is_wanted(&self, id: u64) -> bool {
        if self.is_closed() {
            return false;
        }
        let state = lock(&self.state);
        let Some(flight) = state.flying.get(&id) else {
            return false;
        };
        let absent = !state.sized || !state.absent.within(&(flight.written..flight.end)).is_empty();
        let ahead = flight.at < flight.own_end || !state.unseen.within(&(flight.at..flight.at + 1)).is_empty();
        absent && ahead
    }

    fn is_closed(&self) -> bool {
        *self.closed.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Parts that were handed out and have not come back.
    pub fn flying(&self) -> usize {
        lock(&self.state).flying.len()
    }

    /// The ranges that are not on the disk yet.
    pub fn missing(&self) -> Missing {
        lock(&self.state).absent.clone()
    }

    /// Everything is on the disk.
    pub fn is_complete(&self) -> bool {
        let state = lock(&self.state);
        state.sized && state.absent.is_empty()
    }

    /// Bytes of this run.
    pub fn bytes(&self) -> u64 {
        lock(&self.state).bytes
    }

    /// Parts that have come to their end.
    pub fn ranges(&self) -> u32 {
        lock(&self.state).ranges
    }

    /// Flushes the written bytes to the disk.
    ///
    /// # Errors
    /// The system's own.
    pub fn sync(&self) -> std::io::Result<()> {
        match self.place.get() {
            Some(Some(file)) => file.sync_data(),
            _ => Ok(()),
        }
    }

    /// Stops all writing, even of bytes that still come. Returns when the last write is over.
    pub fn close(&self) {
        *self.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Returns the times of the first byte and of the last, and the bytes over time.
    pub fn times(&self) -> Option<(Instant, Instant, SeriesFacts)> {
        let mut state = lock(&self.state);
        let (began, ended) = (state.began?, state.ended?);
        let series = state.series.take()?;
        Some((began, ended, series.finish(nanos(ended).0)))
    }
}

impl Part {
    /// For [`Parts::is_wanted`].
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The first byte and the one behind the last, as they are asked for.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Sets the file's size, which was unknown when this part was made: the part ends there, or the rest of the file is missing.
    pub fn of_file(&mut self, size: u64) {
        if !std::mem::replace(&mut self.guessed, false) {
            return;
        }
        self.range.end = self.range.end.min(size);
        let mut state = lock(&self.parts.state);
        if let Some(flight) = state.flying.get_mut(&self.id) {
            flight.end = self.range.end;
            flight.own_end = self.range.end;
        }
        state.sized = true;
        state.unasked.add(self.range.end..size);
        state.unseen.add(self.range.start..size);
        state.absent.add(self.range.start..size);
    }

    pub(super) fn write(&mut self, data: &[u8]) -> Result<(), Error> {
        let length = data.len() as u64;
        if length > self.range.end - self.at {
            return Err(Error::integrity(format!(
                "the server sent more than the range up to byte {} that it was asked for",
                self.range.end
            )));
        }
        if self.parts.is_closed() {
            return Err(Error::local("the download is over"));
        }
        let now = Instant::now();
        let mut state = lock(&self.parts.state);
        let new = state.unseen.remove(self.at..self.at + length);
        if new > 0 {
            state.began.get_or_insert(now);
            state.ended = Some(now);
            state.bytes += new;
            state
                .series
                .get_or_insert_with(|| SeriesBuilder::new(nanos(now).0))
                .add(nanos(now).0, new);
        }
        let mut relieved = false;
        if let Some(flight) = state.flying.get_mut(&self.id) {
            flight.moved(length, now);
            relieved = flight.own_end <= flight.at;
        }
        self.at += length;
        state.ranges += u32::from(self.at == self.range.end);
        drop(state);
        self.gather(data)?;
        if relieved {
            // The file may be complete but for this.
            self.flush()?;
        }
        Ok(())
    }

    fn gather(&mut self, data: &[u8]) -> Result<(), Error> {
        if self.gathered.is_empty() && data.len() >= SLAB {
            return self.put(data, self.at);
        }
        self.gathered.extend_from_slice(data);
        if self.gathered.len() >= SLAB {
            return self.flush();
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), Error> {
        let mut gathered = std::mem::take(&mut self.gathered);
        let result = self.put(&gathered, self.at);
        gathered.clear();
        self.gathered = gathered;
        result
    }

    /// Writes `data`, which ends at `upto`.
    fn put(&mut self, data: &[u8], upto: u64) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        let closed = self.parts.closed.read().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            // The download is over, and the file may already have its final name.
            return Ok(());
        }
        if let Some(Some(file)) = self.parts.place.get() {
            platform::write_at(file, data, upto - data.len() as u64).map_err(|error| {
                Error::local(if platform::is_disk_full(&error) {
                    format!("no space left writing the file: {error}")
                } else {
                    format!("cannot write the file: {error}")
                })
                .with_io(&error)
            })?;
        }
        let mut state = lock(&self.parts.state);
        state.absent.remove(upto - data.len() as u64..upto);
        if let Some(flight) = state.flying.get_mut(&self.id) {
            flight.written = upto;
        }
        Ok(())
    }

    /// Hands the gathered bytes to the operating system, and gives the part back.
    ///
    /// # Errors
    /// Class Local. The gathered bytes are missing then.
    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut guard = lock(&self.parts.state);
        let state = &mut *guard;
        let Some(flight) = state.flying.remove(&self.id).filter(|_| !self.guessed) else {
            return;
        };
        // The gathered bytes are lost, unless another part has brought them.
        let lost = state.absent.within(&(flight.written..flight.at));
        let mut left = state.absent.within(&(flight.written..flight.end));
        // Other parts count only up to their own end: a part that goes on behind it may be far from there.
        for other in state.flying.values() {
            left.remove(other.written..other.own_end);
        }
        lost.ranges().iter().for_each(|range| state.unseen.add(range.clone()));
        left.ranges().iter().for_each(|range| state.unasked.add(range.clone()));
    }
}

#[cfg(test)]
#[path = "part_tests.rs"]
mod tests;
