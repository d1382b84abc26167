//! Texts that are generated from the definitions: manual page, completions, the schema of the report.

use std::io;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use schemars::generate::SchemaSettings;

use super::flags::Args;
use crate::report::Report;

/// One page for all commands: a reader of `get` wants its flags, not the name of another page.
#[must_use]
pub fn man_page() -> Vec<u8> {
    let mut page = Vec::new();
    // Writing into memory does not fail.
    let _ = write_man_page(&mut page);
    page
}

fn write_man_page(page: &mut Vec<u8>) -> io::Result<()> {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    let whole = Man::new(command.clone()).manual("User Commands");
    whole.render_title(page)?;
    page.extend(rendered(|out| whole.render_name_section(out))?.into_bytes());
    page.extend(rendered(|out| synopsis(&command).to_writer(out))?.into_bytes());
    // A section that several commands share stands once, after the commands.
    let mut shared: Vec<(String, Vec<&str>)> = Vec::new();
    for sub in command.get_subcommands() {
        let mut own = Roff::default();
        own.control("SH", [sub.get_name().to_uppercase().as_str()]);
        own.text([roman(sub.get_about().map(ToString::to_string).unwrap_or_default())]);
        page.extend(rendered(|out| own.to_writer(out))?.into_bytes());
        let options = rendered(|out| Man::new(sub.clone()).render_options_section(out))?;
        for section in options.split(".SH ").filter(|section| !section.is_empty()) {
            if let Some(options) = section.strip_prefix("OPTIONS\n") {
                page.extend_from_slice(options.as_bytes());
            } else if let Some((_, users)) = shared.iter_mut().find(|(text, _)| text == section) {
                users.push(sub.get_name());
            } else {
                shared.push((section.to_owned(), vec![sub.get_name()]));
            }
        }
    }
    for (section, users) in shared {
        let (heading, options) = section.split_once('\n').unwrap_or((&section, ""));
        let heading = format!(".SH {heading}\nOf {}.\n", users.join(", "));
        page.extend(heading.into_bytes());
        page.extend_from_slice(options.as_bytes());
    }
    let notes = rendered(|out| whole.render_extra_section(out))?;
    page.extend(notes.replacen(".SH EXTRA", ".SH NOTES", 1).into_bytes());
    Ok(())
}

/// Without the preamble (a conditional definition of the apostrophe), which the page has already.
fn rendered(render: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> io::Result<String> {
    let mut bytes = Vec::new();
    render(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    let body: Vec<_> = text
        .split_inclusive('\n')
        .filter(|line| !line.starts_with(".ie ") && !line.starts_with(".el "))
        .collect();
    Ok(body.concat())
}

fn synopsis(command: &Command) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]);
    for sub in command.get_subcommands() {
        let usage = sub.clone().render_usage().to_string();
        roff.text([roman(usage.trim_start_matches("Usage: "))]);
        roff.control("br", []);
    }
    roff
}

/// For a shell to source.
#[must_use]
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "ferry", &mut script);
    script
}

/// JSON Schema of the report, as it is written: a field that is always there is required.
#[must_use]
pub fn report_schema() -> String {
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Report>();
    format!("{:#}\n", schema.as_value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Asserts that the committed file is the program's output; `UPDATE=1 cargo test` writes the file again.
    fn is_committed(name: &str, generated: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, generated).unwrap();
        }
        // A checkout on Windows may have made its line ends of ours.
        let committed = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
        assert!(
            committed == generated,
            "engine/docs/{name} is stale; UPDATE=1 cargo test -p ferry writes it anew"
        );
    }

    #[test]
    fn the_manual_page_is_committed() {
        is_committed("ferry.1", &String::from_utf8(man_page()).unwrap());
    }

    #[test]
    fn the_schema_is_committed() {
        is_committed("ferry-report.schema.json", &report_schema());
    }

    #[test]
    fn the_manual_page_has_every_flag() {
        let page = String::from_utf8(man_page()).unwrap().replace("\\-", "-");
        for sub in Args::command().get_subcommands() {
            for flag in sub.get_arguments().filter_map(clap::Arg::get_long) {
                assert!(page.contains(&format!("\\fB--{flag}\\fR")), "{flag}");
            }
        }
    }

    #[test]
    fn every_shell_completes_the_flags() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
            let script = String::from_utf8(completions(shell)).unwrap();
            assert!(script.contains("limit-rate") && script.contains("totals"), "{shell}");
        }
    }
}
