//! A report as it leaves the program, against the schema that is generated from the same types.

use std::fs;

use serde_json::{Map, Value};

use super::*;
use crate::cli::report_schema;
use crate::error::Class;
use crate::report::{
    Attempt, Percentiles, Phases, ProcessUsage, SCHEMA, SendBufferFacts, SeriesBuilder, TcpSample, TlsFacts,
};
use crate::report_file::{Destination, ReportFile};

fn print_json(report: &Report, destination: &Destination) -> std::io::Result<()> {
    ReportFile::open(destination)?.finish(report)
}

fn transfer() -> Transfer {
    let failure = crate::error::Error::transient("https://example.com/x: connection reset").failure();
    Transfer {
        url: "https://example.com/x".into(),
        final_url: None,
        direction: Command::Get,
        protocol: Some("h2"),
        status: Some(200),
        remote: Some("192.0.2.1:443".into()),
        tls: Some(TlsFacts {
            version: "TLSv1.3".into(),
            cipher: "TLS_AES_128_GCM_SHA256".into(),
        }),
        insecure: false,
        connections: None,
        ranges: None,
        limit_byte_s: Some(2_000_000),
        limit_shared: true,
        buffer_size_bytes: 65_536,
        bytes: 5_242_880,
        content_encoding: Some("zstd"),
        decoded_bytes: Some(10_485_760),
        offset: 0,
        size: Some(5_242_880),
        phases: Phases {
            body_s: Some(2.625),
            total_s: 2.7,
            ..Phases::default()
        },
        body_byte_s: Some(1_997_287.6),
        wall_byte_s: Some(1_941_807.4),
        deviation: Some(-0.0014),
        shortfall_s: 0.0,
        worst_window_byte_s: Some(2_100_000.0),
        longest_gap_ms: Some(12.5),
        series: Some(SeriesBuilder::new(0).finish(20_000_000).series),
        tcp: vec![TcpSample {
            rtt_us: Some(20_000),
            ..TcpSample::default()
        }],
        sndbuf: Some(SendBufferFacts {
            mode: "auto",
            initial_bytes: Some(65_536),
            final_bytes: Some(1 << 20),
            ideal_bytes: Some(1 << 20),
            queries: 7,
            refused: None,
        }),
        checksum: None,
        attempts: vec![Attempt {
            offset: 0,
            bytes: 9,
            total_s: 0.1,
            status: None,
            waited_s: 0.0,
            error: Some(failure),
        }],
        error: None,
    }
}

fn report(transfers: Vec<Transfer>, set: Option<FileSet>) -> Report {
    Report {
        schema: SCHEMA,
        version: "0.1.0",
        command: Command::Get,
        ok: true,
        exit_code: 0,
        transfers,
        ssh: None,
        set,
        planned: None,
        error: None,
        process: ProcessUsage::default(),
    }
}

fn set() -> FileSet {
    FileSet {
        files: 50_000,
        failed: 1,
        bytes: 512_000_000,
        total_s: 2.5,
        protocols: vec!["h2"],
        connections: Some(2),
        latency_us: Some(Percentiles {
            min: 1,
            p50: 20,
            p90: 30,
            p99: 40,
            max: 50,
        }),
        ..FileSet::default()
    }
}

/// Checks a value by the part of JSON Schema that ours uses; an unknown keyword fails, so that nothing goes unchecked.
fn conforms(value: &Value, schema: &Map<String, Value>, root: &Value, at: &str) {
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "$ref" => {
                let definition = root.pointer(rule.as_str().unwrap().trim_start_matches('#'));
                conforms(value, definition.unwrap().as_object().unwrap(), root, at);
            }
            "type" => {
                let allowed = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                assert!(
                    allowed.iter().any(|kind| is_a(value, kind.as_str().unwrap())),
                    "{at}: {value} is no {rule}"
                );
            }
            "properties" => {
                for (name, value) in value.as_object().unwrap() {
                    let rule = rule
                        .get(name)
                        .unwrap_or_else(|| panic!("{at}.{name} is not in the schema"));
                    conforms(value, rule.as_object().unwrap(), root, &format!("{at}.{name}"));
                }
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    assert!(value.get(name.as_str().unwrap()).is_some(), "{at}: {name} is missing");
                }
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    conforms(item, rule.as_object().unwrap(), root, at);
                }
            }
            // The choices here are an object and null: `null` decides between them.
            "anyOf" => {
                let choices = rule.as_array().unwrap();
                let chosen = choices
                    .iter()
                    .find(|choice| value.is_null() == (choice["type"] == "null"))
                    .unwrap();
                conforms(value, chosen.as_object().unwrap(), root, at);
            }
            "oneOf" => assert!(
                rule.as_array().unwrap().iter().any(|choice| choice["const"] == *value),
                "{at}: {value}"
            ),
            "enum" => assert!(rule.as_array().unwrap().contains(value), "{at}: {value}"),
            "const" => assert_eq!(value, rule, "{at}"),
            // These speak of numbers only: null passes.
            "minimum" => assert!(value.is_null() || value.as_f64() >= rule.as_f64(), "{at}"),
            "maximum" => assert!(value.is_null() || value.as_f64() <= rule.as_f64(), "{at}"),
            "$schema" | "$defs" | "title" | "description" | "format" => {}
            _ => panic!("{at}: unknown keyword {keyword}"),
        }
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn check(value: &Value) {
    let schema: Value = serde_json::from_str(&report_schema()).unwrap();
    conforms(value, schema.as_object().unwrap(), &schema, "report");
}

