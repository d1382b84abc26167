//! For tests that need a part of the machine: an sshd, a mount, OpenSSH's client. A test that cannot run fails, unless it is allowed to be skipped.

use std::io::Write;

/// `FERRY_ALLOW_SKIP` names the parts that a machine may lack, with commas between them: `FERRY_ALLOW_SKIP=sshd,mount`.
const ALLOWED: &str = "FERRY_ALLOW_SKIP";
/// A file that gets a line for each test that was skipped: `tests/support/engine_tests.py` counts them.
const SKIPPED: &str = "FERRY_SKIPPED";

/// Returns where the test may be skipped. Fails it otherwise.
#[track_caller]
pub fn lacks(part: &str, why: &str) {
    let allowed = std::env::var(ALLOWED).unwrap_or_default();
    assert!(
        allowed.split(',').any(|one| one.trim() == part),
        "this test needs {part}: {why}. Where a machine cannot have it, {ALLOWED}={part} skips the test"
    );
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {name}: no {part}: {why}");
    if let Some(path) = std::env::var_os(SKIPPED) {
        let line = format!("{name}: no {part}: {}\n", why.lines().next().unwrap_or_default());
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).unwrap();
    }
}
