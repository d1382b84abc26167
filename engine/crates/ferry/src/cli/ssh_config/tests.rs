//! Configurations, and what OpenSSH's own `ssh -G` makes of them.

use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

#[path = "../../../../ferry-engine/tests/support/lacking.rs"]
mod lacking;

const LOCAL_USER: &str = "root";

fn around(home: Option<&Path>) -> Surroundings<'static> {
    Surroundings {
        variable: &|name| (name == "SET").then(|| OsString::from("value")),
        home: home.map(Path::to_owned),
    }
}

fn asked<'a>(host: &'a str, user: Option<&'a str>, port: Option<u16>) -> Question<'a> {
    // The user who runs the tests: `ssh -G` takes no other.
    Question {
        host,
        user,
        port,
        local_user: own_user(),
    }
}

fn own_user() -> &'static str {
    static OWN: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let done = Command::new("id").arg("-un").output();
        done.map_or(LOCAL_USER.into(), |done| {
            String::from_utf8_lossy(&done.stdout).trim().to_owned()
        })
    });
    &OWN
}

/// The output of `ssh -G`, or None if it refuses the file.
fn openssh(file: &Path, question: &Question<'_>) -> Option<Vec<(String, String)>> {
    let mut command = Command::new("ssh");
    command.arg("-G").arg("-F").arg(file).stdin(Stdio::null());
    if let Some(user) = question.user {
        command.args(["-l", user]);
    }
    if let Some(port) = question.port {
        command.args(["-p", &port.to_string()]);
    }
    let done = command.arg("--").arg(question.host).output().unwrap();
    let lines = String::from_utf8_lossy(&done.stdout).into_owned();
    let pairs = lines.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.to_owned()))
    });
    done.status.success().then(|| pairs.collect())
}

/// In the words of `ssh -G`, with its defaults.
fn ours(config: &HostConfig, question: &Question<'_>) -> Vec<(&'static str, Vec<String>)> {
    let host = config.hostname.as_deref().unwrap_or("%h");
    let list = |list: &[String]| if list.is_empty() { vec![] } else { list.to_vec() };
    let joined =
        |list: &Option<Vec<String>>, usual: &str| vec![list.as_ref().map_or(usual.into(), |list| list.join(" "))];
    let one = |value: &Option<String>| value.iter().cloned().collect::<Vec<_>>();
    let jump = config.proxy_jump.clone().filter(|jump| jump != "none");
    let command = config.proxy_command.clone().filter(|command| command != "none");
    vec![
        (
            "hostname",
            vec![hostname(host, question.host).unwrap().to_ascii_lowercase()],
        ),
        ("user", vec![config.user.clone().unwrap_or(question.local_user.into())]),
        ("port", vec![config.port.unwrap_or(22).to_string()]),
        ("identityfile", list(&config.identity_files)),
        ("certificatefile", list(&config.certificate_files)),
        (
            "identitiesonly",
            vec![
                if config.identities_only == Some(true) {
                    "yes"
                } else {
                    "no"
                }
                .into(),
            ],
        ),
        ("identityagent", one(&config.identity_agent)),
        ("userknownhostsfile", joined(&config.user_known_hosts, "")),
        (
            "globalknownhostsfile",
            joined(
                &config.global_known_hosts,
                "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2",
            ),
        ),
        ("revokedhostkeys", one(&config.revoked_host_keys)),
        ("hostkeyalias", one(&config.host_key_alias)),
        (
            "stricthostkeychecking",
            vec![
                match config.strict_host_key_checking {
                    Some(Strict::Yes) => "true",
                    Some(Strict::No) => "false",
                    Some(Strict::AcceptNew) => "accept-new",
                    Some(Strict::Ask) | None => "ask",
                }
                .into(),
            ],
        ),
        (
            "connecttimeout",
            vec![
                config
                    .connect_timeout
                    .filter(|time| *time >= 0)
                    .map_or("none".into(), |time| time.to_string()),
            ],
        ),
        ("proxyjump", jump.into_iter().collect()),
        ("proxycommand", command.into_iter().collect()),
        (
            "addressfamily",
            vec![
                match config.address_family {
                    Some(Family::Inet) => "inet",
                    Some(Family::Inet6) => "inet6",
                    Some(Family::Any) | None => "any",
                }
                .into(),
            ],
        ),
    ]
}

