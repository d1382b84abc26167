use std::time::Duration;

use proptest::prelude::*;

use super::super::inventory::Kind;
use super::*;
use crate::remote::parse_remote;

fn names(path: &str) -> Names {
    path.split('/').map(|name| name.as_bytes().to_vec()).collect()
}

/// A trailing slash makes a directory, a `!` in front a thing to be kept.
fn thing(text: &str) -> Thing {
    let path = text.trim_start_matches('!');
    Thing {
        names: names(path.trim_end_matches('/')),
        kind: if path.ends_with('/') {
            FileKind::Directory
        } else {
            FileKind::Regular
        },
        stamp: Stamp::default(),
        keep: text.starts_with('!'),
    }
}

fn things(paths: &[&str]) -> Vec<Thing> {
    paths.iter().map(|path| thing(path)).collect()
}

/// An `@` at the end makes a link, or anything else whose inside the source does not show.
fn source(paths: &[&str]) -> Inventory {
    let mut made = Inventory::default();
    for path in paths {
        let kind = if path.ends_with('@') {
            Kind::PassedOver
        } else {
            Kind::Listed
        };
        made.add(names(path.trim_end_matches('@')), kind);
    }
    made
}

fn removed(there: &[&str], from: &[&str]) -> Vec<String> {
    let there = things(there);
    let found = surplus(&there, &source(from), &HashSet::new());
    found
        .iter()
        .map(|thing| String::from_utf8(thing.names.join(&b'/')).unwrap())
        .collect()
}

fn state(mirror: &Mirror) -> State {
    State::new(mirror, &parse_remote("sftp://me@h/tree").unwrap())
}

#[test]
fn what_the_source_does_not_have_goes_children_first() {
    assert_eq!(
        removed(
            &[
                "a",
                "old",
                "gone/",
                "gone/x",
                "gone/sub/",
                "gone/sub/y",
                "both/",
                "both/z"
            ],
            &["a", "both"]
        ),
        ["old", "gone/x", "gone/sub/y", "gone/sub", "gone", "both/z"]
    );
}

#[test]
fn what_is_kept_keeps_its_directories() {
    assert_eq!(
        removed(&["gone/", "gone/x", "gone/sub/", "!gone/sub/y"], &["a"]),
        ["gone/x"]
    );
}

#[test]
fn what_lies_below_a_name_that_the_source_does_not_look_into_stays() {
    let there = ["data/", "data/x", "data/sub/", "data/sub/y", "dat", "other/", "other/z"];
    assert_eq!(removed(&there, &["data@"]), ["other/z", "other", "dat"]);
    assert_eq!(
        removed(&["a/", "a/link/", "a/link/x", "a/y"], &["a", "a/link@"]),
        ["a/y"]
    );
    // The same name where case is ignored.
    assert!(removed(&["Data/", "Data/x", "Data/sub/", "Data/sub/y"], &["data@"]).is_empty());
    assert_eq!(
        removed(&["Data/", "Data/x", "data/", "data/x"], &["data@"]),
        ["Data/x", "Data"],
        "both are seen"
    );
}

#[test]
fn unfinished_files_of_ferry_stay_where_they_can_be_gone_on_with() {
    let left = [
        ".a.ferry-partial",
        ".a.ferry-partial.json",
        ".a.0123.ferry-part",
        ".a.0123.ferry-old0",
    ];
    assert!(removed(&left, &["a"]).is_empty());
    assert_eq!(
        removed(&["gone/", "gone/.a.ferry-partial"], &["a"]),
        ["gone/.a.ferry-partial", "gone"]
    );
    assert_eq!(
        removed(&["a.ferry-part"], &["a"]),
        ["a.ferry-part"],
        "that is the user's"
    );
}

/// A day and more before everything else.
const LONG_AGO: u64 = 1_000_000_000;

