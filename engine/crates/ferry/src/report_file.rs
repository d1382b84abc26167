//! The report as JSON. Transfers that are over are written while the others go on, so that a run of a million files keeps none of them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::output::Destination;
use crate::report::{Report, SCHEMA, Transfer};

/// What stands in front of the transfers and behind them in a report without any.
const NONE: &str = "\"transfers\": []";

/// Written to its end by `finish`; a file keeps its old content until then, and if that never comes.
pub struct ReportFile {
    out: Out,
    /// The first failure to write: nothing is written behind it.
    broken: Option<io::Error>,
    begun: bool,
}

enum Out {
    /// Standard output, or what is there and no plain file (`/dev/null`, a pipe): replacing it would destroy it.
    Stream(BufWriter<Box<dyn Write>>),
    File(BufWriter<File>, Places),
}

struct Places {
    unfinished: PathBuf,
    target: PathBuf,
}

impl ReportFile {
    /// # Errors
    /// What opening says.
    pub fn open(destination: &Destination) -> io::Result<Self> {
        let out = match destination {
            Destination::Stdout => Out::Stream(BufWriter::new(Box::new(io::stdout()))),
            Destination::File(path) => open(path)?,
        };
        Ok(Self {
            out,
            broken: None,
            begun: false,
        })
    }

    /// A transfer that is over, in a line of its own. `finish` tells whether it was written.
    pub fn push(&mut self, command: &str, transfer: &Transfer) {
        let text = serde_json::to_string(transfer).map_err(io::Error::from);
        self.add(command, text);
    }

    fn add(&mut self, command: &str, text: io::Result<String>) {
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
        if self.broken.is_none() {
            self.broken = written.err();
        }
    }

    /// The rest of the document and a line feed.
    ///
    /// # Errors
    /// What writing said first.
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
        if let Some(problem) = self.broken.take() {
            return Err(problem);
        }
        let out = self.out.writer();
        writeln!(out, "{rest}")?;
        out.flush()?;
        if let Out::File(_, places) = &self.out {
            fs::rename(&places.unfinished, &places.target)?;
        }
        Ok(())
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if let Out::File(_, places) = &self.out {
            // Of a report that is complete nothing has this name any more.
            let _ = fs::remove_file(&places.unfinished);
        }
    }
}

impl Out {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Stream(out) => out,
            Self::File(out, _) => out,
        }
    }
}

/// As the report spells it.
pub fn command_name(report: &Report) -> String {
    let text = serde_json::to_value(report.command).ok();
    text.and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn open(path: &Path) -> io::Result<Out> {
    let target = match fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Out::Stream(BufWriter::new(Box::new(file))));
        }
        // Through a symbolic link, so that the link stays one.
        Ok(_) => fs::canonicalize(path)?,
        Err(_) => path.to_owned(),
    };
    let name = target
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", std::process::id()));
    let unfinished = target.with_file_name(hidden);
    let file = File::create(&unfinished)?;
    Ok(Out::File(BufWriter::new(file), Places { unfinished, target }))
}
