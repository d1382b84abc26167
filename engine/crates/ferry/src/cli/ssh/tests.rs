//! Options that are filled in from the surroundings.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use clap::{Args as _, Command, FromArgMatches};

use ferry_engine::options::PasswordFrom;

use super::*;

fn flags(line: &str) -> (flags::Ssh, flags::Login) {
    let command = flags::Ssh::augment_args(Command::new("ferry").no_binary_name(true));
    let found = flags::Login::augment_args(command).get_matches_from(line.split_whitespace());
    (
        flags::Ssh::from_arg_matches(&found).unwrap(),
        flags::Login::from_arg_matches(&found).unwrap(),
    )
}

fn completed(line: &str, home: Option<&Path>, variables: &[(&str, &str)]) -> Result<SshArgs, Error> {
    completed_for("sftp://h.example/f", line, home, variables)
}

fn completed_for(url: &str, line: &str, home: Option<&Path>, variables: &[(&str, &str)]) -> Result<SshArgs, Error> {
    let variable = |wanted: &str| {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| OsString::from(value))
    };
    let (ssh, login) = flags(line);
    let around = Surroundings {
        variable: &variable,
        home: home.map(Path::to_owned),
    };
    let remote = ferry_engine::remote::parse_remote(url).unwrap();
    Ok(with_jumps(ssh, &login, std::slice::from_ref(&remote), &around)?.0)
}

#[test]
fn defaults_are_those_of_openssh() {
    let home = tempfile::tempdir().unwrap();
    let ssh = home.path().join(".ssh");
    fs::create_dir_all(ssh.join("id_ecdsa")).unwrap();
    for key in ["id_rsa", "id_ed25519", "id_dsa"] {
        fs::write(ssh.join(key), "").unwrap();
    }
    let args = completed(
        "",
        Some(home.path()),
        &[("USER", "me"), ("SSH_AUTH_SOCK", "/run/agent")],
    )
    .unwrap();
    assert_eq!(args.known_hosts.len(), 2);
    assert_eq!(args.known_hosts[0], ssh.join("known_hosts"));
    assert!(args.known_hosts[1].ends_with("ssh_known_hosts"));
    assert_eq!(args.identities, [ssh.join("id_ed25519"), ssh.join("id_rsa")]);
    assert!(args.identities_are_default && args.pins.is_empty() && args.password.is_none());
    assert_eq!(
        (args.user.as_deref(), args.agent),
        (Some("me"), Some("/run/agent".into()))
    );
    assert_eq!((args.channels, args.connections), (8, None));
}

#[test]
fn what_is_named_replaces_the_defaults() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".ssh")).unwrap();
    fs::write(home.path().join(".ssh/id_rsa"), "").unwrap();
    let line = "--known-hosts a --known-hosts b -i k --identity l --certificate c --no-agent --password-file p --channels 64 --connections 16 \
        --pin SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA --pin SHA256:+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/8";
    let args = completed(line, Some(home.path()), &[("SSH_AUTH_SOCK", "/run/agent")]).unwrap();
    assert_eq!(args.known_hosts, [Path::new("a"), Path::new("b")]);
    assert_eq!(args.identities, [Path::new("k"), Path::new("l")]);
    assert_eq!(args.certificates, [Path::new("c")]);
    assert!(!args.identities_are_default && args.pins.len() == 2);
    assert_eq!(
        (args.agent, args.password),
        (None, Some(PasswordFrom::File("p".into())))
    );
    assert_eq!((args.channels, args.connections), (64, Some(16)));
}

#[test]
fn poor_surroundings() {
    let args = completed(
        "",
        None,
        &[
            ("USER", ""),
            ("LOGNAME", "log"),
            ("USERNAME", "name"),
            ("SSH_AUTH_SOCK", ""),
        ],
    )
    .unwrap();
    assert_eq!((args.known_hosts.len(), args.identities.len()), (1, 0));
    assert_eq!(args.user.as_deref(), Some("log"));
    assert_eq!(args.agent.is_some(), cfg!(windows));
    assert_eq!(
        completed("", None, &[("USERNAME", "name")]).unwrap().user.as_deref(),
        Some("name")
    );
    assert_eq!(completed("", None, &[]).unwrap().user, None);
}

#[test]
fn a_password_is_never_the_flag_s_value() {
    let args = completed("--password-env PW", None, &[("PW", "secret")]).unwrap();
    assert_eq!(args.password, Some(PasswordFrom::Variable("PW".into())));
    assert!(!format!("{args:?}").contains("secret"));
    let problem = completed("--password-env PW=secret", None, &[]).unwrap_err();
    assert!(!problem.message.contains("secret"));
}