/// The usual keys, which `ssh -G` lists where no other was named.
fn is_usual_key(file: &str) -> bool {
    file.starts_with("~/.ssh/id_")
}

/// True if the host's own name, or its `HostName`, is that of its `ProxyJump` ("jumphost loop").
fn jumps_to_itself(config: &HostConfig, question: &Question<'_>) -> bool {
    let name = config.hostname.as_deref().unwrap_or(question.host);
    let jump = config.proxy_jump.as_deref().unwrap_or_default();
    let jump = jump.split(':').next().unwrap_or_default();
    jump == name || jump == question.host
}

/// False where there is no OpenSSH.
fn agrees(text: &str, question: &Question<'_>) -> Result<bool, TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let text = text.replace("FOLDER", folder.path().to_str().unwrap());
    let file = folder.path().join("config");
    for part in ["a.conf", "b.conf", ".hidden.conf"] {
        let body = format!("User from-{part}\nHost inner h?\n  Port 77\nMatch all\n  IdentityFile {part}\n");
        fs::write(folder.path().join(part), body).unwrap();
    }
    fs::write(
        folder.path().join("nested.conf"),
        "Host *\nInclude FOLDER/a.conf\nHostName nested\n".replace("FOLDER", folder.path().to_str().unwrap()),
    )
    .unwrap();
    fs::write(&file, &text).unwrap();
    let openssh = openssh(&file, question);
    let own = resolve(&Files::Only(file), question, &around(Some(folder.path())));
    let Some(expected) = openssh else {
        // OpenSSH says so when it has read the file, ferry when it resolves the way.
        if own.as_ref().is_ok_and(|own| jumps_to_itself(own, question)) {
            return Ok(true);
        }
        prop_assert!(own.is_err(), "OpenSSH refuses what ferry takes:\n{}\n{:?}", text, own);
        return Ok(true);
    };
    let own = match own {
        Ok(own) => own,
        Err(error) => {
            return Err(TestCaseError::fail(format!(
                "ferry refuses what OpenSSH takes: {error}\n{text}"
            )));
        }
    };
    for (name, values) in ours(&own, question) {
        let mut wanted: Vec<_> = expected
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.clone())
            .collect();
        if name == "identityfile" && values.is_empty() {
            wanted.retain(|file| !is_usual_key(file));
        }
        // OpenSSH prints its default in full.
        if name == "userknownhostsfile" && own.user_known_hosts.is_none() {
            prop_assert!(
                wanted.iter().all(|files| files.ends_with("/.ssh/known_hosts2")),
                "{:?}",
                wanted
            );
            continue;
        }
        prop_assert_eq!(&values, &wanted, "{} for {:?} in\n{}", name, question, text);
    }
    Ok(true)
}

fn has_openssh() -> bool {
    let there = Command::new("ssh").arg("-V").stderr(Stdio::null()).status().is_ok();
    if !there {
        lacking::lacks("ssh", "it is not on PATH");
    }
    there
}

