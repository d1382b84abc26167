//! The user's view of a run while it lasts: progress, the files of a tree, and the report as it grows.

use std::cell::RefCell;
use std::io::{self, Write, stderr};

use ferry_engine::harmless;
use ferry_engine::observer::{Observer, Progress};

use crate::cli::Reporting;
use crate::cli::progress::Bars;
use crate::output::transfer_line;
use crate::report::{Report, Transfer};
use crate::report_file::ReportFile;

/// Watches a run, and takes the transfers of trees.
pub struct Watch {
    bars: Bars,
    quiet: bool,
    /// Every file has a line, not only those that failed.
    lists: bool,
    report: RefCell<Option<io::Result<ReportFile>>>,
    command: &'static str,
}

impl Watch {
    #[must_use]
    pub fn new(reporting: &Reporting, command: &'static str) -> Self {
        // The run goes on without its report; a fault of opening it is told at the end.
        let report = reporting.json.as_ref().map(ReportFile::open);
        Self {
            bars: Bars::new(reporting.progress),
            quiet: reporting.quiet,
            lists: reporting.verbose > 0,
            report: RefCell::new(report),
            command,
        }
    }

    /// The run is over: writes the rest of the report, if there is to be one.
    ///
    /// # Errors
    /// The error of opening or writing the report.
    pub fn finish(&self, report: &Report) -> io::Result<()> {
        match self.report.take() {
            Some(file) => file?.finish(report),
            None => Ok(()),
        }
    }
}

impl Observer for Watch {
    fn begin(&self, url: &str, total: Option<u64>) -> Box<dyn Progress> {
        self.bars.begin(url, total)
    }

    fn finished(&self, transfer: Transfer) -> Option<Transfer> {
        if !self.quiet && (self.lists || transfer.error.is_some()) {
            let line = transfer_line(&transfer);
            self.bars.aside(|| {
                // Nowhere to tell that standard error is gone.
                let _ = writeln!(stderr(), "{}", harmless(&line));
            });
        }
        if let Some(Ok(file)) = self.report.borrow_mut().as_mut() {
            file.push(self.command, &transfer);
        }
        None
    }
}
