//! Command lines with sftp URLs, and what of them is for one kind of server only.

use std::fs;
use std::path::Path;

use ferry_engine::options::{ByteRange, PasswordFrom, SshArgs};

use super::*;

const PIN: &str = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const SUM: &str = "--checksum sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709";

#[test]
fn everything_a_download_takes() {
    let options = get(&format!(
        "-r -o tree sftp://me@H:2222/~/dir/ --known-hosts k --pin {PIN} -i id --no-agent --password-env PW --channels 4 \
        --connections 2 --limit-rate 1M --resume --overwrite --checksum sha256 --parallel 9 --resolve h:2222:::1 \
        --timeout-tls 3s --retry 1"
    ));
    assert!(options.recursive && options.resume && options.overwrite);
    assert_eq!(options.target, Target::Tree("tree".into()));
    let source = &options.sources[0];
    assert_eq!((source.url.as_str(), source.port()), ("sftp://h:2222/~/dir/", 2222));
    assert_eq!(
        (source.user.as_deref(), source.path.as_slice()),
        (Some("me"), b"dir".as_slice())
    );
    assert_eq!(options.common.resolve[0].host, source.url.host_str().unwrap());
    let ssh = options.common.ssh;
    assert_eq!((ssh.known_hosts, ssh.identities), (vec!["k".into()], vec!["id".into()]));
    assert_eq!((ssh.pins, ssh.agent), (vec![PIN.to_owned()], None));
    assert_eq!(ssh.password, Some(PasswordFrom::Variable("PW".into())));
    assert_eq!(
        (ssh.channels, ssh.connections, ssh.identities_are_default),
        (4, Some(2), false)
    );
}

#[test]
fn http_has_none_of_it() {
    assert_eq!(get("http://h/x -O").common.ssh, SshArgs::default());
    let options = put("f http://h/x");
    assert!(options.sync && !options.resume && options.destination.path.is_empty());
    assert_eq!(get("sftp://h/x -O").common.ssh.channels, 8);
    assert_eq!(
        get("sftp://h/x -O --range 0-9").range,
        Some(ByteRange::Part { first: 0, last: 9 })
    );
}

#[test]
fn where_downloads_go() {
    let there = tempfile::tempdir().unwrap();
    let there = there.path().to_str().unwrap();
    let target = |line: &str| get(line).target;
    let directory = |path: &str| Target::Directory(path.into());
    assert_eq!(target("sftp://h/a -o f"), Target::File("f".into()));
    assert_eq!(target("sftp://h/a -o new/"), directory("new/"));
    assert_eq!(target(&format!("sftp://h/a -o {there}")), directory(there));
    assert_eq!(target("sftp://h/a sftp://h/b -o new/"), directory("new/"));
    assert_eq!(target(&format!("sftp://h/a sftp://i/b -o {there}")), directory(there));
    // One tree is what the directory holds, whether it exists or not; several are in it.
    assert_eq!(target("-r sftp://h/a -o new"), Target::Tree("new".into()));
    assert_eq!(
        target(&format!("-r sftp://h/a/ -o {there}/")),
        Target::Tree(format!("{there}/").into())
    );
    assert_eq!(target("-r sftp://h/ -o new"), Target::Tree("new".into()));
    assert_eq!(target("-r sftp://h/a sftp://h/b -o new"), directory("new"));
    assert_eq!(target("-r sftp://h/a/ sftp://h/b -O"), Target::FromUrl);
    assert_eq!(target("-r sftp://h/a sftp://h/a --discard"), Target::Discard);
    assert_eq!(target("sftp://h/a -o -"), Target::Stdout);
    // HTTP as ever.
    assert_eq!(target(&format!("http://h/a -o {there}")), Target::File(there.into()));
    for (line, why) in [
        ("get sftp://h/a sftp://h/b -o f", "ends in /"),
        ("get sftp://h/a sftp://i/a -o new/", "the file a too"),
        ("get -r sftp://h/a sftp://h/b/a/ -o new", "the file a too"),
        ("get -r sftp://h/a sftp://h/~ -o new", "fetch it by itself"),
        ("get -r sftp://h/ -O", "no file name"),
        ("get sftp://h/a/ -O", "--recursive"),
        ("get sftp://h -o f", "--recursive"),
        ("get sftp://h/~ --discard", "--recursive"),
        ("get -r sftp://h/a -o -", "standard output"),
        ("get -r sftp://h/a -O --range 0-1", "--range"),
        ("get -r http://h/a -O", "--recursive is for sftp"),
        ("get -r http://h/a sftp://h/a -O", "one kind of server"),
        ("get http://h/a sftp://h/b -O", "one kind of server"),
    ] {
        let said = refused(line);
        assert!(said.contains(why), "{line}: {said}");
    }
    assert!(refused(&format!("get -r sftp://h/a -O {SUM}")).contains("--checksum"));
    assert!(refused(&format!("get http://h/a http://h/b -o {there}")).contains("one URL"));
}

