//! What is filled in from the surroundings.

use std::fs;

use clap::{Args as _, Command, FromArgMatches};

use super::*;

fn flags(line: &str) -> flags::Ssh {
    let command = flags::Ssh::augment_args(Command::new("ferry").no_binary_name(true));
    flags::Ssh::from_arg_matches(&command.get_matches_from(line.split_whitespace())).unwrap()
}

fn completed(line: &str, home: Option<&Path>, variables: &[(&str, &str)]) -> Result<SshArgs, Problem> {
    let variable = |wanted: &str| {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| OsString::from(value))
    };
    complete(
        flags(line),
        &Surroundings {
            variable: &variable,
            home: home.map(Path::to_owned),
        },
    )
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
    let line = "--known-hosts a --known-hosts b -i k --identity l --no-agent --password-file p --channels 64 --connections 16 \
        --pin SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA --pin SHA256:+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/8";
    let args = completed(line, Some(home.path()), &[("SSH_AUTH_SOCK", "/run/agent")]).unwrap();
    assert_eq!(args.known_hosts, [Path::new("a"), Path::new("b")]);
    assert_eq!(args.identities, [Path::new("k"), Path::new("l")]);
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
