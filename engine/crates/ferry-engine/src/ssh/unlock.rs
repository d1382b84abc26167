//! Encrypted private keys: decrypted when a server has said that it would take them, once for all connections of a run.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use russh::keys::{self, PrivateKey};
use tokio::sync::oneshot;

use super::options::{Opened, Passphrase, Secret, Unlocked};
use crate::sync::lock;

/// The most questions for a passphrase, which is OpenSSH's number too.
const QUESTIONS: u32 = 3;

/// Returns true if a file's text is that of an encrypted key.
pub(super) fn is_encrypted(text: &str) -> bool {
    let putty = text.trim_start().starts_with("PuTTY-User-Key-File-");
    let encrypted_putty = putty
        && text
            .lines()
            .any(|line| line.starts_with("Encryption:") && !line.ends_with("none"));
    encrypted_putty
        || PrivateKey::from_openssh(text).is_ok_and(|key| key.is_encrypted())
        || text
            .lines()
            .any(|line| line.starts_with("-----BEGIN ENCRYPTED") || line.starts_with("Proc-Type: 4,ENCRYPTED"))
}

pub(super) async fn unlock(path: &Path, text: &str, passphrase: &Passphrase, unlocked: &Unlocked) -> Opened {
    if let Some(opened) = lock(&unlocked.0).get(path) {
        return opened.clone();
    }
    let opened = {
        let (path, text, passphrase) = (path.to_owned(), text.to_owned(), passphrase.clone());
        // A derivation of many rounds and a user who types would hold back every connection of this thread.
        on_thread(move || decrypt(&path, &text, &passphrase)).await
    };
    lock(&unlocked.0).insert(path.to_owned(), opened.clone());
    opened
}

async fn on_thread(work: impl FnOnce() -> Opened + Send + 'static) -> Opened {
    let (answer, answered) = oneshot::channel();
    let thread = std::thread::Builder::new().spawn(move || {
        let _ = answer.send(work());
    });
    match (thread, answered.await) {
        (Ok(_), Ok(opened)) => opened,
        _ => Err("no thread can be started to decrypt a key".into()),
    }
}

fn decrypt(path: &Path, text: &str, passphrase: &Passphrase) -> Opened {
    match passphrase {
        Passphrase::Unknown => Err(unknown(path)),
        Passphrase::Given(secret) => decrypt_with(path, text, secret),
        Passphrase::Asked(program) => {
            let mut opened = Err(unknown(path));
            for _ in 0..QUESTIONS {
                let secret = ask(program, path)?;
                opened = decrypt_with(path, text, &secret);
                if opened.is_ok() {
                    break;
                }
            }
            opened
        }
    }
}

pub(super) fn unknown(path: &Path) -> String {
    format!(
        "the key {} is encrypted; give its passphrase with --passphrase-file or --passphrase-env, or add it to an SSH agent",
        path.display()
    )
}

fn decrypt_with(path: &Path, text: &str, secret: &Secret) -> Opened {
    keys::decode_secret_key(text, Some(secret.reveal()))
        .map(Arc::new)
        .map_err(|error| {
            let path = path.display();
            if matches!(error, keys::Error::SshKey(keys::ssh_key::Error::Crypto)) {
                format!("the passphrase does not open the key {path}")
            } else {
                format!(
                    "the passphrase does not open the key {path}, or ferry cannot read its encryption, which ssh-keygen -p changes: {error}"
                )
            }
        })
}

/// Asks OpenSSH's own question: programs that keep passphrases know keys by it.
fn ask(program: &Path, path: &Path) -> Result<Secret, String> {
    let failed = |why: String| {
        format!(
            "{} did not tell the passphrase of {}: {why}",
            program.display(),
            path.display()
        )
    };
    let done = Command::new(program)
        .arg(format!("Enter passphrase for key '{}': ", path.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !done.status.success() {
        return Err(failed(done.status.to_string()));
    }
    let text = String::from_utf8(done.stdout).map_err(|_| failed("it is no text".into()))?;
    Ok(Secret::new(text.lines().next().unwrap_or_default().to_owned()))
}