#[test]
fn uploads_to_files_and_directories() {
    let there = tempfile::tempdir().unwrap();
    let tree = there.path().to_str().unwrap();
    fs::write(there.path().join("f"), "").unwrap();
    let path = |line: &str| String::from_utf8(put(line).destination.path).unwrap();
    for (line, wanted) in [
        ("f sftp://h/g", "/g"),
        ("f sftp://h/d/", "/d/f"),
        ("a/f sftp://h/", "/f"),
        ("a/f sftp://h", "/f"),
        ("f sftp://h/~", "f"),
        ("f sftp://h/~/d/", "d/f"),
        ("a%41?f sftp://h/", "/a%41?f"),
        ("- sftp://h/x", "/x"),
    ] {
        assert_eq!(path(line), wanted, "{line}");
    }
    assert_eq!(put("a/f sftp://h/d/").destination.url.as_str(), "sftp://h/d/f");
    assert_eq!(put("a/f sftp://h/d/").source, Source::File(Path::new("a/f").into()));
    // The content of the tree is sent, not the tree itself, with or without a slash.
    for (url, wanted) in [
        ("sftp://h/d", "/d"),
        ("sftp://h/d/", "/d"),
        ("sftp://h/~", "."),
        ("sftp://h", "/"),
    ] {
        let options = put(&format!("{tree} {url}"));
        assert_eq!(options.source, Source::Directory(tree.into()));
        assert_eq!(options.destination.path, wanted.as_bytes(), "{url}");
    }
    let options = put(&format!("{tree}/f sftp://h/g --resume --no-sync"));
    assert!(options.resume && !options.sync && put("f sftp://h/g").sync);
    for (line, why) in [
        (format!("put {tree} http://h/d"), "HTTP has no directories"),
        (format!("put {tree} sftp://h/d {SUM}"), "--checksum"),
        ("put - sftp://h/d/".into(), "no name"),
        ("put - sftp://h".into(), "no name"),
        ("put missing/.. sftp://h/d/".into(), "no name"),
        ("put - sftp://h/x --resume".into(), "standard input"),
        ("put f http://h/x --resume".into(), "--resume is for sftp"),
        ("put f http://h/x --no-sync".into(), "--no-sync is for sftp"),
    ] {
        let said = refused(&line);
        assert!(said.contains(why), "{line}: {said}");
    }
}

#[test]
fn flags_of_http_are_refused() {
    for flag in [
        "--http1.1",
        "--http2",
        "--http3",
        "--header a:b",
        "--cacert f",
        "--max-redirects 10",
    ] {
        for line in ["get sftp://h/x -O", "put f sftp://h/x"] {
            let said = refused(&format!("{line} {flag}"));
            let name = flag.split(' ').next().unwrap();
            assert!(said.contains(name) && said.contains("http URLs only"), "{said}");
        }
    }
    for flag in ["--method POST", "--retry-unsafe"] {
        assert!(refused(&format!("put f sftp://h/x {flag}")).contains(flag));
    }
    assert_eq!(get("http://h/x -O").transfer.max_redirects, 10);
}

#[test]
fn flags_of_ssh_are_refused() {
    for flag in [
        "--known-hosts f",
        &format!("--pin {PIN}"),
        "--identity f",
        "-i f",
        "--no-agent",
        "--channels 8",
    ] {
        for line in ["get https://h/x -O", "put f https://h/x"] {
            let said = refused(&format!("{line} {flag}"));
            assert!(said.contains("sftp URLs only"), "{said}");
        }
    }
    assert!(refused("put f https://h/x --connections 2").contains("sftp URLs only"));
    for flag in ["--token-file f", "--token-env N", "--netrc", "--netrc-file f"] {
        for line in ["get sftp://h/x -O", "put f sftp://h/x"] {
            let said = refused(&format!("{line} {flag}"));
            assert!(said.contains("http URLs only"), "{said}");
        }
    }
}

#[test]
fn values_out_of_bounds() {
    for flag in [
        "--channels 0",
        "--channels 65",
        "--connections 0",
        "--connections 65",
        "--pin AAAA",
        "--pin SHA256:",
        "--pin MD5:00:11",
        &PIN[..PIN.len() - 1].replace("SHA", "--pin SHA"),
        &format!("--pin {PIN}="),
        &format!("--pin {PIN}A"),
        // Bits beyond the last byte.
        &format!("--pin {}B", &PIN[..PIN.len() - 1]),
        &format!("--pin {}-", &PIN[..PIN.len() - 1]),
        &format!("--pin {}", PIN.to_lowercase()),
        "--password-file f --password-env N",
        "--password-env =x",
    ] {
        refused(&format!("get sftp://h/x -O {flag}"));
    }
    assert!(refused(&format!("get sftp://h/x -O --insecure --pin {PIN}")).contains("one of them"));
    assert!(get("sftp://h/x -O --insecure").common.insecure);
    let said = refused("get sftp://me:secret@h/x -O");
    assert!(said.contains("--password-file") && !said.contains("secret"), "{said}");
}
