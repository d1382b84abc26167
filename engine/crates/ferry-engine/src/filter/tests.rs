use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;

use super::*;
use crate::error::Class;

fn filter(rules: &[(bool, &str)]) -> Filter {
    let parsed = rules
        .iter()
        .map(|(include, pattern)| Rule::parse(*include, pattern).unwrap());
    Filter::new(parsed.collect()).unwrap()
}

fn takes(filter: &Filter, path: &str) -> bool {
    let directory = path.ends_with('/');
    let names: Vec<_> = path.trim_end_matches('/').split('/').collect();
    filter.takes_name(&names, directory)
}

#[test]
fn patterns_are_rsyncs() {
    for (pattern, matched, others) in [
        ("*.o", &["a.o", "sub/deeper/a.o", ".o", "a.o/"][..], &["a.op", "o"][..]),
        ("/*.o", &["a.o"], &["sub/a.o"]),
        ("cache/", &["cache/", "sub/cache/"], &["cache", "sub/cache"]),
        (
            "sub/cache",
            &["sub/cache", "a/sub/cache"],
            &["cache", "asub/cache", "sub/cache/x"],
        ),
        ("/sub/*", &["sub/a", "sub/a/"], &["sub/", "sub/a/b", "x/sub/a"]),
        ("/sub/**", &["sub/a", "sub/a/b"], &["sub/", "sub"]),
        ("a/**/b", &["a/b", "a/x/b", "z/a/x/y/b"], &["a/xb"]),
        ("**", &["a", "a/b", "a/"], &[]),
        ("?", &["a", "b/c"], &["ab"]),
        ("[a-c]x", &["ax", "d/cx"], &["dx", "x"]),
        ("[!a-c]x", &["dx"], &["ax", "/x"]),
        ("[]]", &["]"], &["[", "a"]),
        ("{a,b}", &["{a,b}"], &["a", "b"]),
        ("[{}]", &["{", "}"], &["a"]),
        (r"\*", &["*"], &["a"]),
        ("-x", &["-x"], &["x"]),
    ] {
        let filter = filter(&[(false, pattern)]);
        for path in matched {
            assert!(!takes(&filter, path), "{pattern} does not match {path}");
        }
        for path in others {
            assert!(takes(&filter, path), "{pattern} matches {path}");
        }
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let only_c = filter(&[(true, "*/"), (true, "*.c"), (false, "*")]);
    assert!(takes(&only_c, "src/") && takes(&only_c, "src/a.c") && !takes(&only_c, "src/a.o"));
    let keep_one = filter(&[(true, "important.log"), (false, "*.log")]);
    assert!(takes(&keep_one, "important.log") && !takes(&keep_one, "other.log") && takes(&keep_one, "readme"));
    let too_late = filter(&[(false, "*.log"), (true, "important.log")]);
    assert!(!takes(&too_late, "important.log"));
}

#[test]
fn names_need_not_be_utf_8() {
    let latin = filter(&[(false, "caf*")]);
    assert!(!latin.takes_name(&[b"caf\xe9"], false));
    assert!(latin.takes_name(&[b"\xe9caf"], false));
    assert!(latin.takes_name::<&[u8]>(&[], true), "the root always takes part");
}

#[test]
fn what_is_no_pattern_is_refused_in_one_line() {
    for pattern in [
        "",
        "/",
        "//",
        "a//b",
        "../a",
        "a/./b",
        "a**",
        "**a",
        "a***",
        "[a",
        "[z-a]",
        r"a\",
        "[[:alpha:]]",
    ] {
        let problem = Rule::parse(false, pattern).unwrap_err();
        assert_eq!(problem.class, Class::Usage, "{pattern}");
        assert!(
            !problem.message.contains('\n') && problem.message.len() > pattern.len() + 10,
            "{}",
            problem.message
        );
    }
}

#[test]
fn sizes_and_times_bound_files() {
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let filter = Filter {
        min_size: Some(10),
        max_size: Some(20),
        not_before: Some(at(100)),
        not_after: Some(at(200)),
        ..Filter::default()
    };
    for (size, time, taken) in [
        (Some(10), Some(at(100)), true),
        (Some(20), Some(at(200)), true),
        (Some(9), Some(at(150)), false),
        (Some(21), Some(at(150)), false),
        (Some(15), Some(at(99)), false),
        (Some(15), Some(at(201)), false),
        (None, None, true),
    ] {
        assert_eq!(filter.takes_file(size, time), taken, "{size:?} {time:?}");
    }
}

/// True if the names match the parts of a pattern. The code is as simple as possible, because the oracle uses it.
fn parts_match(pattern: &[&[u8]], names: &[&[u8]]) -> bool {
    match pattern {
        [] => names.is_empty(),
        // At the end `**` matches at least one name; elsewhere it may match none.
        [b"**"] => !names.is_empty(),
        [b"**", rest @ ..] => (0..=names.len()).any(|skipped| parts_match(rest, &names[skipped..])),
        [first, rest @ ..] => names
            .split_first()
            .is_some_and(|(name, others)| name_matches(first, name) && parts_match(rest, others)),
    }
}

fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b'*', rest @ ..] => (0..=name.len()).any(|skipped| name_matches(rest, &name[skipped..])),
        [b'?', rest @ ..] => !name.is_empty() && name_matches(rest, &name[1..]),
        [literal, rest @ ..] => name.first() == Some(literal) && name_matches(rest, &name[1..]),
    }
}

fn oracle(rules: &[(bool, String)], names: &[&[u8]], directory: bool) -> bool {
    for (include, pattern) in rules {
        let body = pattern.trim_matches('/');
        let parts: Vec<&[u8]> = body.split('/').map(str::as_bytes).collect();
        let anchored = pattern.starts_with('/');
        let mut beginnings = 0..=if anchored { 0 } else { names.len() };
        let matched = beginnings.any(|skipped| parts_match(&parts, &names[skipped..]));
        if matched && (directory || !pattern.ends_with('/')) {
            return *include;
        }
    }
    true
}

fn a_name() -> impl Strategy<Value = String> {
    "[ab.{}]{1,3}".prop_filter("not a name", |name| name != "." && name != "..")
}

fn a_pattern() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        3 => "[ab.?{}]{1,3}",
        2 => "[ab]?\\*[ab]?",
        1 => Just("**".to_owned()),
    ]
    .prop_filter("not a part", |part| part != "." && part != "..");
    (any::<bool>(), prop::collection::vec(part, 1..4), any::<bool>()).prop_map(|(anchored, parts, directories)| {
        let slash = |wanted| if wanted { "/" } else { "" };
        format!("{}{}{}", slash(anchored), parts.join("/"), slash(directories))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_filter_is_what_the_oracle_says(
        rules in prop::collection::vec((any::<bool>(), a_pattern()), 0..5),
        names in prop::collection::vec(a_name(), 1..5),
        directory in any::<bool>(),
    ) {
        let parsed: Vec<_> = rules.iter().map(|(include, pattern)| Rule::parse(*include, pattern).unwrap()).collect();
        let filter = Filter::new(parsed).unwrap();
        let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        prop_assert_eq!(filter.takes_name(&names, directory), oracle(&rules, &names, directory));
    }

    #[test]
    fn no_pattern_panics(pattern in ".{0,12}", name in prop::collection::vec(any::<u8>(), 0..8)) {
        if let Ok(rule) = Rule::parse(false, &pattern) {
            let filter = Filter::new(vec![rule]).unwrap();
            let _ = filter.takes_name(&[name], true);
        }
    }
}
