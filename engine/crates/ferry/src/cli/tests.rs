//! Command lines as people type them.

use std::path::Path;
use std::time::Duration;

use clap::CommandFactory;
use ferry_engine::options::{Algorithm, ByteRange, Source, Target, Timeouts, Version};
use http::Method;
use proptest::prelude::*;

use super::*;
use crate::net::sndbuf::SendBuffer;
use crate::report_file::Destination;

mod sftp;

fn parse_line(line: &str) -> Result<Invocation, Refusal> {
    parse_words(line.split_whitespace())
}

fn parse_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Invocation, Refusal> {
    // Nothing from the developer's own configuration.
    let nobody = Surroundings {
        variable: &|_| None,
        home: None,
    };
    parse(["ferry"].into_iter().chain(words).map(OsString::from), &nobody)
}

fn get(line: &str) -> GetOptions {
    match parse_line(&format!("get {line}")) {
        Ok(Invocation::Get(options, _)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn put(line: &str) -> PutOptions {
    match parse_line(&format!("put {line}")) {
        Ok(Invocation::Put(options, _)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn reporting(line: &str) -> Reporting {
    match parse_line(line) {
        Ok(Invocation::Get(_, reporting) | Invocation::Put(_, reporting)) => reporting,
        other => panic!("{line}: {other:?}"),
    }
}

/// The message of a command line that is refused; every refusal is exit code 2.
fn refused(line: &str) -> String {
    match parse_line(line) {
        Err(Refusal::Parser(error)) => {
            assert_eq!(error.exit_code(), 2, "{line}");
            error.to_string()
        }
        Err(Refusal::Usage(problem)) => {
            assert_eq!(problem.class.exit_code(), 2, "{line}");
            assert!(!problem.message.contains('\n'), "{line}");
            problem.message
        }
        Ok(invocation) => panic!("{line}: {invocation:?}"),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn background_goes_with_a_limit_and_over_http_with_several_connections() {
    let options = get("--discard http://h/x --background --limit-rate 2MB/s");
    assert!(options.transfer.background && options.transfer.limit.is_some());
    assert!(put("x sftp://me@h/x --background").transfer.background);
    assert!(!get("--discard http://h/x").transfer.background);
    let options = get("--discard http://h/x --background --connections 4");
    assert!(options.transfer.background && options.connections == 4);
    assert!(refused("get --discard sftp://me@h/x --background --connections 4").contains("--connections"));
    assert!(refused("put x sftp://me@h/x --background --connections 4").contains("--connections"));
}

#[cfg(not(target_os = "linux"))]
#[test]
fn background_is_refused_in_one_line_where_the_system_tells_too_little() {
    assert!(refused("get --discard http://h/x --background").starts_with("--background: only Linux"));
}

#[test]
fn the_definitions_are_consistent() {
    Args::command().debug_assert();
}

#[test]
fn defaults() {
    let options = get("https://h/x --discard");
    assert_eq!(options.target, Target::Discard);
    assert_eq!(
        (options.parallel, options.limit_each, options.resume, options.overwrite),
        (4, false, false, false)
    );
    assert_eq!(options.range, None);
    let transfer = options.transfer;
    assert_eq!((transfer.limit, transfer.buffer_size.bytes()), (None, 65_536));
    assert_eq!(
        (transfer.retries, transfer.max_redirects, transfer.checksum),
        (3, 10, None)
    );
    assert_eq!(transfer.retry_max_wait, Duration::from_secs(60));
    assert!(!transfer.retry_unreached);
    let common = options.common;
    assert_eq!((common.version, common.insecure), (Version::Auto, false));
    assert_eq!(common.ca_file, None);
    let told = reporting("get https://h/x --discard");
    assert_eq!((told.json, told.progress, told.quiet), (None, true, false));
    let [ten, thirty] = [10, 30].map(Duration::from_secs);
    assert_eq!(
        common.timeouts,
        Timeouts {
            connect: ten,
            tls: ten,
            first_byte: None,
            total: None,
            stall: thirty
        }
    );
}

#[test]
fn everything_get_takes() {
    let line = "-O https://me:secret@h/a https://h/b --limit-rate 2MB/s --limit-each --buffer-size 4K --http2 \
        --cacert ca.pem --insecure --resume --overwrite --retry 0 --retry-max-wait 0s --timeout-connect 250ms --timeout-tls 1s \
        --timeout-first-byte 2m --timeout-total 1h --stall 5s --checksum sha256 --parallel 2 --max-redirects 0 --json=r.json \
        --no-progress --quiet --sndbuf 256K --resolve H:443:[::1] --resolve [::1]:80:127.0.0.1";
    let options = get(line);
    assert_eq!(options.target, Target::FromUrl);
    assert_eq!(options.sources[0].url.as_str(), "https://h/a");
    assert!(options.sources[0].authorization.is_some() && options.sources[1].authorization.is_none());
    assert_eq!(options.sources[1].file_name.as_deref(), Some("b"));
    assert!(options.limit_each && options.resume && options.overwrite && options.parallel == 2);
    assert_eq!(options.transfer.limit.unwrap().bytes_per_second(), 2_000_000);
    assert_eq!((options.transfer.retries, options.transfer.max_redirects), (0, 0));
    assert!(options.transfer.retry_unreached);
    let common = options.common;
    assert_eq!(common.send_buffer, SendBuffer::Bytes(262_144));
    assert_eq!(get("http://h/ --discard").common.send_buffer, SendBuffer::Auto);
    assert_eq!(
        get("http://h/ --discard --sndbuf off").common.send_buffer,
        SendBuffer::Off
    );
    assert_eq!(common.version, Version::Http2);
    assert_eq!(common.timeouts.total, Some(Duration::from_secs(3600)));
    assert_eq!((common.resolve[0].host.as_str(), common.resolve[0].port), ("h", 443));
    assert_eq!(common.resolve[0].address.to_string(), "::1");
    assert_eq!(common.resolve[1].host, "[::1]");
    let told = reporting(&format!("get {line}"));
    assert_eq!(told.json, Some(Destination::File("r.json".into())));
    assert!(told.quiet && !told.progress);
}

#[test]
fn which_http() {
    for (flag, version) in [
        ("", Version::Auto),
        ("--http1.1", Version::Http11),
        ("--http2", Version::Http2),
        ("--http3", Version::Http3),
        ("--http3=only", Version::Http3),
        ("--http3=fallback", Version::Http3First),
    ] {
        assert_eq!(get(&format!("-O https://h/x {flag}")).common.version, version, "{flag}");
    }
    assert_eq!(get("-O --http3 https://h/x").common.version, Version::Http3);
}

#[test]
fn keys_are_pinned_as_curl_pins_them() {
    let keys = [
        "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "sha256//AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
    ];
    for flags in [
        format!("--pinnedpubkey {}", keys.join(";")),
        format!("--pinnedpubkey {} --pinnedpubkey {}", keys[0], keys[1]),
    ] {
        let pinned = get(&format!("-O https://h/x {flags}")).common.pinned_keys;
        assert_eq!(pinned.iter().map(ToString::to_string).collect::<Vec<_>>(), keys);
    }
    for key in [
        "key.pem",
        "sha256//AAAA",
        "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "sha256//",
        ";",
    ] {
        assert!(
            refused(&format!("get -O https://h/x --pinnedpubkey {key}")).contains("sha256//"),
            "{key}"
        );
    }
}

#[test]
fn where_it_goes() {
    assert_eq!(get("-o f http://h/").target, Target::File("f".into()));
    assert_eq!(get("-o - http://h/").target, Target::Stdout);
    assert_eq!(get("http://h/ http://h/ --discard").sources.len(), 2);
    for line in [
        "get http://h/x",
        "get http://h/x -O --discard",
        "get http://h/x -o f -O",
        "get --discard",
    ] {
        refused(line);
    }
    assert!(refused("get -o f http://h/a http://h/b").contains("one URL"));
    assert!(refused("get -O http://h/a/").contains("no file name"));
    assert!(refused("get -O http://h/a http://i/a?x").contains("the file a too"));
}

#[test]
fn what_does_not_go_together() {
    for line in [
        "get -o - http://h/x --json",
        "get -o - http://h/x --resume",
        "get -o - http://h/x --overwrite",
        "get --discard http://h/x --resume",
        "get --discard http://h/x --overwrite",
        "get -O http://h/x --resume --range 0-1",
        "get -O http://h/x --limit-each",
        "get -O https://h/x --http1.1 --http2",
        "get -O https://h/x http://h/y --http2",
        "put f http://h/x --http2",
        "get -O https://h/x --http3 --http2",
        "get -O https://h/x --http3=fallback --http1.1",
        "get -O https://h/x --http3=never",
        "get -O https://h/x http://h/y --http3",
        "get -O https://h/x --http3 --background",
        "get -O http://h/x http://h/y --checksum sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "get --json http://h/x --discard",
    ] {
        refused(line);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_congestion_control_is_one_of_this_system() {
    assert_eq!(
        get("http://h/ --discard --congestion reno")
            .common
            .congestion
            .as_deref(),
        Some("reno")
    );
    let message = refused("get http://h/ --discard --congestion nonesuch");
    assert!(
        message.contains("this system has reno") || message.contains("reno"),
        "{message}"
    );
}

#[test]
fn flags_of_other_commands_are_refused() {
    for flag in [
        "--limit-each",
        "--range 0-1",
        "--parallel 2",
        "--resume",
        "--overwrite",
        "--discard",
        "-O",
        "--input f",
        "--totals",
    ] {
        refused(&format!("put f http://h/x --limit-rate 1M {flag}"));
    }
    for flag in ["--method PUT", "--retry-unsafe", "-n 1"] {
        refused(&format!("get http://h/x --discard {flag}"));
    }
}

#[test]
fn a_compressed_body_is_fetched_as_one() {
    assert!(get("http://h/x --discard --compressed").transfer.compressed);
    assert!(!get("http://h/x --discard").transfer.compressed);
    for flag in ["-o f --resume", "--discard --range 0-1", "-o f --connections 2"] {
        assert!(refused(&format!("get http://h/x --compressed {flag}")).contains("--compressed"));
    }
    assert!(refused("get sftp://h/x --discard --compressed").contains("http URLs only"));
    refused("put f http://h/x --compressed");
}

#[test]
fn values_out_of_bounds_are_refused() {
    for flag in [
        "--buffer-size 4095",
        "--buffer-size 16777217",
        "--limit-rate 0",
        "--parallel 0",
        "--stall 0s",
        "--timeout-total 0",
        "--retry -1",
        "--sndbuf on",
        "--sndbuf 4095",
        "--sndbuf 2G",
        "--range 5-4",
        "--range -",
        "--range +1-2",
        "--range -0",
        "--range 1",
        "--checksum md5",
        "--checksum sha1:00",
        "--checksum sha256:zz",
        "--resolve h:80",
        "--resolve h:80:name",
        "--resolve h:99999:1.2.3.4",
        "--header Host:x",
        "--header content-length:1",
        "--header Transfer-Encoding:chunked",
        "--header x",
        "--header :path:/",
        "--header x:",
    ] {
        refused(&format!("get http://h/x --discard {flag}"));
    }
    assert!(
        get("http://h/x --discard --buffer-size 16M")
            .transfer
            .buffer_size
            .bytes()
            == 16 << 20
    );
}

#[test]
fn headers() {
    let words = [
        "get",
        "http://h/",
        "--discard",
        "--header",
        "X-A: 1",
        "--header",
        "x-a:  ü ",
        "--header",
        "Cookie: c=1",
    ];
    let Ok(Invocation::Get(options, _)) = parse_words(words) else {
        panic!()
    };
    let values: Vec<_> = options
        .common
        .headers
        .get_all("x-a")
        .iter()
        .map(http::HeaderValue::as_bytes)
        .collect();
    assert_eq!(values, [b"1".as_slice(), "ü".as_bytes()]);
    assert!(options.common.headers["cookie"].is_sensitive());
    assert!(parse_words(["get", "http://h/", "--discard", "--header", "X-A: 1\r\nX-B: 2"]).is_err());
    let twice = parse_words([
        "get",
        "http://u:p@h/",
        "--discard",
        "--header",
        "Authorization: Bearer hidden",
    ]);
    let Err(Refusal::Usage(problem)) = twice else { panic!() };
    assert!(problem.message.contains("one of them") && !problem.message.contains("hidden"));
}

#[test]
fn uploads() {
    let options = put("- http://h/x");
    assert_eq!(
        (options.source, options.method, options.retry_unsafe),
        (Source::Stdin, Method::PUT, false)
    );
    let line = "a/b https://h/x --method post --retry-unsafe --limit-rate 500K --json - --http1.1";
    let options = put(line);
    assert_eq!(
        (options.source, options.method),
        (Source::File(Path::new("a/b").into()), Method::POST)
    );
    assert!(options.retry_unsafe);
    assert_eq!(options.common.version, Version::Http11);
    assert_eq!(reporting(&format!("put {line}")).json, Some(Destination::Stdout));
    refused("put f http://h/x --method DELETE");
}

#[test]
fn ranges_and_checksums() {
    for (text, expected) in [
        ("0-499", ByteRange::Part { first: 0, last: 499 }),
        ("500-", ByteRange::From(500)),
        ("-500", ByteRange::Last(500)),
    ] {
        assert_eq!(
            get(&format!("http://h/x --discard --range {text}")).range,
            Some(expected)
        );
    }
    for (text, why) in [
        ("-0", "the last 0 bytes are none"),
        ("5-3", "its end is before its begin"),
        ("+5-3", "expected FIRST-LAST"),
        ("-", "expected FIRST-LAST"),
    ] {
        let line = format!("get http://h/x --discard --range {text}");
        assert!(refused(&line).contains(why), "{text}");
    }
    let checksum = get("http://h/x --discard --checksum SHA1:DA39a3ee5e6b4b0d3255bfef95601890afd80709")
        .transfer
        .checksum;
    let checksum = checksum.unwrap();
    assert_eq!(checksum.algorithm, Algorithm::Sha1);
    assert_eq!(checksum.expected.unwrap()[..3], [0xda, 0x39, 0xa3]);
}

#[test]
fn help_is_no_error() {
    for line in ["--help", "--version", "get --help", "help put"] {
        let Err(Refusal::Parser(error)) = parse_line(line) else {
            panic!("{line}")
        };
        assert_eq!(error.exit_code(), 0, "{line}");
    }
    refused("");
    refused("fetch http://h/");
}

proptest! {
    #[test]
    fn no_command_line_is_a_panic(words in prop::collection::vec(prop_oneof![
        "[ -~]{0,12}",
        prop::sample::select(vec!["get", "put", "--totals", "http://h/x", "https://u:p@h", "sftp://h/x", "sftp://h/~/", "-r", "-i", "-o", "-O", "--discard", "--json", "--range",
            "--header", "--resolve", "--checksum", "sha256:", "a:b", "-", "--limit-rate", "1é"]).prop_map(str::to_owned),
    ], 0..8)) {
        let _ = parse_words(words.iter().map(String::as_str));
    }
}
