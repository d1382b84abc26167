//! Encrypted private keys.

use std::path::PathBuf;

use ferry_engine::error::Class;
use ferry_engine::ssh::{Passphrase, Secret, SshOptions};

use crate::sshd::{Sshd, run};

pub fn given(secret: &str) -> Passphrase {
    Passphrase::Given(Secret::new(secret.into()))
}

/// The method that let the user in and the number of round trips, or the error.
fn auth(sshd: &Sshd, options: &SshOptions) -> Result<(String, u32), ferry_engine::error::Error> {
    run(async {
        let (session, _) = sshd.open(options).await?;
        let facts = session.facts().clone();
        session.close().await;
        Ok((facts.auth, facts.round_trips))
    })
}

#[test]
fn keys_in_every_format_of_ssh_keygen_are_opened_by_their_passphrase() {
    let Some(sshd) = Sshd::start("") else { return };
    sshd.add_locked("pem_rsa", "rsa", "PEM");
    sshd.add_locked("pkcs8_rsa", "rsa", "PKCS8");
    sshd.add_locked("pkcs8_ecdsa", "ecdsa", "PKCS8");
    sshd.add_locked("own_rsa", "rsa", "RFC4716");
    for name in ["id_locked", "own_rsa", "pem_rsa", "pkcs8_rsa", "pkcs8_ecdsa"] {
        let mut options = sshd.options(&[name]);
        options.passphrase = given("secret");
        assert_eq!(auth(&sshd, &options).unwrap(), ("publickey".into(), 5), "{name}");
        options = sshd.options(&[name]);
        options.passphrase = given("Secret");
        let wrong = auth(&sshd, &options).unwrap_err();
        assert_eq!(wrong.class, Class::Local, "{wrong}");
        assert!(
            wrong.message.contains("the passphrase does not open the key"),
            "{wrong}"
        );
        assert!(
            wrong.message.contains(name) && !wrong.message.contains("Secret"),
            "{wrong}"
        );
        options.passphrase = Passphrase::Unknown;
        let missing = auth(&sshd, &sshd.options(&[name])).unwrap_err();
        assert_eq!(missing.class, Class::Local, "{missing}");
        assert!(
            missing
                .message
                .contains(&format!("{name} is encrypted; give its passphrase")),
            "{missing}"
        );
        assert!(!missing.message.contains('\n'), "{missing}");
    }
}

#[test]
fn without_its_public_half_a_key_is_opened_before_it_is_shown() {
    let Some(sshd) = Sshd::start("") else { return };
    sshd.add_locked("pem", "rsa", "PEM");
    std::fs::remove_file(sshd.at("pem.pub")).unwrap();
    let mut options = sshd.options(&["pem"]);
    options.passphrase = given("secret");
    assert_eq!(auth(&sshd, &options).unwrap(), ("publickey".into(), 5));
}

#[test]
fn another_key_serves_where_one_cannot_be_opened() {
    let Some(sshd) = Sshd::start("") else { return };
    let mut options = sshd.options(&["id_locked", "id"]);
    options.passphrase = given("wrong");
    // The server was asked about the first key, which then could not sign.
    assert_eq!(auth(&sshd, &options).unwrap(), ("publickey".into(), 6));
    let options = sshd.options(&["id_locked", "id"]);
    assert_eq!(auth(&sshd, &options).unwrap(), ("publickey".into(), 5));
}

/// A program that notes its question and answers each time with the next of these lines.
#[cfg(unix)]
fn asking(sshd: &Sshd, answers: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let (program, folder) = (sshd.at("askpass"), sshd.at("."));
    std::fs::write(sshd.at("answers"), answers).unwrap();
    let script = format!(
        "#!/bin/sh\ncd {}; echo \"$1\" >> asked; sed -n \"$(wc -l < asked)p\" answers | grep .\n",
        folder.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    program
}

#[cfg(unix)]
#[test]
fn a_program_is_asked_once_for_a_run_and_only_for_a_key_that_the_server_takes() {
    let Some(sshd) = Sshd::start("") else { return };
    sshd.add_locked("refused", "ed25519", "RFC4716");
    let keys = std::fs::read_to_string(sshd.at("authorized_keys")).unwrap();
    let last = std::fs::read_to_string(sshd.at("refused.pub")).unwrap();
    std::fs::write(sshd.at("authorized_keys"), keys.replace(&last, "")).unwrap();
    let mut options = sshd.options(&["refused", "id_locked"]);
    options.passphrase = Passphrase::Asked(asking(&sshd, "wrong\nsecret\n"));
    for _ in 0..2 {
        // The same options are those of a second connection.
        assert_eq!(auth(&sshd, &options).unwrap(), ("publickey".into(), 6));
    }
    let asked = std::fs::read_to_string(sshd.at("asked")).unwrap();
    let question = format!("Enter passphrase for key '{}': \n", sshd.at("id_locked").display());
    assert_eq!(asked, question.repeat(2));
}

#[cfg(unix)]
#[test]
fn a_user_who_gives_no_passphrase_is_believed() {
    let Some(sshd) = Sshd::start("") else { return };
    let mut options = sshd.options(&["id_locked"]);
    options.passphrase = Passphrase::Asked(asking(&sshd, ""));
    let declined = auth(&sshd, &options).unwrap_err();
    assert_eq!(declined.class, Class::Local, "{declined}");
    assert!(
        declined.message.contains("askpass did not tell the passphrase"),
        "{declined}"
    );
    assert_eq!(std::fs::read_to_string(sshd.at("asked")).unwrap().lines().count(), 1);
}

#[test]
fn a_public_key_alone_is_for_an_agent() {
    let Some(sshd) = Sshd::start("") else { return };
    let alone = auth(&sshd, &sshd.options(&["id.pub"])).unwrap_err();
    assert!(
        alone
            .message
            .contains("is a public key, whose private key no agent has"),
        "{alone}"
    );
}