#[test]
fn a_program_is_asked_for_passphrases_where_openssh_would_ask_it() {
    const PROGRAM: (&str, &str) = ("SSH_ASKPASS", "/bin/ask");
    let asked = |variables: &[(&str, &str)]| completed("", None, variables).unwrap().askpass.is_some();
    assert!(asked(&[PROGRAM, ("DISPLAY", ":0")]));
    assert!(asked(&[PROGRAM, ("WAYLAND_DISPLAY", "w")]));
    assert!(asked(&[PROGRAM, ("SSH_ASKPASS_REQUIRE", "force")]));
    for variables in [
        &[PROGRAM][..],
        &[("DISPLAY", ":0")],
        &[PROGRAM, ("DISPLAY", ":0"), ("SSH_ASKPASS_REQUIRE", "never")],
        &[PROGRAM, ("SSH_ASKPASS_REQUIRE", "prefer")],
    ] {
        assert!(!asked(variables), "{variables:?}");
    }
    let args = completed("--passphrase-env P", None, &[PROGRAM, ("DISPLAY", ":0")]).unwrap();
    assert_eq!(args.passphrase, Some(PasswordFrom::Variable("P".into())));
}

#[test]
fn ssh_config_fills_in_what_no_flag_says() {
    let home = tempfile::tempdir().unwrap();
    let ssh = home.path().join(".ssh");
    fs::create_dir(&ssh).unwrap();
    for file in ["work", "work.crt"] {
        fs::write(ssh.join(file), "").unwrap();
    }
    let text = "Host w\n HostName %h.example.org\n User you\n Port 2222\n IdentityFile ~/.ssh/work\n IdentityFile ~/.ssh/missing\n \
        CertificateFile ~/.ssh/work.crt\n IdentitiesOnly yes\n IdentityAgent ~/%r.sock\n UserKnownHostsFile ~/.ssh/k1 ~/.ssh/k2\n \
        GlobalKnownHostsFile none\n HostKeyAlias al\n AddressFamily inet\n";
    fs::write(ssh.join("config"), text).unwrap();
    let own = |line: &str, url: &str| completed_for(url, line, Some(home.path()), &[("USER", "me")]);
    let args = own("", "sftp://w/f").unwrap();
    assert_eq!(args.hostname.as_deref(), Some("w.example.org"));
    assert_eq!((args.user.as_deref(), args.port), (Some("you"), Some(2222)));
    assert_eq!(
        (args.identities, args.certificates),
        (vec![ssh.join("work")], vec![ssh.join("work.crt")])
    );
    assert_eq!(
        (args.identities_only, args.agent),
        (true, Some(home.path().join("you.sock")))
    );
    assert_eq!(args.known_hosts, [ssh.join("k1"), ssh.join("k2")]);
    assert_eq!(
        (args.host_key_alias.as_deref(), args.family),
        (Some("al"), Family::Inet)
    );
    let args = own("--known-hosts k -i i --certificate c --no-agent", "sftp://w/f").unwrap();
    assert_eq!(
        (args.known_hosts, args.identities),
        (vec!["k".into()], vec!["i".into()])
    );
    assert_eq!((args.certificates, args.agent), (vec!["c".into()], None));
    // The URL comes first, and no setting of `w` applies to another host.
    assert_eq!(own("", "sftp://him@w:7/f").unwrap().port, Some(7));
    let other = own("", "sftp://x/f").unwrap();
    assert_eq!(
        (other.hostname, other.user.as_deref(), other.port),
        (None, Some("me"), None)
    );
    assert_eq!(own("-F none", "sftp://w/f").unwrap().hostname, None);
}

#[test]
fn what_ssh_config_asks_for_and_ferry_cannot_do_is_refused_for_that_host_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    for (keyword, value) in [
        ("ProxyCommand", "nc %h %p"),
        ("RevokedHostKeys", "/etc/revoked"),
        ("Port", "none"),
    ] {
        fs::write(&file, format!("Host w\n {keyword} {value}\n")).unwrap();
        let line = format!("-F {}", file.display());
        let refused = completed_for("sftp://w/f", &line, None, &[]).unwrap_err();
        assert_eq!(refused.class.exit_code(), 2, "{refused}");
        assert!(
            refused.message.to_lowercase().contains(&keyword.to_lowercase()),
            "{refused}"
        );
        let elsewhere = completed_for("sftp://x/f", &line, None, &[]);
        // A wrong value is wrong wherever it stands.
        assert_eq!(elsewhere.is_ok(), keyword != "Port", "{keyword}");
    }
}
