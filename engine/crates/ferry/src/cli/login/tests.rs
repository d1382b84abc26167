//! Logins for HTTP, and what is refused.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use clap::{Args as _, Command, FromArgMatches};
use ferry_engine::remote::parse_remote;
use http::HeaderValue;

use super::*;

const BASIC: &str = "Basic bWU6c2VjcmV0"; // me:secret
const VARIABLES: [(&str, &str); 3] = [("SECRET", "secret"), ("TOKEN", "t0ken"), ("BAD", "two words")];

fn authorized(home: &Path, url: &str, line: &str, header: Option<&str>) -> Result<Option<String>, Error> {
    let command = flags::Login::augment_args(Command::new("ferry").no_binary_name(true));
    let line = line.replace('~', home.to_str().unwrap());
    let flags = flags::Login::from_arg_matches(&command.get_matches_from(line.split_whitespace())).unwrap();
    let mut headers = HeaderMap::new();
    headers.extend(header.map(|value| (header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())));
    let mut remotes = [parse_remote(url).unwrap()];
    let variable = |wanted: &str| {
        let found = VARIABLES.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| OsString::from(value))
    };
    let around = Surroundings {
        variable: &variable,
        home: Some(home.to_owned()),
    };
    authorize(flags, &mut remotes, &headers, &around)?;
    let [remote] = remotes;
    assert!(!format!("{remote:?}").contains("c2VjcmV0"));
    Ok(remote.authorization.map(|value| value.to_str().unwrap().to_owned()))
}

/// A home directory with secrets that only its owner may read.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("password", "secret\n"),
        ("token", "t0ken\n"),
        (".netrc", "machine h login me password secret\n"),
        ("bad-netrc", "machine h\nlogin"),
    ] {
        let path = home.path().join(name);
        fs::write(&path, text).unwrap();
        close(&path, 0o600);
    }
    home
}

fn close(path: &Path, mode: u32) {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    #[cfg(not(unix))]
    let _ = (path, mode);
}

#[test]
fn a_login_comes_from_where_it_was_named() {
    let home = home();
    let bearer = Some("Bearer t0ken");
    for (url, line, wanted) in [
        ("http://h/", "", None),
        ("http://me@h/", "--password-file ~/password", Some(BASIC)),
        ("http://me@h/", "--password-env SECRET", Some(BASIC)),
        ("http://h/", "--token-file ~/token", bearer),
        ("http://h/", "--token-env TOKEN", bearer),
        ("http://h/", "--netrc", Some(BASIC)),
        ("http://me@H:8080/", "--netrc-file ~/.netrc", Some(BASIC)),
        ("http://other/", "--netrc", None),
        ("http://me:else@h/", "--netrc", Some("Basic bWU6ZWxzZQ==")),
        // The user has no entry: as without --netrc.
        ("http://you@h/", "--netrc", Some("Basic eW91Og==")),
    ] {
        let found = authorized(home.path(), url, line, None).unwrap();
        assert_eq!(found.as_deref(), wanted, "{url} {line}");
    }
    // The header is the user's own choice, and a netrc is for runs without such a choice.
    let found = authorized(home.path(), "http://h/", "--netrc", Some("Digest x")).unwrap();
    assert_eq!(found, None);
}

#[test]
fn what_cannot_be_a_login_is_refused_and_no_secret_is_shown() {
    let home = home();
    for (url, line, header, said) in [
        ("http://h/", "--password-file ~/password", None, "USER@host"),
        ("http://me:secret@h/", "--password-env SECRET", None, "USER@host"),
        ("http://me@h/", "--token-env TOKEN", None, "one of them"),
        ("http://h/", "--token-env TOKEN", Some("Digest x"), "one of them"),
        ("http://me:secret@h/", "", Some("Digest x"), "one of them"),
        ("http://h/", "--token-env BAD", None, "character"),
        ("http://h/", "--token-env secret=x", None, "not a value"),
        ("http://h/", "--token-env NONE", None, "no such variable"),
        ("http://h/", "--token-file ~/none", None, "--token-file"),
        ("http://h/", "--netrc-file ~/none", None, "--netrc-file"),
        ("http://h/", "--netrc-file ~/bad-netrc", None, "line 2"),
    ] {
        let problem = authorized(home.path(), url, line, header).unwrap_err();
        assert_eq!(problem.class.exit_code(), 2, "{line}");
        assert!(problem.message.contains(said), "{line}: {problem}");
        for secret in ["two words", "secret=", "me:secret"] {
            assert!(!problem.message.contains(secret), "{problem}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_secret_that_others_may_read_is_refused() {
    let home = home();
    for (name, line) in [
        ("password", "--password-file ~/password"),
        ("token", "--token-file ~/token"),
        (".netrc", "--netrc"),
    ] {
        for mode in [0o640, 0o604, 0o620] {
            close(&home.path().join(name), mode);
            let problem = authorized(home.path(), "http://me@h/", line, None).unwrap_err();
            assert!(problem.message.contains("chmod 600"), "{mode:o}: {problem}");
        }
    }
}

#[test]
fn a_proxy_s_password_is_on_no_command_line() {
    let home = home();
    let around = Surroundings {
        variable: &|name| (name == "NO_PROXY").then(|| "excluded".into()),
        home: None,
    };
    let file = || Some(PasswordFrom::File(home.path().join("password")));
    let to = |proxies: &Proxies, url: &str| {
        let proxy = proxies.for_url(&url.parse().unwrap())?;
        Some((proxy.user.clone(), proxy.password.clone()))
    };
    let found = proxies(Some("socks5://me@p"), None, file(), &around).unwrap();
    assert_eq!(
        to(&found, "sftp://h/"),
        Some((Some("me".into()), Some("secret".into())))
    );
    assert_eq!(to(&found, "http://excluded/"), None);
    let found = proxies(Some("p"), Some("h".into()), None, &around).unwrap();
    assert_eq!(
        (to(&found, "http://h/"), to(&found, "http://excluded/")),
        (None, Some((None, None)))
    );
    assert_eq!(proxies(Some(""), None, None, &around), Ok(Proxies::default()));
    for (typed, password) in [
        (Some("http://me:secret@p"), None),
        (Some("http://p"), file()),
        (None, file()),
        (Some("gopher://me@p"), None),
    ] {
        let error = proxies(typed, None, password, &around).unwrap_err();
        assert!(
            error.class.exit_code() == 2 && !error.message.contains("secret"),
            "{error}"
        );
    }
}