/// Each with the hosts that it is asked for.
const CORPUS: &[(&str, &[&str])] = &[
    ("", &["h"]),
    ("Port 1\nPort 2", &["h"]),
    (
        "Host a\n Port 1\nHost b\n Port 2\nHost *\n Port 3\n User u",
        &["a", "b", "c"],
    ),
    ("Host * !b\n Port 1", &["a", "b"]),
    ("Host !b *\n Port 1", &["a", "b"]),
    ("Host !b\n Port 1", &["a", "b"]),
    ("Host a? b*c \"d e\" f\n Port 1", &["a", "ab", "bc", "bxxc", "f", "bcd"]),
    (
        "Host *.example.org !x.example.org\n User u",
        &["y.example.org", "x.example.org", "example.org"],
    ),
    ("  HostName = 192.0.2.1\n\tUser=\"two\"\nPort  =  7", &["h"]),
    (
        "HostName %h.example.org\nMatch host h.example.org\n Port 1\nMatch originalhost h\n User u",
        &["h", "g"],
    ),
    ("HostName 100%%x", &["h"]),
    ("Host h\n HostName H2.Example\nMatch host h2.example\n Port 1", &["h"]),
    ("Match host *.org,!b.org\n Port 1", &["a.org", "b.org", "c"]),
    ("Match !host b\n Port 1", &["a", "b"]),
    ("User u\nMatch user u\n Port 1\nMatch user v\n Port 2", &["h"]),
    ("Match user u\n Port 1\nMatch all\n User u", &["h"]),
    (
        "Match localuser root,*\n Port 1\nMatch localuser nobody-else\n Port 2",
        &["h"],
    ),
    ("Match host a user u\n Port 1\nMatch host=a\n Port 2", &["a"]),
    ("Match all\n Port 1\nMatch !all\n Port 2", &["h"]),
    ("Match canonical\n Port 1\nMatch !canonical\n Port 2", &["h"]),
    ("Match final\n Port 1\nMatch !final\n User u", &["h"]),
    ("HostName b\nHost b\n Port 5\nMatch final host b\n User x", &["a"]),
    ("Match final all\n Port 1\nMatch canonical all\n Port 2", &["h"]),
    ("Match host a all\n Port 1", &["a", "b"]),
    ("Match host a user u all\n Port 1", &["a"]),
    ("Match\n Port 1", &["a"]),
    ("Match host\n Port 1", &["a"]),
    ("Match all host a\n Port 1", &["a"]),
    ("Match host b exec false\n Port 1\nMatch all\n User u", &["a"]),
    ("Match host a # comment\n Port 1", &["a"]),
    ("Match nonsense x\n Port 1", &["a"]),
    (
        "IdentityFile a\nIdentityFile ~/b\nIdentityFile a\nIdentityFile \"c d\"\nCertificateFile x\nCertificateFile y",
        &["h"],
    ),
    ("IdentityFile none", &["h"]),
    ("IdentitiesOnly yes\nIdentityAgent none", &["h"]),
    ("IdentityAgent SSH_AUTH_SOCK\nIdentitiesOnly no", &["h"]),
    ("IdentityAgent $SET\nIdentitiesOnly True", &["h"]),
    ("IdentitiesOnly maybe", &["h"]),
    ("UserKnownHostsFile a b \"c d\"\nGlobalKnownHostsFile none", &["h"]),
    ("UserKnownHostsFile a none", &["h"]),
    ("HostKeyAlias al\nStrictHostKeyChecking accept-new", &["h"]),
    ("StrictHostKeyChecking off\nConnectTimeout 1m30", &["h"]),
    ("StrictHostKeyChecking yes\nConnectTimeout none", &["h"]),
    ("StrictHostKeyChecking perhaps", &["h"]),
    ("ConnectTimeout 5x", &["h"]),
    ("AddressFamily inet6\nAddressFamily inet", &["h"]),
    ("AddressFamily IPv4", &["h"]),
    ("ProxyJump a,b@c:1\nProxyCommand nc %h %p", &["h"]),
    ("ProxyCommand = nc \"%h\" %p # no comment\nProxyJump a", &["h"]),
    ("ProxyJump none\nProxyCommand nc %h %p", &["h"]),
    ("ProxyCommand none\nProxyJump a", &["h"]),
    ("Host b\n ProxyJump a\nHost *\n ProxyJump c", &["b", "d"]),
    ("ProxyCommand", &["h"]),
    ("Port", &["h"]),
    ("Port 0", &["h"]),
    ("Port 65536", &["h"]),
    ("Port -1", &["h"]),
    ("Port 1 2", &["h"]),
    ("Port 1 # comment", &["h"]),
    ("Port 1#2", &["h"]),
    ("Host b\n Port none", &["a"]),
    ("User \"a", &["h"]),
    ("User \"\"", &["h"]),
    ("User a b", &["h"]),
    ("User 'a b'", &["h"]),
    ("User a\\ b\\\\c", &["h"]),
    ("# only\n\n   # comments\nUser u   \r\n", &["h"]),
    ("HOST h\n USER u\n pOrT 3", &["h"]),
    ("Include FOLDER/a.conf", &["inner", "h", "h1"]),
    ("Include FOLDER/a.conf FOLDER/b.conf\nPort 5", &["inner", "h"]),
    ("Include FOLDER/*.conf\nPort 5", &["inner", "h1"]),
    ("Include FOLDER/[ab].conf", &["inner"]),
    ("Include FOLDER/missing.conf\nPort 5", &["h"]),
    ("Host x\nInclude FOLDER/a.conf\nPort 5", &["inner", "x", "h1"]),
    (
        "Host h*\nInclude FOLDER/a.conf\nPort 5\nHost *\n Port 9",
        &["inner", "h1", "hello"],
    ),
    ("Include FOLDER/nested.conf\nHost h\n User u", &["h", "x"]),
    ("Include FOLDER/config", &["h"]),
    ("Host \"\"\n Port 1", &["h"]),
    (
        "Compression yes\nForwardAgent no\nServerAliveInterval 5\nUser u",
        &["h"],
    ),
    ("RevokedHostKeys /etc/revoked", &["h"]),
];

