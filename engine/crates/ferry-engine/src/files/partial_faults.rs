//! Faults of the system, made to happen: by a limit, by a file system of its own, by another user.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use super::tests::{content, create, key, names_in};
use super::*;
use crate::error::Class;
use crate::files::{check_target, existing};

#[cfg(target_os = "linux")]
#[path = "../../tests/support/lacking.rs"]
mod lacking;

/// A limit on the size of files, set in a shell: acts like a full disk, byte for byte, and does not need root.
#[cfg(unix)]
#[test]
fn a_full_disk_keeps_what_it_has_for_a_resume() {
    let dir = tempfile::tempdir().unwrap();
    // In units of 512 bytes.
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -f 1000; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "files::partial::faults::child_that_meets_its_limit",
            "--ignored",
            "--nocapture",
        ])
        .env("FERRY_TEST_DIR", dir.path())
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
    let target = dir.path().join("x");
    assert!(!target.exists());
    assert_eq!(existing(&target).unwrap().offset, 512_000);
    assert!(fs::read(dir.path().join(".x.ferry-partial")).unwrap() == content()[..512_000]);
    assert_eq!(names_in(dir.path()), [".x.ferry-partial", ".x.ferry-partial.json"]);
}

#[cfg(unix)]
#[test]
#[ignore = "run by another test, in a process with a limit"]
fn child_that_meets_its_limit() {
    let Some(dir) = std::env::var_os("FERRY_TEST_DIR") else {
        return;
    };
    let dir = Path::new(&dir);
    let mut sink = create(&dir.join("x"));
    let problem = content()
        .chunks(4096)
        .find_map(|piece| sink.write(piece).err())
        .unwrap();
    assert_eq!(problem.class, Class::Local);
    let expected = format!(
        "no space left writing {}/x (512000 bytes so far kept in {0}/.x.ferry-partial for --resume)",
        dir.display()
    );
    assert!(problem.message.starts_with(&expected), "{}", problem.message);
    assert_eq!(sink.position(), 512_000);
    assert!(sink.write(b"more").is_err(), "no gap");
    assert!(sink.flush().is_ok());
    sink.abandon(true);
    std::io::stdout().flush().unwrap();
}

/// A file system of its own, so full that even the journal may not fit. Only root may mount one; elsewhere the limit above stands for it.
#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=400k", "ferry-test"])
        .arg(dir.path())
        .output()
        .unwrap();
    if !mounted.status.success() {
        return lacking::lacks("mount", &String::from_utf8_lossy(&mounted.stderr));
    }
    let target = dir.path().join("x");
    let result = std::panic::catch_unwind(|| {
        let mut sink = create(&target);
        let problem = content()
            .chunks(4096)
            .find_map(|piece| sink.write(piece).err())
            .unwrap();
        assert!(problem.message.contains("no space left writing"), "{}", problem.message);
        let kept = sink.position();
        sink.abandon(true);
        assert!(!target.exists());
        let from = existing(&target).unwrap();
        assert_eq!(from.offset, kept);
        assert!(
            problem.message.contains(&format!("({kept} bytes so far kept in ")),
            "{}",
            problem.message
        );
        // No room for the journal of another.
        let problem = PartialFile::create(&dir.path().join("y"), false, Some(key()))
            .err()
            .unwrap();
        assert!(problem.message.contains("no space left beside"), "{}", problem.message);
        assert_eq!(names_in(dir.path()), [".x.ferry-partial", ".x.ferry-partial.json"]);
    });
    assert!(Command::new("umount").arg(dir.path()).status().unwrap().success());
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

/// Root may write everywhere, so the test changes to another user if it is root.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_without_permission() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The test binary may lie in a directory that only root enters, so the other user gets a copy.
    let binary = dir.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let inner = [
        "--exact",
        "files::partial::faults::child_without_permission",
        "--ignored",
    ];
    let is_root = check_target(&closed.join("x"), false).is_ok();
    let mut command = if is_root {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&binary);
        command
    } else {
        Command::new(&binary)
    };
    let output = command
        .args(inner)
        .env("FERRY_TEST_DIR", &closed)
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by another test, as a user without permission"]
fn child_without_permission() {
    let Some(dir) = std::env::var_os("FERRY_TEST_DIR") else {
        return;
    };
    let dir = PathBuf::from(dir);
    let problem = check_target(&dir.join("x"), false).unwrap_err();
    assert_eq!(problem.message, format!("no permission to write in {}", dir.display()));
    let problem = PartialFile::create(&dir.join("x"), false, None).err().unwrap();
    assert_eq!(problem.class, Class::Local);
    assert!(
        problem.message.starts_with("no permission to write "),
        "{}",
        problem.message
    );
}
