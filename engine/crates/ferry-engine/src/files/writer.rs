//! Gathers small pieces, so that a file's cost does not depend on the size of the pieces it comes in.

use std::fs::File;
use std::io::{self, Write};

use crate::pages::{PAGE, Pages};

/// The bytes gathered before they are written. They fit a core's own cache, where the copy costs little.
const SLAB: usize = 256 * 1024;
/// The most bytes that one call writes, so that no call takes long.
const MOST: usize = 1024 * 1024;

pub(super) struct Writer {
    file: File,
    /// Made with the first small piece.
    buffer: Pages,
    filled: usize,
    /// Bytes the system has, by offset in the file.
    written: u64,
    /// After a failure nothing more is written: a gap would be a file that lies about its length.
    broken: bool,
}

impl Writer {
    /// The file's own position is at `written`.
    pub(super) fn new(file: File, written: u64) -> Self {
        Self {
            file,
            buffer: Pages::default(),
            filled: 0,
            written,
            broken: false,
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn position(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// Gives back the memory in which pieces were gathered; nothing is in it.
    pub(super) fn release(&mut self) {
        if self.filled == 0 {
            self.buffer = Pages::default();
        }
    }

    /// Drops the gathered bytes and goes on at `offset`, where the caller has put the file's position.
    pub(super) fn reset(&mut self, offset: u64) {
        self.filled = 0;
        self.written = offset;
        self.broken = false;
    }

    pub(super) fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        if data.len() >= SLAB {
            // Pages go as they are, without a copy of ours: only the bytes that end a page and those that begin one are gathered.
            let behind = usize::try_from(self.position() % PAGE as u64).unwrap_or(0);
            let ends_page = (PAGE - behind) % PAGE;
            if self.filled > 0 || ends_page > 0 {
                let (first, later) = data.split_at(ends_page);
                self.gather_all(first)?;
                self.flush()?;
                data = later;
            }
            while data.len() >= PAGE {
                let (now, later) = data.split_at(MOST.min(data.len() - data.len() % PAGE));
                self.put(now)?;
                data = later;
            }
        }
        self.gather_all(data)
    }

    fn gather_all(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            data = self.gather(data)?;
        }
        Ok(())
    }

    /// Copies what fits and returns the rest; a full buffer is written.
    fn gather<'a>(&mut self, data: &'a [u8]) -> io::Result<&'a [u8]> {
        if self.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.buffer.grow(SLAB);
        // The first slab after a resume ends where the file's slabs end, so that the others lie on pages of the file.
        let into_slab = usize::try_from(self.written % SLAB as u64).unwrap_or(0);
        let room = SLAB - into_slab - self.filled;
        let (now, later) = data.split_at(room.min(data.len()));
        let begin = self.filled;
        self.buffer[begin..begin + now.len()].copy_from_slice(now);
        self.filled += now.len();
        if now.len() == room {
            self.flush()?;
        }
        Ok(later)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.filled == 0 {
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        let end = std::mem::take(&mut self.filled);
        let result = self.put(&buffer[..end]);
        self.buffer = buffer;
        result
    }

    /// Writes at once, past the gathered bytes: for a writer that gathers nothing, or has nothing gathered.
    pub(super) fn put(&mut self, mut data: &[u8]) -> io::Result<()> {
        if self.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        while !data.is_empty() {
            match self.file.write(data) {
                Ok(count) if count > 0 => {
                    self.written += count as u64;
                    data = &data[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another program that shares our standard output may have made it non-blocking; there is nothing else to do
                // meanwhile.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                other => {
                    self.broken = true;
                    return Err(other.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into()));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn any_sequence_of_pieces_is_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..4_000_000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0])
            .collect();
        fastrand::seed(7);
        for begin in [0_usize, 1, SLAB - 1, SLAB, 1_000_003] {
            let path = dir.path().join("f");
            std::fs::write(&path, &content[..begin]).unwrap();
            let mut writer = Writer::new(
                std::fs::OpenOptions::new().append(true).open(&path).unwrap(),
                begin as u64,
            );
            let mut at = begin;
            while at < content.len() {
                let piece = [1, 4096, 70_000, SLAB, MOST, 3 * MOST + 5][fastrand::usize(..6)].min(content.len() - at);
                writer.write(&content[at..at + piece]).unwrap();
                at += piece;
                assert_eq!(writer.position(), at as u64);
                assert!(writer.written() <= writer.position());
            }
            writer.flush().unwrap();
            assert_eq!(writer.written(), content.len() as u64);
            assert!(std::fs::read(&path).unwrap() == content);
        }
    }

    /// `cargo test --release -p ferry writer -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement"]
    fn small_pieces_cost_what_large_ones_do() {
        const BYTES: usize = 1 << 30;
        let dir = tempfile::tempdir_in(std::env::var_os("FERRY_BENCH_DIR").unwrap_or("/dev/shm".into())).unwrap();
        let data = vec![7_u8; 16 << 20];
        let mut best = [Duration::MAX; 4];
        let sizes = [4 << 10, 64 << 10, 1 << 20, 16 << 20];
        for _ in 0..7 {
            for (size, best) in sizes.into_iter().zip(&mut best) {
                let mut writer = Writer::new(File::create(dir.path().join("f")).unwrap(), 0);
                let begin = Instant::now();
                // The same piece of memory again and again, like a socket's buffer.
                for _ in 0..BYTES / size {
                    writer.write(&data[..size]).unwrap();
                }
                writer.flush().unwrap();
                *best = (*best).min(begin.elapsed());
            }
        }
        for (size, best) in sizes.into_iter().zip(best) {
            println!("{size:>9} bytes: {:.0} MB/s", BYTES as f64 / 1e6 / best.as_secs_f64());
        }
        println!("4 KiB / 1 MiB: {:.3}", best[2].as_secs_f64() / best[0].as_secs_f64());
    }
}
