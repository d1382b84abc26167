//! sftp URLs, good and bad.

use proptest::prelude::*;

use super::*;
use crate::remote::parse_remote;

fn parsed(typed: &str) -> Remote {
    parse_remote(typed).unwrap_or_else(|why| panic!("{typed}: {why}"))
}

#[test]
fn paths() {
    for (typed, path, url) in [
        ("sftp://h/abs", "/abs", "sftp://h/abs"),
        ("sftp://h/~/x", "x", "sftp://h/~/x"),
        ("sftp://h/~/a/b/", "a/b", "sftp://h/~/a/b/"),
        ("sftp://h/~", ".", "sftp://h/~/"),
        ("sftp://h/~/", ".", "sftp://h/~/"),
        ("sftp://h/%7e/x", "x", "sftp://h/~/x"),
        ("sftp://h/~/~", "~", "sftp://h/~/~"),
        ("sftp://h/~user/x", "/~user/x", "sftp://h/~user/x"),
        ("sftp://h/a/~/x", "/a/~/x", "sftp://h/a/~/x"),
        ("sftp://h", "/", "sftp://h/"),
        ("sftp://h/", "/", "sftp://h/"),
        ("sftp://h//", "/", "sftp://h/"),
        ("sftp://h//a//b", "/a/b", "sftp://h/a/b"),
        ("sftp://h/dir/", "/dir", "sftp://h/dir/"),
        // Characters of names, not of URLs.
        ("sftp://h/what?.txt", "/what?.txt", "sftp://h/what%3F.txt"),
        ("sftp://h/c#.txt", "/c#.txt", "sftp://h/c%23.txt"),
        ("sftp://h/a?b/c#d/e", "/a?b/c#d/e", "sftp://h/a%3Fb/c%23d/e"),
        ("sftp://h/a\\..\\b", "/a\\..\\b", "sftp://h/a%5C..%5Cb"),
        ("sftp://h/a@b:c", "/a@b:c", "sftp://h/a@b:c"),
        ("sftp://h/a b", "/a b", "sftp://h/a%20b"),
        ("sftp://h/a%20b", "/a b", "sftp://h/a%20b"),
        ("sftp://h/ü", "/ü", "sftp://h/%C3%BC"),
        ("sftp://h/100%", "/100%", "sftp://h/100%25"),
        ("sftp://h/%zz%4", "/%zz%4", "sftp://h/%25zz%254"),
        ("sftp://h/a%252fb", "/a%2fb", "sftp://h/a%252fb"),
        ("sftp://h/a%2fb", "/a/b", "sftp://h/a/b"),
        // Dots are resolved, however they are spelled.
        ("sftp://h/a/./b/../c", "/a/c", "sftp://h/a/c"),
        ("sftp://h/a/%2e%2E/c", "/c", "sftp://h/c"),
        ("sftp://h/a%2f..%2fc", "/c", "sftp://h/c"),
        ("sftp://h/../../etc", "/etc", "sftp://h/etc"),
        ("sftp://h/~/a/../b", "b", "sftp://h/~/b"),
        ("sftp://h/x/../~/b", "b", "sftp://h/~/b"),
        ("sftp://h/...", "/...", "sftp://h/..."),
        // Drives of a Windows server.
        ("sftp://h/C:/", "/C:/", "sftp://h/C:/"),
        ("sftp://h/C:/x", "/C:/x", "sftp://h/C:/x"),
        ("sftp://h/C:", "/C:", "sftp://h/C:"),
        ("sftp://h/a/C:/", "/a/C:", "sftp://h/a/C:/"),
    ] {
        let remote = parsed(typed);
        assert_eq!(remote.path, path.as_bytes(), "{typed}");
        assert_eq!(remote.url.as_str(), url, "{typed}");
        assert!(remote.is_sftp() && remote.authorization.is_none());
        assert_eq!(parsed(url), remote, "{typed}");
    }
    assert_eq!(parsed("sftp://h/%ff%FE").path, b"/\xff\xfe");
}