#[test]
fn the_corpus_is_read_as_openssh_reads_it() {
    if !has_openssh() {
        return;
    }
    for (text, hosts) in CORPUS {
        for host in *hosts {
            for (user, port) in [(None, None), (Some("u"), Some(2222))] {
                agrees(text, &asked(host, user, port)).unwrap();
            }
        }
    }
}

fn line() -> impl Strategy<Value = String> {
    let name = "[ab]{1,2}|a\\*|\\*|!a|!b\\*|[ab]\\?";
    prop_oneof![
        4 => proptest::collection::vec(name, 1..4).prop_map(|names| format!("Host {}", names.join(" "))),
        2 => (proptest::bool::ANY, "host|originalhost|user|localuser", proptest::collection::vec(name, 1..3))
            .prop_map(|(negated, what, names)| format!("Match {}{what} {}", if negated { "!" } else { "" }, names.join(","))),
        1 => Just("Match all".to_owned()),
        1 => Just("Match final".to_owned()),
        1 => "Match (canonical|final|!final) (host|user) [ab*]{1,2}",
        3 => "(HostName|User|HostKeyAlias) [ab%]{0,1}[ab]{1,2}".prop_map(|line| line.replace('%', "%h")),
        2 => "Port[ =]{1,2}[0-9]{1,5}",
        2 => "(IdentityFile|CertificateFile) (~/)?[abc]{1,2}",
        1 => "(UserKnownHostsFile|GlobalKnownHostsFile) [ab]( c)?( \"d e\")?",
        1 => "(IdentitiesOnly|identitiesonly) (yes|no|true|maybe)",
        1 => "(ProxyJump|ProxyCommand) (none|[ab]{1,3}(:1)?)",
        1 => "ConnectTimeout [0-9]{1,2}[smx]?",
        1 => "[ \t]{0,2}#?[ \t]?User[ \t]*=?[ \t]*[\"']?[ab#\\\\ ]{0,4}[\"']?",
        1 => "Include FOLDER/(a|b|nested|\\*|\\[ab\\])\\.conf",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("CASES").map_or(100, |cases| cases.parse().unwrap()), ..ProptestConfig::default() })]

    #[test]
    fn any_configuration_is_read_as_openssh_reads_it(
        lines in proptest::collection::vec(line(), 0..10),
        host in "[ab]{1,2}",
        user in proptest::option::of("[ab]"),
        port in proptest::option::of(1_u16..),
    ) {
        if has_openssh() {
            agrees(&lines.join("\n"), &asked(&host, user.as_deref(), port))?;
        }
    }

    #[test]
    fn no_file_is_a_panic(bytes in any::<Vec<u8>>(), lines in proptest::collection::vec(line(), 0..5), cut in any::<usize>()) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let text = lines.join("\n");
        let cut = cut % (text.len() + 1);
        for content in [&bytes[..], &text.as_bytes()[..cut]] {
            fs::write(&file, content).unwrap();
            let _ = resolve(&Files::Only(file.clone()), &asked("h", None, None), &around(None));
        }
    }
}

