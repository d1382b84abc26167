//! Lists of URLs as people and programs write them.

use std::ffi::OsString;
use std::fs;

use ferry_engine::options::GetOptions;
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::{Invocation, Refusal, Surroundings, parse};

struct List(TempDir);

impl List {
    fn with(bytes: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("urls"), bytes).unwrap();
        Self(folder)
    }

    fn path(&self) -> String {
        self.0.path().join("urls").display().to_string()
    }

    fn parse(&self, words: &str) -> Result<Invocation, Refusal> {
        let nobody = Surroundings {
            variable: &|_| None,
            home: None,
        };
        let line = format!("ferry get --no-config {words}");
        let mut words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        words.extend(["--input".into(), self.path().into()]);
        parse(words, &nobody)
    }

    fn get(&self, words: &str) -> GetOptions {
        match self.parse(words) {
            Ok(Invocation::Get(options, _)) => *options,
            other => panic!("{other:?}"),
        }
    }

    /// The message, without the folder.
    fn refused(&self, words: &str) -> String {
        match self.parse(words) {
            Err(Refusal::Usage(problem)) => {
                assert_eq!(problem.class.exit_code(), 2);
                assert!(!problem.message.contains(char::is_control), "{problem}");
                problem
                    .message
                    .replace(&format!("{}{}", self.0.path().display(), std::path::MAIN_SEPARATOR), "")
            }
            other => panic!("{other:?}"),
        }
    }
}

fn urls(options: &GetOptions) -> Vec<&str> {
    options.sources.iter().map(|source| source.url.as_str()).collect()
}

#[test]
fn a_line_is_a_url_and_the_typed_ones_come_first() {
    let list = List::with(
        "\u{feff}http://h/a\r\n\n  http://h/b?x#y  \n# http://h/no\n   # nor this\n\thttp://me:s3cret@h/c\n\nhttp://h/a",
    );
    let options = list.get("--discard http://i/first");
    assert_eq!(
        urls(&options),
        [
            "http://i/first",
            "http://h/a",
            "http://h/b?x",
            "http://h/c",
            "http://h/a"
        ]
    );
    assert!(options.sources[3].authorization.is_some());
    assert_eq!(urls(&List::with("sftp://h/x").get("--discard")), ["sftp://h/x"]);
    assert_eq!(urls(&List::with("\n#\n").get("--discard http://h/x")), ["http://h/x"]);
    let one = List::with("http://h/x\n");
    one.get("-o file");
    assert!(
        List::with("http://h/x\nhttp://h/y")
            .refused("-o file")
            .contains("one URL")
    );
}

#[test]
fn a_bad_line_is_named() {
    for (text, words, place, why) in [
        ("http://h/a\n\nhtp://h/b\n", "--discard", "urls:3: ", "expected http://"),
        ("x", "--discard", "urls:1: ", "expected http://"),
        ("http://h/a\n  dir=/tmp\n", "--discard", "urls:2: ", "expected http://"),
        ("http://h/a\thttp://i/a\n", "--discard", "urls:1: ", "one URL"),
        ("http://h/a\n#\nhttps://:s3cret@/\n", "--discard", "urls:3: ", "URL"),
        ("http://h/a\nhttp://h/\n", "-O", "urls:2: ", "ends in no file name"),
        (
            "http://h/a\n\nhttp://i/a\n",
            "-O",
            "urls:3: ",
            "another URL goes to the file a too",
        ),
        ("http://h/a\nhttp://h/ab\nhttp://h/a\n", "-O", "urls:3: ", "another URL"),
        (
            "https://h/a\nhttp://h/b\n",
            "--discard --http2",
            "urls:2: ",
            "needs https",
        ),
        (
            "http://h/a\nsftp://h/b\n",
            "--discard",
            "urls:2: ",
            "one kind of server",
        ),
        ("sftp://h/a\nsftp://h/b/\n", "-O", "urls:2: ", "names a directory"),
    ] {
        let message = List::with(text).refused(words);
        assert!(
            message.starts_with(place) && message.contains(why),
            "{text:?}: {message}"
        );
        assert!(!message.contains("s3cret"), "{message}");
    }
    assert!(
        List::with(b"http://h/a\n\xff\n")
            .refused("--discard")
            .starts_with("urls:2: not UTF-8")
    );
    for empty in ["", "\n", "# http://h/a\n"] {
        assert_eq!(
            List::with(empty).refused("--discard"),
            "--input urls: there is no URL in it"
        );
    }
    let gone = List::with("");
    fs::remove_file(gone.path()).unwrap();
    assert!(gone.refused("--discard").starts_with("--input urls: "));
}

#[test]
fn what_is_wrong_with_a_typed_url_has_no_line() {
    let list = List::with("http://h/a\n");
    assert!(list.refused("--discard htp://x").starts_with("htp://x: "));
    assert!(list.refused("-O http://h/").starts_with("http://h/: "));
}

#[test]
fn a_run_without_a_report_keeps_no_rows() {
    let list = List::with("http://h/a\nhttp://h/b\n");
    assert!(list.get("--discard --quiet").totals);
    assert!(list.get("--discard --totals --json").totals);
    assert!(!list.get("--discard --quiet --json").totals);
    assert!(!list.get("--discard").totals);
}

proptest! {
    /// A line has its URL whatever is around it, and a bad one its own number.
    #[test]
    fn the_number_of_a_line_is_its_editor_s(lines in prop::collection::vec("( {0,2}(#.{0,9})?|http://h/[a-z]{1,9} ?)\r?", 0..20), bad in 0_usize..20) {
        let wanted = lines.iter().filter(|line| line.trim().starts_with("http")).count();
        let list = List::with(lines.join("\n"));
        if wanted > 0 {
            prop_assert_eq!(list.get("--discard").sources.len(), wanted);
        }
        let mut lines = lines;
        let at = bad.min(lines.len());
        lines.insert(at, "nonsense".into());
        let message = List::with(lines.join("\n")).refused("--discard");
        prop_assert!(message.starts_with(&format!("urls:{}: nonsense: ", at + 1)), "{}", message);
    }
}
