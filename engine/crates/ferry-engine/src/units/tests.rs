use super::*;
use proptest::prelude::*;

fn size(text: &str) -> Option<u64> {
    text.parse().ok().map(ByteSize::bytes)
}

fn rate(text: &str) -> Option<u64> {
    text.parse().ok().map(ByteRate::bytes_per_second)
}

#[test]
fn sizes_as_they_are_typed() {
    for (text, bytes) in [
        ("4K", 4096),
        ("64KiB", 65_536),
        ("1 MiB", 1_048_576),
        ("1.5MB", 1_500_000),
        ("1048576", 1_048_576),
        ("16m", 16 << 20),
        ("1.5G", 3 << 29),
        ("2kB", 2000),
        ("2KB", 2000),
        ("7 B", 7),
        ("0", 0),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(size(text), Some(bytes), "{text}");
    }
    for text in [
        "",
        "K",
        "-1",
        "+1",
        "1e6",
        "1..5",
        "1.",
        ".5",
        "1 M B",
        "3mb",
        "3kb",
        "1Mbit",
        "18446744073709551616",
        "99999999999T",
        "٣",
    ] {
        assert_eq!(size(text), None, "{text}");
    }
}

#[test]
fn rates_as_they_are_typed() {
    for (text, bytes) in [
        ("2MB/s", 2_000_000),
        ("500K", 512_000),
        ("8 Mbit/s", 1_000_000),
        ("2000000", 2_000_000),
        ("1.5 MiB/s", 1_572_864),
        ("1M/s", 1 << 20),
        ("100 B/s", 100),
        ("0.5 Gbit/s", 62_500_000),
        ("56kbit/s", 7000),
        ("8bit/s", 1),
    ] {
        assert_eq!(rate(text), Some(bytes), "{text}");
    }
    for text in [
        "0",
        "0.1",
        "5/s",
        "5 /s",
        "2Mbps",
        "2MB/h",
        "2MB/s/s",
        "8 Mibit/s",
        "fast",
    ] {
        assert_eq!(rate(text), None, "{text}");
    }
}

#[test]
fn durations_as_they_are_typed() {
    for (text, ms) in [
        ("250ms", 250),
        ("5s", 5000),
        ("2m", 120_000),
        ("1.5 s", 1500),
        ("1h", 3_600_000),
        ("10", 10_000),
        ("0", 0),
    ] {
        assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
    }
    for text in ["", "s", "-1s", "5 d", "1e3s", "8761h", "99999999999999999999h"] {
        assert!(parse_duration(text).is_err(), "{text}");
    }
    assert!(parse_time_limit("0s").is_err());
}

#[test]
fn shown_as_people_would_type_them() {
    assert_eq!(ByteSize(65_536).to_string(), "64 KiB");
    assert_eq!(ByteSize(1_500_000).to_string(), "1.5 MB");
    assert_eq!(ByteSize(0).to_string(), "0 B");
    assert_eq!(ByteRate::new(2_000_000).unwrap().to_string(), "2 MB/s");
    assert_eq!(show_duration(Duration::from_millis(1500)), "1500ms");
    assert_eq!(show_duration(Duration::from_secs(120)), "2m");
    assert_eq!(human_bytes(2_000_123.0), "2.000 MB");
    assert_eq!(human_bytes(12.0), "12 B");
}

#[test]
fn errors_are_one_line() {
    for error in [
        "x".parse::<ByteSize>().unwrap_err(),
        "x".parse::<ByteRate>().unwrap_err(),
        parse_duration("x").unwrap_err(),
    ] {
        let line = error.to_string();
        assert!(line.starts_with("expected ") && !line.contains('\n'), "{line}");
    }
}

/// Round numbers as well as any: the former take the branches with units.
fn bytes() -> impl Strategy<Value = u64> {
    let unit = prop::sample::select(vec![
        1_u64,
        1000,
        1 << 10,
        1_000_000,
        1 << 20,
        1_000_000_000,
        1 << 30,
        1 << 40,
    ]);
    prop_oneof![any::<u64>(), (0_u64..100_000, unit).prop_map(|(n, unit)| n * unit)]
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(bytes in bytes(), nanos in 0_u64..=u64::try_from(MAX_DURATION_NS).unwrap()) {
        prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        if let Some(rate) = ByteRate::new(bytes) {
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        let duration = Duration::from_nanos(nanos);
        prop_assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
    }

    #[test]
    fn no_text_is_a_panic(text in "[0-9.]{0,30}[ a-zA-Z/]{0,8}") {
        let _ = text.parse::<ByteSize>();
        let _ = text.parse::<ByteRate>();
        let _ = parse_duration(&text);
    }
}

#[test]
fn a_peak_is_a_factor_with_two_decimals() {
    for (text, above) in [("1.5", 50), ("1.30", 30), ("2", 100), ("10", 900), ("1.31", 31)] {
        let peak: Peak = text.parse().unwrap();
        assert_eq!(peak.percent_above(), above, "{text}");
        assert_eq!(peak.to_string().parse::<Peak>(), Ok(peak));
    }
    for text in [
        "",
        "1",
        "1.1",
        "10.01",
        "1.555",
        "-2",
        "1e3",
        "99999999999",
        "1.5x",
        ".",
    ] {
        assert!(
            text.parse::<Peak>().unwrap_err().contains("with two decimals"),
            "{text}"
        );
    }
}
