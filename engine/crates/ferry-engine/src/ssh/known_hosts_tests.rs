use base64ct::Base64;
use proptest::prelude::*;

use super::*;

const ED25519: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
const OTHER: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIA6rWI3G1sz07DnfFlrouTcysQlj2P+jpNSOEWD9OJ3X";

fn key(text: &str) -> Vec<u8> {
    base64(text).unwrap()
}

fn hashed(name: &str, salt: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
    format!(
        "|1|{}|{}",
        Base64::encode_string(salt),
        Base64::encode_string(hmac::sign(&key, name.as_bytes()).as_ref())
    )
}

/// Returns true if a file with this line knows the key for the host.
fn knows(hosts: &str, host: &str, port: u16) -> bool {
    let lines = parse(format!("{hosts} ssh-ed25519 {ED25519} a comment\n").as_bytes());
    assert_eq!(lines.len(), 1, "{hosts}");
    verdict(&lines, host, port, &key(ED25519)) == Verdict::Known
}

#[test]
fn names_lists_patterns_and_ports_are_those_of_openssh() {
    for (hosts, host, port, expected) in [
        ("h", "h", 22, true),
        ("h", "H", 22, true),
        ("H", "h", 22, true),
        ("h", "hh", 22, false),
        ("a,h,b", "h", 22, true),
        ("[h]:2222", "h", 2222, true),
        ("[h]:2222", "h", 22, false),
        ("[h]:2222", "h", 2223, false),
        // OpenSSH looks a second time without the port.
        ("h", "h", 2222, true),
        ("*.example.org", "a.example.org", 22, true),
        ("*.example.org", "example.org", 22, false),
        ("*,!bad.example.org", "a.example.org", 22, true),
        ("*,!bad.example.org", "bad.example.org", 22, false),
        ("!bad.example.org,*", "bad.example.org", 22, false),
        ("!h", "g", 22, false),
        ("h?st", "host", 22, true),
        ("h?st", "hst", 22, false),
        ("::1", "::1", 22, true),
        ("[::1]:2222", "[::1]", 2222, true),
        ("192.168.0.*", "192.168.0.7", 22, true),
    ] {
        assert_eq!(knows(hosts, host, port), expected, "{hosts} for {host}:{port}");
    }
}

#[test]
fn a_hashed_line_of_ssh_keygen_is_found() {
    assert!(knows(
        "|1|NMkvXANS6VAhpnvI3BlxaWmMMBc=|Qwvm59fe5Lpi1kfJCBd8kOB0u7Q=",
        "example.org",
        22
    ));
    assert!(knows(
        "|1|NMkvXANS6VAhpnvI3BlxaWmMMBc=|Qwvm59fe5Lpi1kfJCBd8kOB0u7Q=",
        "Example.ORG",
        22
    ));
    assert!(knows(
        "|1|C8/SVB2J+XQBiW3A+iTMDUl66+s=|qdm+kRXKt3EVZvKKIznyEhRzB1Y=",
        "h",
        2222
    ));
    assert!(!knows(
        "|1|C8/SVB2J+XQBiW3A+iTMDUl66+s=|qdm+kRXKt3EVZvKKIznyEhRzB1Y=",
        "h",
        22
    ));
}

#[test]
fn another_key_is_changed_whatever_its_type_and_the_lines_are_named() {
    let text = format!("# comment\n\nh ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB\nx,h ssh-ed25519 {OTHER}\r\n");
    let lines = parse(text.as_bytes());
    let Verdict::Changed(others) = verdict(&lines, "h", 22, &key(ED25519)) else {
        panic!("not changed");
    };
    let found: Vec<_> = others.iter().map(|line| (line.number, line.key_type())).collect();
    assert_eq!(found, [(3, "ssh-rsa"), (4, "ssh-ed25519")]);
    assert_eq!(known_types(&lines, "h", 22), ["ssh-rsa", "ssh-ed25519"]);
    assert_eq!(verdict(&lines, "g", 22, &key(ED25519)), Verdict::Unknown);
    assert_eq!(verdict(&lines, "h", 22, &key(OTHER)), Verdict::Known);
}

#[test]
fn revoked_wins_and_authorities_vouch_for_no_plain_key() {
    let text = format!(
        "h ssh-ed25519 {ED25519}\n@revoked * ssh-ed25519 {ED25519}\n@cert-authority * ssh-ed25519 {OTHER}\n@new h ssh-ed25519 {OTHER}\n"
    );
    let lines = parse(text.as_bytes());
    assert_eq!(lines.len(), 3);
    assert!(matches!(verdict(&lines, "h", 22, &key(ED25519)), Verdict::Revoked(line) if line.number == 2));
    assert_eq!(verdict(&lines, "g", 22, &key(OTHER)), Verdict::Unknown);
    let vouch = |host: &str, key: &str, port| authorities(&lines, host, port).any(|line| line.has(&self::key(key)));
    assert!(vouch("g", OTHER, 22) && vouch("g", OTHER, 2222));
    assert!(!vouch("g", ED25519, 22));
}

#[test]
fn bad_lines_are_skipped() {
    for bad in [
        "h",
        "h ssh-ed25519",
        "h ssh-ed25519 !!!!",
        "h ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ",
        "h ssh-ed25519 AAAA",
        "|2|a|b ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
        "|1|aaaa ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
        "h 2048 35 12345",
        "@revoked",
        "\0",
    ] {
        assert_eq!(parse(bad.as_bytes()), [], "{bad}");
    }
    assert_eq!(parse(b"h ssh-ed25519 \xff\n"), []);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<Vec<u8>>(), words in "([|@!*?,a1=\\[\\]: \n]|AAAAC3NzaC1lZDI1NTE5|ssh-ed25519 ){0,60}") {
        for text in [&text[..], words.as_bytes()] {
            let lines = parse(text);
            let _ = verdict(&lines, "a", 22, &key(ED25519));
            let _ = known_types(&lines, "a1", 1);
        }
    }

    #[test]
    fn plain_and_hashed_lines_agree(host in "[a-z0-9.-]{1,30}", port in 1_u16.., salt in prop::collection::vec(any::<u8>(), 1..40)) {
        let name = name(&host, port);
        prop_assert!(knows(&name, &host, port));
        prop_assert!(knows(&hashed(&name, &salt), &host, port));
        let other = hashed(&(name + "x"), &salt);
        prop_assert!(!knows(&other, &host, port));
    }

    #[test]
    fn base64_is_read_as_it_is_written(bytes in any::<Vec<u8>>()) {
        prop_assert_eq!(base64(&Base64::encode_string(&bytes)), Some(bytes));
    }

    #[test]
    fn globs_agree_with_the_obvious_definition(glob in "[ab*?]{0,8}", name in "[ab]{0,8}") {
        fn slow(glob: &[u8], name: &[u8]) -> bool {
            match glob.split_first() {
                None => name.is_empty(),
                Some((b'*', rest)) => (0..=name.len()).any(|at| slow(rest, &name[at..])),
                Some((byte, rest)) => !name.is_empty() && (*byte == b'?' || *byte == name[0]) && slow(rest, &name[1..]),
            }
        }
        prop_assert_eq!(matches(&glob, &name), slow(glob.as_bytes(), name.as_bytes()));
    }
}
