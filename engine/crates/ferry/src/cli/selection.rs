//! The selection of a tree's files and the rules of a mirror: from the flags to the engine's options.

use std::time::SystemTime;

use ferry_engine::options::{Filter, Mirror};

use super::flags::Selection;
use crate::error::Error;
use crate::units::ByteSize;

impl Selection {
    pub fn mirroring(&self) -> Option<Mirror> {
        self.mirror.then_some(Mirror {
            delete: self.delete,
            max_delete: self.max_delete,
            dry_run: self.dry_run,
            modify_window: self.modify_window,
        })
    }

    /// Ages count from `now`.
    pub fn filter(self, now: SystemTime) -> Result<Filter, Error> {
        if let (Some(least), Some(most)) = (self.min_size, self.max_size)
            && least > most
        {
            return Err(Error::usage(format!(
                "--min-size {least} and --max-size {most} leave nothing between them"
            )));
        }
        if let (Some(newer), Some(older)) = (self.newer_than, self.older_than)
            && older > newer
        {
            return Err(Error::usage(
                "--newer-than and --older-than leave nothing between them; --newer-than takes the longer time",
            ));
        }
        let mut filter = Filter::new(self.rules.read()?)?;
        filter.min_size = self.min_size.map(ByteSize::bytes);
        filter.max_size = self.max_size.map(ByteSize::bytes);
        filter.not_before = self.newer_than.and_then(|age| now.checked_sub(age));
        filter.not_after = self.older_than.and_then(|age| now.checked_sub(age));
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::flags::{Args as CommandLine, Command};
    use super::*;
    use crate::error::Class;
    use clap::Parser;

    fn selection(words: &[&str]) -> Selection {
        let line = ["ferry", "get", "-r", "sftp://h/a/", "-o", "b"].iter().chain(words);
        match CommandLine::try_parse_from(line).unwrap().command {
            Command::Get(get) => get.selection,
            other => panic!("{other:?}"),
        }
    }

    fn takes(filter: &Filter, name: &str) -> bool {
        filter.takes_name(&[name], false)
    }

    #[test]
    fn the_order_on_the_command_line_counts() {
        let now = SystemTime::now();
        let include_first = selection(&["--include", "a.o", "--exclude", "*.o"])
            .filter(now)
            .unwrap();
        assert!(takes(&include_first, "a.o") && !takes(&include_first, "b.o"));
        let exclude_first = selection(&["--exclude=*.o", "--include=a.o", "--include", "-x"])
            .filter(now)
            .unwrap();
        assert!(!takes(&exclude_first, "a.o") && takes(&exclude_first, "-x"));
    }

    #[test]
    fn a_file_of_patterns_stands_where_its_flag_stands() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("patterns");
        std::fs::write(&file, "# comment\n; too\n\n+ a.o\n*.o\r\n- *.log\n").unwrap();
        let from = format!("--exclude-from={}", file.display());
        let filter = selection(&["--include", "b.o", &from])
            .filter(SystemTime::now())
            .unwrap();
        for (name, taken) in [
            ("a.o", true),
            ("b.o", true),
            ("c.o", false),
            ("x.log", false),
            ("# comment", true),
        ] {
            assert_eq!(takes(&filter, name), taken, "{name}");
        }
        std::fs::write(&file, "fine\n../up\n").unwrap();
        let problem = selection(&[&from]).filter(SystemTime::now()).unwrap_err();
        assert_eq!(problem.class, Class::Usage);
        assert!(
            problem.message.contains("line 2") && !problem.message.contains('\n'),
            "{problem}"
        );
        std::fs::remove_file(&file).unwrap();
        assert_eq!(
            selection(&[&from]).filter(SystemTime::now()).unwrap_err().class,
            Class::Usage
        );
    }

    #[test]
    fn sizes_and_ages() {
        let now = SystemTime::now();
        let filter = selection(&[
            "--min-size",
            "1K",
            "--max-size=1M",
            "--newer-than",
            "48h",
            "--older-than=1h",
        ])
        .filter(now)
        .unwrap();
        let ago = |hours: u64| Some(now - Duration::from_secs(hours * 3600));
        for (size, time, taken) in [
            (1024, ago(2), true),
            (1 << 20, ago(48), true),
            (1023, ago(2), false),
            ((1 << 20) + 1, ago(2), false),
            (2048, ago(49), false),
            (2048, ago(0), false),
        ] {
            assert_eq!(filter.takes_file(Some(size), time), taken, "{size} {time:?}");
        }
        for words in [
            &["--min-size", "2M", "--max-size", "1M"][..],
            &["--newer-than", "1h", "--older-than", "2h"],
        ] {
            assert_eq!(
                selection(words).filter(now).unwrap_err().class,
                Class::Usage,
                "{words:?}"
            );
        }
    }
}