/// The removed parts of uploads. `written`: the last write to each; `changed`: the last change of its directory; `began`: the start of the run.
fn left_parts_removed(written: u64, changed: u64, began: u64) -> Vec<String> {
    let at = |path: &str, modified: u64| Thing {
        stamp: Stamp {
            modified: Some(modified),
            ..Stamp::default()
        },
        ..thing(path)
    };
    let long = "x".repeat(226);
    let cut = format!(".{long}.0123456789abcdef.ferry-part");
    let parts = [
        ".a.0123456789abcdef.ferry-part",
        ".a.0123456789abcdef.fedcba9876543210.ferry-part",
        ".a.0123456789abcdef+fedcba9876543210.ferry-mark",
        "sub/.b.0123456789abcdef.ferry-part",
        &cut,
        // Not of a file of this set.
        ".b.0123456789abcdef.ferry-part",
        ".link.0123456789abcdef.ferry-part",
        ".sub.0123456789abcdef.ferry-part",
        ".xx.0123456789abcdef.ferry-part",
        "!.a.1123456789abcdef.ferry-part",
        // Not parts of uploads: a file that was replaced, and the remainder of a download.
        ".a.0123456789abcdef.ferry-old0",
        ".a.ferry-partial",
    ];
    let mut there = vec![at("sub/", changed)];
    there.extend(parts.iter().map(|path| at(path, written)));
    let mut state = state(&Mirror::default());
    state.root_modified = Some(changed);
    state.began = began;
    for (path, kind) in [
        ("a", Kind::File),
        ("sub", Kind::Listed),
        ("sub/b", Kind::File),
        ("link", Kind::PassedOver),
        (&format!("{long}yz"), Kind::File),
    ] {
        state.source.add(names(path), kind);
    }
    let removed = |state: &State| -> Vec<String> {
        let found = state.surplus(&there).unwrap();
        found
            .iter()
            .map(|thing| String::from_utf8(thing.names.join(&b'/')).unwrap())
            .collect()
    };
    let found = removed(&state);
    assert!(
        found.is_empty() || found.len() == 5 && parts[..5].iter().all(|part| found.iter().any(|name| name == part)),
        "{found:?}"
    );
    state.local = Some("here".into());
    assert!(removed(&state).is_empty(), "a download's destination has none");
    found
}

#[test]
fn parts_of_uploads_that_nobody_goes_on_with_are_removed() {
    let (now, later) = (LONG_AGO + ABANDONED_S, LONG_AGO + 10 * ABANDONED_S);
    for (changed, began, goes) in [
        (now, now, true),
        (later, later, true),
        // By one of the clocks the part may still have a writer.
        (now - 1, later, false),
        (later, now - 1, false),
        (LONG_AGO, later, false),
        (LONG_AGO - 1, later, false),
    ] {
        let found = left_parts_removed(LONG_AGO, changed, began);
        assert_eq!(!found.is_empty(), goes, "{changed} {began}");
    }
}

#[test]
fn another_spelling_stays_unless_both_are_there() {
    assert!(removed(&["readme"], &["README"]).is_empty());
    assert_eq!(removed(&["readme", "README"], &["README"]), ["readme"]);
    assert!(removed(&["Sub/", "Sub/a"], &["sub", "sub/a"]).is_empty());
}

#[test]
fn nothing_is_removed_for_an_empty_source_or_beyond_the_limit() {
    let there = things(&["a", "b"]);
    let empty = state(&Mirror {
        delete: true,
        ..Mirror::default()
    });
    assert!(
        empty
            .surplus(&there)
            .unwrap_err()
            .message
            .contains("the source is empty")
    );
    assert!(empty.surplus(&[]).unwrap().is_empty());
    for (most, fine) in [(Some(0), false), (Some(1), false), (Some(2), true), (None, true)] {
        let mut limited = state(&Mirror {
            delete: true,
            max_delete: most,
            ..Mirror::default()
        });
        limited.source = source(&["c"]);
        assert_eq!(limited.surplus(&there).is_ok(), fine, "{most:?}");
    }
}

