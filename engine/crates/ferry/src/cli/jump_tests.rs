//! Lists of jump hosts, and the ways that `ssh_config` makes of them.

use std::fs;
use std::path::Path;

use super::*;
use crate::cli::surroundings::Surroundings;

#[test]
fn a_list_is_read_as_openssh_reads_it() {
    let spec = |user: Option<&str>, host: &str, port| Spec {
        user: user.map(str::to_owned),
        host: host.into(),
        port,
    };
    for (list, expected) in [
        ("none", vec![]),
        ("NONE", vec![]),
        ("h", vec![spec(None, "h", None)]),
        ("h # comment", vec![spec(None, "h", None)]),
        (
            "u@H:2,v@w@g",
            vec![spec(Some("u"), "h", Some(2)), spec(Some("v@w"), "g", None)],
        ),
        (
            "[::1]:22,[fe80::2]",
            vec![spec(None, "::1", Some(22)), spec(None, "fe80::2", None)],
        ),
        ("ssh://u%40x@h:65535/", vec![spec(Some("u@x"), "h", Some(65535))]),
        ("SSH://[::1]", vec![spec(None, "::1", None)]),
    ] {
        assert_eq!(parse(list), Ok(expected), "{list}");
    }
    for bad in [
        "",
        ",",
        "a,",
        "@h",
        "h:",
        "h:0",
        "h:65536",
        "h:x",
        "[::1",
        "[::1]2",
        "::1",
        "u@",
        "-oProxyCommand=x",
        "a b",
        "$(x)",
        "a;b",
        "ssh://",
        "http://h",
        "ssh://%ff@h",
        "none,a b",
    ] {
        let why = parse(bad).unwrap_err();
        assert!(!why.contains('\n') && why.contains("expected"), "{bad}: {why}");
    }
}

fn names(text: &str, flag: Option<&str>, host: &str) -> Result<Vec<String>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    fs::write(&file, text).unwrap();
    let variable = |name: &str| (name == "USER").then(|| "me".into());
    let around = Surroundings {
        variable: &variable,
        home: Some(Path::new("/home/me").into()),
    };
    let reading = Reading::new(Some(&file), &around);
    let config = reading.host(host, None, None)?;
    let found = way(flag, host, &config, &reading)?;
    let name = |one: &Found| {
        let hostname = one.config.hostname.as_deref().unwrap_or(&one.host);
        let user = one.config.user.as_deref().unwrap_or("me");
        format!("{user}@{hostname}:{}", one.config.port.unwrap_or(22))
    };
    Ok(found.iter().map(name).collect())
}

#[test]
fn the_last_of_a_list_is_reached_through_the_others_and_the_first_through_its_own_proxy_jump() {
    let text = "
Host far
  ProxyJump a,u@b:7
Host a
  HostName A.example
  ProxyJump outer
  Port 5
Host b
  ProxyJump nobody
  User not-this-one
Host outer
  User o
";
    assert_eq!(
        names(text, None, "far").unwrap(),
        ["o@outer:22", "me@A.example:5", "u@b:7"]
    );
    assert_eq!(names(text, None, "b").unwrap(), ["me@nobody:22"]);
    // A flag comes first, and what it names is reached as ssh_config says.
    assert_eq!(
        names(text, Some("b"), "far").unwrap(),
        ["me@nobody:22", "not-this-one@b:22"]
    );
    assert_eq!(names(text, Some("none"), "far").unwrap(), [""; 0]);
    assert_eq!(names(text, Some("outer"), "far").unwrap(), ["o@outer:22"]);
}

#[test]
fn a_jump_host_that_is_its_own_is_refused_however_long_the_way_round() {
    for (text, flag, host) in [
        ("Host *\n ProxyJump gate\n", None, "far"),
        ("Host *\n ProxyJump gate\n", None, "gate"),
        (
            "Host a\n ProxyJump b\nHost b\n ProxyJump c\nHost c\n ProxyJump b\n",
            None,
            "a",
        ),
        ("Host a\n ProxyJump b\nHost b\n HostName A\n", None, "a"),
        ("", Some("a,b,a"), "far"),
        ("", Some("far"), "far"),
        ("Host b\n ProxyJump far\n", Some("b"), "far"),
    ] {
        let refused = names(text, flag, host).unwrap_err();
        assert_eq!(refused.class.exit_code(), 2);
        assert!(refused.message.contains("its own jump host"), "{text}: {refused}");
    }
    // Another login or port is another server.
    assert_eq!(
        names("", Some("u@far,far:23"), "far").unwrap(),
        ["u@far:22", "me@far:23"]
    );
    let text = "Host gate\n ProxyJump none\nHost *\n ProxyJump gate\n";
    assert_eq!(names(text, None, "far").unwrap(), ["me@gate:22"]);
}

#[test]
fn what_ferry_cannot_do_is_refused_where_the_way_would_need_it() {
    let text = "Host far\n ProxyJump gate\nHost gate\n ProxyCommand nc %h %p\n";
    let refused = names(text, None, "far").unwrap_err();
    assert!(refused.message.contains("a ProxyCommand for gate"), "{refused}");
    assert_eq!(
        names(text, Some("first,gate"), "far").unwrap(),
        ["me@first:22", "me@gate:22"]
    );
    assert_eq!(
        names("Host far\n ProxyCommand nc %h %p\n", Some("a"), "far").unwrap(),
        ["me@a:22"]
    );
    let broken = names("Host far\n ProxyJump a b\n", None, "far").unwrap_err();
    assert!(broken.message.contains("ProxyJump for far"), "{broken}");
    assert_eq!(broken.class.exit_code(), 2);
}
