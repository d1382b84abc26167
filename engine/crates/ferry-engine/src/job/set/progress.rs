//! One line for all files of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::observer::Progress;

/// The line, and its figures.
pub struct SetProgress {
    bar: Box<dyn Progress>,
    moved: AtomicU64,
    total: AtomicU64,
}

impl SetProgress {
    pub fn new(bar: Box<dyn Progress>) -> Arc<Self> {
        Arc::new(Self {
            bar,
            moved: AtomicU64::new(0),
            total: AtomicU64::new(0),
        })
    }
}

/// The part of one file in the line.
pub struct FileProgress {
    whole: Arc<SetProgress>,
    moved: u64,
    counted: u64,
}

impl FileProgress {
    pub fn new(whole: &Arc<SetProgress>) -> Self {
        Self {
            whole: Arc::clone(whole),
            moved: 0,
            counted: 0,
        }
    }

    /// Begins an attempt of this many bytes.
    pub fn begin(&mut self, bytes: Option<u64>) {
        let bytes = bytes.unwrap_or(0);
        let more = bytes.saturating_sub(self.counted);
        self.counted += more;
        let total = self.whole.total.fetch_add(more, Ordering::Relaxed) + more;
        self.whole.bar.total(total);
    }

    pub fn set(&mut self, moved: u64) {
        let more = moved.saturating_sub(self.moved);
        self.moved += more;
        let all = self.whole.moved.fetch_add(more, Ordering::Relaxed) + more;
        self.whole.bar.moved(all);
    }
}