#[test]
fn size_and_time_tell_whether_a_file_differs() {
    let stamp = |size, modified| Stamp {
        size,
        modified,
        mode: None,
    };
    let there = |stamp| Some((FileKind::Regular, stamp));
    let exact = state(&Mirror::default());
    let loose = state(&Mirror {
        modify_window: Duration::from_secs(2),
        ..Mirror::default()
    });
    let source = stamp(Some(5), Some(100));
    assert_eq!(exact.verdict(source, None), Verdict::Transfer);
    for (other, in_exact, in_loose) in [
        (stamp(Some(5), Some(100)), Verdict::Unchanged, Verdict::Unchanged),
        (stamp(Some(5), Some(98)), Verdict::Transfer, Verdict::Unchanged),
        (stamp(Some(5), Some(103)), Verdict::Transfer, Verdict::Transfer),
        (stamp(Some(6), Some(100)), Verdict::Transfer, Verdict::Transfer),
        (stamp(None, Some(100)), Verdict::Transfer, Verdict::Transfer),
        (stamp(Some(5), None), Verdict::Transfer, Verdict::Transfer),
    ] {
        assert_eq!(exact.verdict(source, there(other)), in_exact, "{other:?}");
        assert_eq!(loose.verdict(source, there(other)), in_loose, "{other:?}");
    }
    for kind in [FileKind::Directory, FileKind::Symlink, FileKind::Other] {
        assert!(
            matches!(exact.verdict(source, Some((kind, source))), Verdict::Blocked(_)),
            "{kind:?}"
        );
    }
}

fn a_path() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[abAB]|\\.x\\.ferry-partial", 1..4)
}

proptest! {
    #[test]
    fn only_what_the_source_lacks_is_removed_and_directories_are_empty_by_then(
        there in prop::collection::btree_map(a_path(), any::<bool>(), 0..12),
        source in prop::collection::btree_map(a_path(), any::<bool>(), 0..8),
    ) {
        let bytes = |path: &[String]| -> Names { path.iter().map(|name| name.as_bytes().to_vec()).collect() };
        // A tree has the parents of its things.
        let mut all: std::collections::BTreeMap<Names, bool> = there.iter().map(|(path, keep)| (bytes(path), *keep)).collect();
        for path in there.keys() {
            for depth in 1..path.len() {
                all.entry(bytes(&path[..depth])).or_insert(false);
            }
        }
        // Nothing is known below what is not listed.
        let mut inventory = Inventory::default();
        for (path, listed) in &source {
            for depth in 1..=path.len() {
                let names = bytes(&path[..depth]);
                if !inventory.hides(&names[..depth - 1]) {
                    let known = depth < path.len() || *listed;
                    inventory.add(names, if known { Kind::Listed } else { Kind::File });
                }
            }
        }
        let source = inventory;
        let has_children = |names: &Names| all.keys().any(|other| other.len() > names.len() && other.starts_with(names));
        let things: Vec<Thing> = all
            .iter()
            .map(|(names, keep)| Thing {
                names: names.clone(),
                kind: if has_children(names) { FileKind::Directory } else { FileKind::Regular },
                stamp: Stamp::default(),
                keep: *keep,
            })
            .collect();
        let mut left: HashSet<&Names> = all.keys().collect();
        for thing in surplus(&things, &source, &HashSet::new()) {
            prop_assert!(!source.contains(&thing.names));
            prop_assert!(!source.hides(&thing.names));
            prop_assert!(!thing.keep);
            prop_assert!(!thing.names.is_empty());
            prop_assert!(!left.iter().any(|other| other.len() > thing.names.len() && other.starts_with(&thing.names)));
            left.remove(&thing.names);
        }
        // Every remaining thing that is not in the source has a reason.
        for names in left.into_iter().filter(|names| !source.contains(names)) {
            let respelled = |other: &Names, opaque: bool| source
                .names()
                .any(|name| folded(name) == folded(other) && (!opaque || source.is_opaque(name)));
            let reason = |other: &Names| other.starts_with(names)
                && !source.contains(other)
                && (all[other]
                    || is_unfinished(&other[other.len() - 1])
                    || source.hides(other)
                    || respelled(other, false)
                    || (1..=other.len()).any(|depth| respelled(&other[..depth].to_vec(), true)));
            prop_assert!(all.keys().any(reason), "{:?}", names);
        }
    }
}