#[test]
fn servers_and_users() {
    for (typed, user, host, port) in [
        ("sftp://h/", None, "h", 22),
        ("SFTP://Example.COM/x", None, "example.com", 22),
        ("sftp://h:22/", None, "h", 22),
        ("sftp://h:/", None, "h", 22),
        ("sftp://h:2222/x", None, "h", 2222),
        ("sftp://BÜCHER.example/", None, "xn--bcher-kva.example", 22),
        ("sftp://build_host/", None, "build_host", 22),
        ("sftp://127.1/", None, "127.0.0.1", 22),
        ("sftp://[::0001]:23/", None, "[::1]", 23),
        ("sftp://me@h/", Some("me"), "h", 22),
        ("sftp://me@[::1]/", Some("me"), "[::1]", 22),
        ("sftp://me%40work@h/", Some("me@work"), "h", 22),
        ("sftp://me@work@h/", Some("me@work"), "h", 22),
        ("sftp://a%3Ab@h/", Some("a:b"), "h", 22),
        ("sftp://j%C3%BCrgen@h", Some("jürgen"), "h", 22),
        ("sftp://@h/", None, "h", 22),
    ] {
        let remote = parsed(typed);
        assert_eq!(remote.user.as_deref(), user, "{typed}");
        assert_eq!((remote.url.host_str(), remote.port()), (Some(host), port), "{typed}");
        assert!(remote.url.username().is_empty(), "{typed}");
        assert!(!remote.url.as_str().contains(":22/"), "{typed}");
    }
    assert_eq!(parsed("https://h/").port(), 443);
}

#[test]
fn what_is_refused() {
    for (typed, why) in [
        ("sftp://", "empty host"),
        ("sftp:///x", "empty host"),
        ("sftp://me@/x", "empty host"),
        ("sftp://h:0/", "port"),
        ("sftp://h:65536/", "port"),
        ("sftp://h:+22/", "port"),
        ("sftp://h:22:22/", "port"),
        ("sftp://h:ssh/", "port"),
        ("sftp://h?x", "domain"),
        ("sftp://h#x", "domain"),
        ("sftp://h\\x/", "domain"),
        ("sftp://a b/", "domain"),
        ("sftp://[::1/", ""),
        ("sftp://::1/", ""),
        ("sftp://h/a%00b", "control"),
        ("sftp://h/a%0ab", "control"),
        ("sftp://h/a\tb", "control"),
        ("sftp://h/a%1b[2J", "control"),
        ("sftp://h/%7f", "control"),
        ("sftp://h/%C2%85", "control"),
        ("sftp://a%00@h/", "control"),
        ("sftp://%ff@h/", "UTF-8"),
        ("sftp://h/~/..", "home directory"),
        ("sftp://h/~/a/../../b", "home directory"),
    ] {
        let error = parse_remote(typed).unwrap_err();
        assert!(error.contains(why), "{typed}: {error}");
        assert!(!error.contains(char::is_control), "{typed}");
    }
}