#[test]
fn reports_conform_to_the_schema() {
    check(&serde_json::to_value(report(vec![transfer()], None)).unwrap());
    check(&serde_json::to_value(report(vec![], Some(set()))).unwrap());
    let mut failed = transfer();
    (failed.protocol, failed.tls, failed.series, failed.phases.body_s) = (None, None, None, None);
    failed.final_url = Some("https://example.com/y".into());
    failed.checksum = Some("sha1:00".into());
    failed.error = Some(crate::error::Error::new(Class::Integrity, "short").failure());
    let mut whole = report(vec![failed], None);
    whole.error = Some(crate::error::Error::new(Class::Local, "full").failure());
    check(&serde_json::to_value(whole).unwrap());
}

#[test]
#[should_panic(expected = "\"bytes\" is missing")]
fn a_field_that_is_missing_is_found() {
    let mut value = serde_json::to_value(report(vec![transfer()], None)).unwrap();
    value["transfers"][0].as_object_mut().unwrap().remove("bytes");
    check(&value);
}

#[test]
fn summaries() {
    let mut done = transfer();
    let line = &summary(&report(vec![done.clone()], None))[0];
    assert!(line.contains("1.997 MB/s, 10485760 bytes decoded (zstd) ("), "{line}");
    done.content_encoding = None;
    let [line] = &summary(&report(vec![done.clone()], None))[..] else {
        panic!()
    };
    assert_eq!(
        line,
        "https://example.com/x: received 5242880 bytes in 2.625 s, 1.997 MB/s (-0.14 % of the limit of 2.000 MB/s)"
    );
    (done.limit_byte_s, done.deviation, done.body_byte_s, done.direction) = (None, None, None, Command::Put);
    assert_eq!(
        summary(&report(vec![done.clone()], None)),
        ["https://example.com/x: sent 5242880 bytes in 2.625 s"]
    );
    done.error = Some(crate::error::Error::new(Class::Permanent, "404 Not Found").failure());
    assert_eq!(
        summary(&report(vec![done], None)),
        ["https://example.com/x: 404 Not Found"]
    );
    let line = &summary(&report(vec![], Some(set())))[0];
    assert_eq!(
        line,
        "50000 files, 1 failed, 512000000 bytes in 2.500 s, 20000 files/s, connections: 2, latency p50 20 us, p99 40 us"
    );
    let one = FileSet { files: 1, ..set() };
    assert_eq!(summary(&report(vec![transfer()], Some(one))).len(), 1);
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    fs::write(&path, "x".repeat(100_000)).unwrap();
    print_json(&report(vec![transfer()], None), &Destination::File(path.clone())).unwrap();
    let read: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    check(&read);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let nowhere = folder.path().join("no/report.json");
    assert!(print_json(&report(vec![], None), &Destination::File(nowhere)).is_err());
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_a_device_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    print_json(&report(vec![], None), &Destination::File(link.clone())).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&file).unwrap().contains(SCHEMA));
    // A link, so that a mistake here replaces the link and not the machine's /dev/null.
    let null = folder.path().join("null");
    std::os::unix::fs::symlink("/dev/null", &null).unwrap();
    print_json(&report(vec![], None), &Destination::File(null.clone())).unwrap();
    assert!(!fs::metadata(&null).unwrap().is_file());
}

#[test]
fn a_line_for_people_says_where_once() {
    let failed = |url: &str, message: &str| {
        let mut transfer = transfer();
        transfer.url = url.into();
        transfer.error = Some(crate::error::Error::transient(message).failure());
        transfer_line(&transfer)
    };
    let signed = "https://example.com/x?...";
    assert_eq!(
        failed(signed, "connection reset"),
        "https://example.com/x?...: connection reset"
    );
    let said = "https://example.com/x?...: connection reset";
    assert_eq!(failed(signed, said), said);
    let said = "sftp://example.com/x: permission denied";
    assert_eq!(failed("sftp://me@example.com/x", said), said);
    assert_eq!(
        failed("sftp://me@example.com/x?y", "no"),
        "sftp://me@example.com/x?y: no"
    );
}
