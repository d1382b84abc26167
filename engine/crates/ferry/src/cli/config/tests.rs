//! Files as people write them, with the command lines that read them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use ferry_engine::options::{GetOptions, PutOptions, Version};
use proptest::prelude::*;
use tempfile::TempDir;

use super::keys;
use crate::cli::flags::Args;
use crate::cli::scope::Verb;
use crate::cli::{Invocation, Refusal, Surroundings, parse};
use crate::units::ByteRate;

const PIN: &str = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A home with a file in it.
struct Home(TempDir);

impl Home {
    fn with(text: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(home.file().parent().unwrap()).unwrap();
        Home::write(&home.file(), text);
        home
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("x").join("ferry").join("config.toml")
    }

    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        #[cfg(unix)]
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    }

    fn parse(&self, line: &str) -> Result<Invocation, Refusal> {
        self.parse_with(line, None)
    }

    fn parse_with(&self, line: &str, variable: Option<&str>) -> Result<Invocation, Refusal> {
        let folder = self.0.path().join("x").into_os_string();
        let find = |name: &str| match name {
            "XDG_CONFIG_HOME" | "APPDATA" => Some(folder.clone()),
            "FERRY_CONFIG" => variable.map(OsString::from),
            _ => None,
        };
        let around = Surroundings {
            variable: &find,
            home: Some(self.0.path().to_owned()),
        };
        parse(
            ["ferry"].into_iter().chain(line.split_whitespace()).map(OsString::from),
            &around,
        )
    }

    fn get(&self, line: &str) -> GetOptions {
        match self.parse(&format!("get {line}")) {
            Ok(Invocation::Get(options, _)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn put(&self, line: &str) -> PutOptions {
        match self.parse(&format!("put {line}")) {
            Ok(Invocation::Put(options, _)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn refused(&self, line: &str) -> String {
        match self.parse(line) {
            Err(Refusal::Usage(problem)) => {
                assert_eq!(problem.class.exit_code(), 2, "{line}");
                assert!(!problem.message.contains(char::is_control), "{line}: {problem}");
                problem.message
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    fn shown(&self, line: &str) -> serde_json::Value {
        match self.parse(&format!("config --json {line}")) {
            Ok(Invocation::Config(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("{line}: {other:?}"),
        }
    }
}

fn limit(options: &GetOptions) -> Option<u64> {
    options.transfer.limit.map(ByteRate::bytes_per_second)
}

#[test]
fn typed_before_host_before_command_before_top() {
    let home = Home::with(
        "limit-rate = 1000\nretry = 7\nstall = '1s'\n[get]\nlimit-rate = 2000\nretry = 8\n\
         [host.'*.example.org']\nlimit-rate = 3000\n[host.'b.example.org']\nlimit-rate = 4000\n[host.'*']\nlimit-rate = 5000\n",
    );
    for (line, expected) in [
        ("http://a.example.org/", 3000),
        ("http://B.Example.ORG/", 4000),
        ("http://elsewhere/", 5000),
        ("http://a.example.org/ --limit-rate 6000", 6000),
        ("sftp://b.example.org/x", 4000),
    ] {
        let options = home.get(&format!("{line} --discard"));
        assert_eq!(limit(&options), Some(expected), "{line}");
        assert_eq!(options.transfer.retries, 8, "{line}");
        assert_eq!(options.common.timeouts.stall.as_secs(), 1, "{line}");
    }
    let options = home.put("f http://a.example.org/x");
    assert_eq!(options.transfer.retries, 7);
    assert_eq!(home.get("http://h/ --discard --no-config").transfer.retries, 3);
}

#[test]
fn a_flag_typed_with_its_own_default_counts_as_typed() {
    let home = Home::with("retry = 7\n");
    assert_eq!(home.get("http://h/ --discard --retry 3").transfer.retries, 3);
    let shown = home.shown("get http://h/ --retry 3");
    let values = shown["values"].as_array().unwrap();
    let row = values.iter().find(|row| row["key"] == "retry").unwrap();
    assert_eq!(
        (row["value"].to_string().as_str(), row["from"].as_str()),
        ("\"3\"", Some("typed"))
    );
}

#[test]
fn false_takes_back_what_another_table_says() {
    let home = Home::with(
        "limit-rate = 1000\nresume = true\nheader = ['A: 1']\n[host.h]\nlimit-rate = false\nresume = false\nheader = []",
    );
    let options = home.get("http://h/x -O");
    assert!(options.transfer.limit.is_none() && !options.resume && options.common.headers.is_empty());
    let options = home.get("http://i/x -O");
    assert!(options.transfer.limit.is_some() && options.resume && options.common.headers.len() == 1);
}

#[test]
fn a_typed_flag_replaces_the_lists_of_the_file() {
    let home = Home::with("header = ['A: 1', 'B: 2']\nexclude = ['*.o']\ninclude = 'a.o'\n");
    assert_eq!(home.get("http://h/ --discard").common.headers.len(), 2);
    assert_eq!(home.get("http://h/ --discard --header C:3").common.headers.len(), 1);
    let takes = |line: &str, name: &str| {
        let options = home.get(&format!("-r sftp://h/d/ -o d {line}"));
        options.transfer.filter.takes_name(&[name], false)
    };
    // In the file's order, and none of it behind a pattern that was typed.
    assert!(!takes("", "a.o") && !takes("", "b.o") && takes("", "c"));
    assert!(takes("--exclude c", "b.o") && !takes("--exclude c", "c"));
}

#[test]
fn what_was_typed_and_contradicts_comes_first() {
    let home = Home::with(
        "http2 = true\nresume = true\n[get]\nconnections = 4\n[host.i]\ncompressed = true\n[host.h]\ninsecure = true\n\
         verbose = 2\nkey = 'k'\ncert = 'c'\n",
    );
    assert_eq!(home.get("https://h/x --http1.1 -O").common.version, Version::Http11);
    let options = home.get("https://i/x --discard");
    assert!(!options.resume && options.connections == 1 && options.transfer.compressed);
    assert_eq!(home.get("https://i/x -o f --connections 2").connections, 2);
    assert_eq!(home.get("https://j/x --discard").connections, 4);
    assert!(home.get("https://h/x -o - --range 0-1").connections == 1);
    let options = home.get("https://h/x -O --cert other --quiet");
    assert_eq!(options.common.client_certificate.unwrap().key, PathBuf::from("other"));
    assert!(!home.get(&format!("sftp://h/x -O --pin {PIN}")).common.insecure);
    let home = Home::with("netrc = true");
    let said = home.refused("get http://u@h/ --discard --password-env ABSENT");
    assert!(said.contains("ABSENT"), "{said}");
}

#[test]
fn a_key_and_a_password_stay_with_what_they_belong_to() {
    let home = Home::with("cert = 'c'\nkey = 'k'\n[host.h]\ncert = 'other'\n[host.i]\nkey = 'l'\n");
    let found = |line: &str| home.get(line).common.client_certificate.unwrap();
    let here = |name: &str| home.file().with_file_name(name);
    assert_eq!(found("http://x/ --discard").key, here("k"));
    assert_eq!(found("http://h/ --discard").key, here("other"));
    assert_eq!(found("http://i/ --discard").key, here("l"));
    assert_eq!(found("http://x/ --discard --cert typed").key, PathBuf::from("typed"));
    let home = Home::with("proxy = 'http://me@p'\nproxy-password-file = 'missing'\n");
    assert!(home.refused("get http://h/ --discard").contains("missing"));
    home.get("http://h/ --discard --proxy http://other");
}

#[test]
fn paths_are_the_files_own() {
    let home = Home::with("cacert = '~/ca'\nssh-config = 'none'\nknown-hosts = ['k', '/k']\nidentity = '~x'");
    assert_eq!(
        home.get("https://h/ --discard").common.ca_file,
        Some(home.0.path().join("ca"))
    );
    let ssh = home.get("sftp://h/x -O").common.ssh;
    let here = |name: &str| home.file().with_file_name(name);
    assert_eq!(ssh.known_hosts, [here("k"), PathBuf::from("/k")]);
    assert_eq!(ssh.identities, [here("~x")]);
}

#[test]
fn which_file_is_read() {
    let home = Home::with("retry = 5");
    let other = home.0.path().join("other.toml");
    Home::write(&other, "retry = 6");
    let retries = |line: &str, variable: Option<&str>| match home
        .parse_with(&format!("get http://h/ --discard {line}"), variable)
    {
        Ok(Invocation::Get(options, _)) => options.transfer.retries,
        other => panic!("{line}: {other:?}"),
    };
    let other = other.to_str().unwrap();
    assert_eq!(retries("", None), 5);
    assert_eq!(retries("", Some("")), 5);
    assert_eq!(retries("", Some(other)), 6);
    assert_eq!(retries("", Some("none")), 3);
    assert_eq!(retries("--no-config", Some(other)), 3);
    assert_eq!(retries("--config none", Some(other)), 3);
    assert_eq!(retries(&format!("--config {other}"), Some("none")), 6);
    fs::remove_file(home.file()).unwrap();
    assert_eq!(retries("", None), 3);
    assert!(
        home.refused("get http://h/ --discard --config missing")
            .contains("missing")
    );
    assert!(matches!(
        home.parse_with("get http://h/ --discard", Some("missing")),
        Err(Refusal::Usage(_))
    ));
}

#[cfg(unix)]
#[test]
fn a_file_that_others_may_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::with("retry = 5");
    for (mode, refused) in [(0o600, false), (0o644, false), (0o664, true), (0o646, true)] {
        fs::set_permissions(home.file(), fs::Permissions::from_mode(mode)).unwrap();
        let found = home.parse("get http://h/ --discard");
        assert_eq!(found.is_err(), refused, "{mode:o}");
    }
    assert!(home.refused("get http://h/ --discard").contains("chmod go-w"));
    home.get("http://h/ --discard --no-config");
    home.get("http://h/ --discard --config /dev/null");
}

#[test]
fn a_mistake_is_one_line_with_its_place() {
    for (text, place, why) in [
        ("retry = ", ":1", "not TOML"),
        ("\n\nnonsense = 1", ":3: nonsense", "is no flag"),
        ("limit_rate = 1", ":1: limit_rate", "write limit-rate"),
        ("--quiet = true", ":1: --quiet", "write quiet"),
        ("limit-rate = '5 parsecs'", ":1: limit-rate", "not valid"),
        ("limit-rate = true", ":1: limit-rate", "takes a text"),
        ("limit-rate = ['1', '2']", ":1: limit-rate", "one value"),
        ("limit-rate = 1979-05-27", ":1: limit-rate", "takes a text"),
        ("retry = -1", ":1: retry", "not valid"),
        ("channels = 65", ":1: channels", "1..=64"),
        ("quiet = 'yes'", ":1: quiet", "true or false"),
        ("verbose = 'much'", ":1: verbose", "how often"),
        ("verbose = 999", ":1: verbose", "1 or 2"),
        ("header = [1, true]", ":1: header", "list of texts"),
        ("header = 'Host: x'", ":1: header", "cannot be set"),
        ("include = '../x'", ":1: include", ""),
        ("proxy = 'ftp://x'", ":1: proxy", ""),
        ("cacert = ''", ":1: cacert", "a value is needed"),
        ("method = 'DELETE'", ":1: method", "PUT or POST"),
        ("retry = 1\nretry = 2", ":2", "not TOML"),
        ("http1.1 = true", ":1: http1", "\"http1.1\" = true"),
        (
            "quiet = true\nhttp2 = true\n'http1.1' = true",
            ":",
            "cannot be combined",
        ),
        ("[defaults]\nretry = 1", ":1: defaults", "no table"),
        ("get = true", ":1: get", "is a table"),
        ("[put]\nmax-filesize = '1M'", ":2: max-filesize", "ferry get has"),
        ("[host]\nretry = 1", ":2: retry", "[host.\"NAME\"]"),
        ("[host.files.example.org]\nretry = 1", ":1: example", "quoted"),
        ("[host.'http://h/']\nretry = 1", ":1: http", "is no host"),
        ("[host.'h:80']\nretry = 1", ":1: h:80", "no host's name"),
        ("output = 'f'", ":1: output", "type it"),
        ("json = true", ":1: json", "type it"),
        ("recursive = true", ":1: recursive", "type it"),
        ("config = 'f'", ":1: config", "FERRY_CONFIG"),
        ("help = true", ":1: help", "command line"),
        ("delete = true", ":1: delete", "always typed"),
        ("input = 'urls'", ":1: input", "run to run"),
        ("[bench]\nstall = '5s'", ":1: bench", "is no table"),
        ("token = 's3cret'", ":1: token", "token-file"),
        ("password = 's3cret'", ":1: password", ".netrc"),
        ("header = ['Authorization: s3cret']", ":1: header", "token-file"),
        ("header = 'cookie: s3cret'", ":1: header", "a secret"),
        ("proxy = 'http://me:s3cret@p'", ":1: proxy", "proxy-password-file"),
        ("checksum = 'sha256:00'", ":1: checksum", "algorithm"),
        ("token-file = 'f'", ":1: token-file", "one server"),
        ("[get]\ninsecure = true", ":2: insecure", "one server"),
        ("[host.'*']\npassword-env = 'P'", ":2: password-env", "one server"),
        ("[host.nobody]\nlimit-rate = 'x'", ":2: limit-rate", "not valid"),
        ("min-size = '2K'\nmax-size = '1K'", ":1", "leave nothing"),
    ] {
        let home = Home::with(text);
        let said = home.refused("get -r sftp://h/d/ -o d");
        let start = format!("{}{place}", home.file().display());
        assert!(said.contains(&start) && said.contains(why), "{text:?}: {said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
}

#[test]
fn a_table_for_some_of_the_urls_is_refused() {
    let home = Home::with("[host.a]\nretry = 1");
    let said = home.refused("get http://a/x http://b/y -O");
    assert!(said.contains("[host.\"a\"]") && said.contains("for b"), "{said}");
    assert_eq!(home.get("http://a/x http://a/y -O").transfer.retries, 1);
}

#[test]
fn a_login_of_the_file_gives_way_to_the_urls() {
    let home = Home::with("[host.h]\ntoken-env = 'ABSENT'\n[host.i]\npassword-env = 'ABSENT'\n");
    assert!(home.refused("get http://h/ --discard").contains("ABSENT"));
    for line in [
        "http://u@h/",
        "http://u:p@h/",
        "http://u:p@i/",
        "http://i/",
        "http://h/ --header Authorization:x",
    ] {
        home.get(&format!("{line} --discard"));
    }
    assert!(home.refused("get http://u@i/ --discard").contains("ABSENT"));
    assert!(home.get("sftp://i/x --discard").common.ssh.password.is_some());
}

/// A value that the flag takes.
fn sample(key: &str) -> &'static str {
    match key {
        "limit-rate" | "max-filesize" | "buffer-size" | "min-size" | "sndbuf" => "'1M'",
        "max-size" => "'2M'",
        "limit-peak" => "1.2",
        "checksum" => "'sha256'",
        "retry" | "max-redirects" | "parallel" | "max-delete" => "3",
        "channels" | "connections" => "40",
        "retry-max-wait" | "timeout-connect" | "timeout-tls" | "timeout-first-byte" | "timeout-total" | "stall"
        | "modify-window" | "older-than" => "'5s'",
        "newer-than" => "'9s'",
        "exclude" | "include" => "['*.o']",
        "exclude-from" | "ssh-config" => "'/dev/null'",
        "header" => "'A: b'",
        "resolve" => "'h:1:::1'",
        "proxy" => "'http://p'",
        "noproxy" => "'x'",
        "congestion" => "'reno'",
        "jump" => "'gate'",
        "pin" => "'SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'",
        "pinnedpubkey" => "'sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='",
        "method" => "'POST'",
        "http3" => "'fallback'",
        "verbose" => "2",
        "cacert" | "cert" | "key" | "identity" | "certificate" | "known-hosts" | "passphrase-file" => "'/f'",
        "passphrase-env" | "password-env" => "'PATH'",
        _ => "true",
    }
}

#[test]
fn no_setting_makes_another_transfer_fail() {
    let home = Home::with("");
    let commands = Args::command();
    let folder = home.0.path().display();
    let lines = [
        "get http://h/x -O",
        "get https://u:p@h/x --discard",
        "get https://h/x -o - --range 0-1",
        "get http://h/x http://h/y -O",
        "get https://h/x -o f --resume --http1.1",
        "get sftp://h/x -o f",
        "get sftp://h/x -o -",
        "get -r sftp://h/d/ -o d",
        "get -r --mirror --delete sftp://h/d/ -o d",
        "put - http://h/x",
        "put f https://h/x",
        "put f sftp://h/x",
        &format!("put {folder} sftp://h/d/"),
    ];
    let mut whole = String::new();
    let mut own = "[host.h]\n".to_owned();
    let mut tried = 0;
    for verb in Verb::ALL {
        for arg in commands.find_subcommand(verb.name()).unwrap().get_arguments() {
            let key = arg.get_long().unwrap_or_default();
            // Files that must be there and must be private have tests of their own.
            let secret = ["token-file", "token-env", "password-file", "netrc", "netrc-file"].contains(&key);
            let elsewhere =
                cfg!(not(target_os = "linux")) && ["congestion", "exclude-from", "ssh-config"].contains(&key);
            if !keys::is_key(&commands, verb, key) || secret || elsewhere || key.starts_with("proxy-password") {
                continue;
            }
            let setting = format!("\"{key}\" = {}\n", sample(key));
            let one = ["insecure", "pin", "pinnedpubkey", "password-env"].contains(&key);
            let text = if one {
                format!("[host.h]\n{setting}")
            } else {
                setting.clone()
            };
            Home::write(&home.file(), &text);
            for line in lines {
                assert!(home.parse(line).is_ok(), "{text}{line}: {:?}", home.parse(line));
                tried += 1;
            }
            let rest = if one { &mut own } else { &mut whole };
            // Two that a table cannot have together are not in the last file.
            if !rest.contains(&format!("\"{key}\""))
                && ![
                    "http2",
                    "http3",
                    "compressed",
                    "passphrase-env",
                    "quiet",
                    "pin",
                    "background",
                ]
                .contains(&key)
            {
                rest.push_str(&setting);
            }
        }
    }
    assert!(tried > 500, "{tried}");
    Home::write(&home.file(), &format!("{whole}{own}"));
    for line in lines {
        assert!(home.parse(line).is_ok(), "{whole}{own}{line}: {:?}", home.parse(line));
    }
}

#[test]
fn what_counts_is_shown_with_its_source() {
    let home = Home::with("limit-rate = '1M'\nperms = true\n[get]\nretry = 4\n[host.h]\nretry = 5\n");
    let shown = home.shown("get http://h/ --stall 3s --no-agent");
    let of = |shown: &serde_json::Value, key: &str| {
        let values = shown["values"].as_array().unwrap();
        values.iter().find(|row| row["key"] == key).unwrap().clone()
    };
    for (key, value, from, line) in [
        ("limit-rate", "\"1M\"", "file", Some(1)),
        ("retry", "\"5\"", "file", Some(6)),
        ("stall", "\"3s\"", "typed", None),
        ("timeout-tls", "\"10s\"", "default", None),
        ("no-agent", "true", "typed", None),
        ("perms", "false", "default", None),
    ] {
        let row = of(&shown, key);
        assert_eq!(
            (row["value"].to_string().as_str(), row["from"].as_str().unwrap()),
            (value, from),
            "{key}"
        );
        assert_eq!(row["line"].as_u64(), line, "{key}");
    }
    assert_eq!(shown["urls"][0], "http://h/");
    let unused = shown["not_used"].as_array().unwrap();
    let keys: Vec<_> = unused
        .iter()
        .map(|row| (row["key"].as_str().unwrap(), row["line"].as_u64().unwrap()))
        .collect();
    assert_eq!(keys, [("retry", 4), ("perms", 2)]);
    // Without a URL, no host's table; get is what is meant where no command is named.
    assert_eq!(of(&home.shown(""), "retry")["value"], "4");
    assert_eq!(of(&home.shown("put"), "retry")["from"], "default");
    assert_eq!(of(&home.shown("http://h/"), "retry")["value"], "5");
    assert_eq!(home.shown("put --no-config")["file"], serde_json::Value::Null);
    assert!(home.refused("config nonsense").contains("expected http"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_file_is_a_panic(lines in prop::collection::vec(prop_oneof![
        "\\PC{0,20}",
        "[a-z0-9.\"'=\\[\\]{},# -]{0,20}",
        prop::sample::select(vec!["[get]", "[host.\"*\"]", "[host.h]", "retry = 3", "quiet = true", "header = ['a: b']", "http1.1 = 1", "[host]",
            "limit-rate = false", "'http2' = true", "verbose = 2", "x = {a = 1}"]).prop_map(str::to_owned),
    ], 0..6)) {
        let home = Home::with(&lines.join("\n"));
        let _ = home.parse("get http://h/x -O");
        let _ = home.parse("config sftp://h/x");
    }
}