#[test]
fn no_error_tells_a_password() {
    for typed in [
        "sftp://me:secret@h/x",
        "sftp://me:@h/x",
        "sftp://:secret@h/x",
        "sftp://me:p@secret@h/x",
        "sftp://me:secret/@h/x",
        "sftp://me:secret@h:port/x",
        "sftp://me%3A:secret@h",
        "sftp://me:secret@",
        "sftp:/me:secret@h",
        "sftp:me:secret@h",
    ] {
        let error = parse_remote(typed).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
    let error = parse_remote("sftp://me:secret@h/x").unwrap_err();
    assert_eq!(
        error,
        "URL: passwords come from --password-file or --password-env, not from the URL"
    );
}

#[test]
fn names_here() {
    for (typed, name) in [
        ("sftp://h/dir/a%20b", Some("a b")),
        ("sftp://h/dir/", Some("dir")),
        ("sftp://h/~/x", Some("x")),
        ("sftp://h/a/~", Some("~")),
        ("sftp://h/~", None),
        ("sftp://h", None),
        ("sftp://h/%ff", None),
    ] {
        assert_eq!(parsed(typed).file_name.as_deref(), name, "{typed}");
    }
}

#[test]
fn a_file_in_a_directory() {
    for (directory, name, path, url) in [
        ("sftp://h", "f", "/f", "sftp://h/f"),
        ("sftp://h/d/", "f", "/d/f", "sftp://h/d/f"),
        ("sftp://h/~", "f", "f", "sftp://h/~/f"),
        (
            "sftp://h/~/d/",
            "a?b#c%41:ü",
            "d/a?b#c%41:ü",
            "sftp://h/~/d/a%3Fb%23c%2541:%C3%BC",
        ),
        ("sftp://h/C:/", "f", "/C:/f", "sftp://h/C:/f"),
    ] {
        let directory = parsed(directory);
        assert!(names_directory(&directory));
        let file = within(&directory, name.as_bytes()).unwrap();
        assert_eq!((file.path.as_slice(), file.url.as_str()), (path.as_bytes(), url));
        assert_eq!(parsed(url), file);
    }
    assert!(within(&parsed("sftp://h/"), b"a\nb").is_err());
}

fn printable() -> impl Strategy<Value = u8> {
    any::<u8>().prop_filter("a control character", |byte| !byte.is_ascii_control())
}

/// Parts of a path that mean themselves.
fn names() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let name = prop::collection::vec(printable().prop_filter("a separator", |byte| *byte != b'/'), 1..8);
    prop::collection::vec(name, 1..5).prop_filter("resolved, or refused", |parts| {
        !has_control(&parts.join(&b'/')) && !parts.iter().any(|part| matches!(part.as_slice(), b"." | b".." | b"~"))
    })
}

fn escaped(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("%{byte:02x}"))
}

proptest! {
    #[test]
    fn every_name_can_be_asked_for(parts in names()) {
        let typed: Vec<_> = parts.iter().map(|part| escaped(part)).collect();
        let path = parts.join(&b'/');
        let absolute = parse_remote(&format!("sftp://h/{}", typed.join("/"))).unwrap();
        prop_assert_eq!(&absolute.path[1..], &path[..]);
        let relative = parse_remote(&format!("sftp://h/~/{}", typed.join("/"))).unwrap();
        prop_assert_eq!(&relative.path, &path);
        for remote in [absolute, relative] {
            prop_assert_eq!(&parse_remote(remote.url.as_str()).unwrap(), &remote);
        }
    }

    #[test]
    fn what_is_accepted_has_one_spelling(path in "[a-c~./%2eF?# \\\\é]{0,24}", user in prop::option::of("[a-z%@]{1,6}")) {
        let user = user.map_or(String::new(), |user| user + "@");
        if let Ok(remote) = parse_remote(&format!("sftp://{user}h/{path}")) {
            let again = parse_remote(remote.url.as_str()).unwrap();
            prop_assert_eq!((&again.url, &again.path, &again.file_name), (&remote.url, &remote.path, &remote.file_name));
            prop_assert!(remote.path == b"." || remote.path == b"/" || !remote.path.ends_with(b"/"));
            let inside = remote.path.strip_prefix(b"/").unwrap_or(&remote.path);
            let clean = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
            prop_assert!(remote.path == b"." || inside.is_empty() || inside.split(|byte| *byte == b'/').all(clean));
            prop_assert!(remote.url.query().is_none() && remote.url.fragment().is_none() && remote.url.username().is_empty());
        }
    }

    #[test]
    fn nothing_is_a_panic(rest in "\\PC{0,40}", start in "[a-z@:\\[\\]/]{0,8}") {
        let _ = parse_remote(&format!("sftp://{rest}"));
        let _ = parse_remote(&format!("sftp://{start}{rest}"));
    }
}
