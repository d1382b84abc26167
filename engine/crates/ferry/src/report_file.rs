//! The report as JSON. Transfers that are over are written while the others go on, so that a run of a million files keeps none of them.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use ferry_engine::files::WholeFile;

use crate::report::{Report, SCHEMA, Transfer};

/// The text between the beginning and the end of a report without transfers.
const NONE: &str = "\"transfers\": []";

/// The destination of the JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    Stdout,
    File(PathBuf),
}

/// Written to its end by `finish`; a file keeps its old content until then, and if that never comes.
pub struct ReportFile {
    out: Out,
    /// The first failure to write: nothing is written behind it.
    broken: Option<io::Error>,
    begun: bool,
}

enum Out {
    Stdout(BufWriter<io::Stdout>),
    File(BufWriter<WholeFile>),
}

impl ReportFile {
    /// # Errors
    /// The file cannot be opened.
    pub fn open(destination: &Destination) -> io::Result<Self> {
        let out = match destination {
            Destination::Stdout => Out::Stdout(BufWriter::new(io::stdout())),
            Destination::File(path) => Out::File(BufWriter::new(WholeFile::create(path)?)),
        };
        Ok(Self {
            out,
            broken: None,
            begun: false,
        })
    }

    /// Writes a transfer that is over, in a line of its own. `finish` returns the error if that fails.
    pub fn push(&mut self, command: &str, transfer: &Transfer) {
        let text = serde_json::to_string(transfer).map_err(io::Error::from);
        self.add(command, text);
    }

    fn add(&mut self, command: &str, text: io::Result<String>) {
        if self.broken.is_some() {
            return;
        }
        let first = !std::mem::replace(&mut self.begun, true);
        let written = text.and_then(|text| {
            let out = self.out.writer();
            if first {
                let version = env!("CARGO_PKG_VERSION");
                write!(
                    out,
                    "{{\n  \"schema\": \"{SCHEMA}\",\n  \"version\": \"{version}\",\n  \"command\": \"{command}\",\n  \"transfers\": ["
                )?;
            }
            let comma = if first { "" } else { "," };
            write!(out, "{comma}\n    {text}")
        });
        self.broken = written.err();
    }

    /// The rest of the document and a line feed.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(mut self, report: &Report) -> io::Result<()> {
        let command = command_name(report);
        for transfer in &report.transfers {
            let pretty = serde_json::to_string_pretty(transfer).map_err(io::Error::from);
            self.add(&command, pretty.map(|text| text.replace('\n', "\n    ")));
        }
        let without = Report {
            transfers: Vec::new(),
            ..report.clone()
        };
        let text = serde_json::to_string_pretty(&without)?;
        let rest = if self.begun {
            let (_, rest) = text.split_once(NONE).unwrap_or_default();
            format!("\n  ]{rest}")
        } else {
            text
        };
        let out = self.out.writer();
        let written = match self.broken.take() {
            Some(problem) => Err(problem),
            None => writeln!(out, "{rest}").and_then(|()| out.flush()),
        };
        // Without what is still gathered: written later after all, the report would look complete.
        match self.out {
            Out::Stdout(out) => {
                let _ = out.into_parts();
                written
            }
            Out::File(out) => {
                let (file, _) = out.into_parts();
                written.and_then(|()| file.finish())
            }
        }
    }
}

impl Out {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Stdout(out) => out,
            Self::File(out) => out,
        }
    }
}

/// The command's name as the report spells it.
pub fn command_name(report: &Report) -> String {
    let text = serde_json::to_value(report.command).ok();
    text.and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}