#[test]
fn a_match_block_is_refused_only_where_its_command_would_decide() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    fs::write(&file, "Port 1\nMatch host a exec \"true\"\n User u\n").unwrap();
    let files = Files::Only(file);
    assert_eq!(
        resolve(&files, &asked("b", None, None), &around(None)).unwrap().port,
        Some(1)
    );
    let refused = resolve(&files, &asked("a", None, None), &around(None)).unwrap_err();
    assert!(
        refused.message.contains("config line 2: ferry runs no command"),
        "{refused}"
    );
}

#[test]
fn the_user_s_file_comes_before_the_system_s_and_includes_from_its_own_folder() {
    let home = tempfile::tempdir().unwrap();
    let ssh = home.path().join(".ssh");
    fs::create_dir_all(ssh.join("conf.d")).unwrap();
    fs::write(
        ssh.join("config"),
        "Include conf.d/*\nInclude ~/.ssh/conf.d/b\nUser u\n",
    )
    .unwrap();
    fs::write(ssh.join("conf.d/a"), "Port 7\n").unwrap();
    fs::write(ssh.join("conf.d/b"), "HostName b\n").unwrap();
    let config = resolve(&Files::Usual, &asked("h", None, None), &around(Some(home.path()))).unwrap();
    assert_eq!(
        (config.user.as_deref(), config.port, config.hostname.as_deref()),
        (Some("u"), Some(7), Some("b"))
    );
    assert_eq!(
        resolve(&Files::None, &asked("h", None, None), &around(Some(home.path()))).unwrap(),
        HostConfig::default()
    );
    let missing = resolve(
        &Files::Only(ssh.join("nowhere")),
        &asked("h", None, None),
        &around(None),
    )
    .unwrap_err();
    assert!(missing.message.contains("nowhere"), "{missing}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(ssh.join("config"), fs::Permissions::from_mode(0o666)).unwrap();
        let shared = resolve(&Files::Usual, &asked("h", None, None), &around(Some(home.path()))).unwrap_err();
        assert!(shared.message.contains("chmod 600"), "{shared}");
    }
}

#[test]
fn paths_and_agents_are_expanded() {
    let around = around(Some(Path::new("/home/me")));
    let facts = Facts {
        host: "real.example",
        original_host: "h",
        port: 2222,
        user: "you",
        local_user: "me",
        alias: Some("al"),
        around: &around,
    };
    let path = |text: &str| expanded(text, &facts).map(|path| path.to_str().unwrap().to_owned());
    for (text, expected) in [
        ("~/.ssh/%r@%h:%p", "/home/me/.ssh/you@real.example:2222"),
        ("%d/%n.%u.%k%%", "/home/me/h.me.al%"),
        ("/a/${SET}/b", "/a/value/b"),
        ("~", "/home/me"),
        ("plain", "plain"),
    ] {
        assert_eq!(path(text).unwrap(), expected, "{text}");
    }
    for text in ["%C", "%", "${UNSET}", "${SET", "~other/x"] {
        let wrong = path(text).unwrap_err();
        assert!(wrong.message.contains(text) && !wrong.message.contains('\n'), "{wrong}");
    }
    assert_eq!(agent("none", &facts).unwrap(), None);
    assert_eq!(agent("$SET", &facts).unwrap(), Some("value".into()));
    assert_eq!(agent("SSH_AUTH_SOCK", &facts).unwrap(), None);
    assert_eq!(agent("~/sock", &facts).unwrap(), Some("/home/me/sock".into()));
}
