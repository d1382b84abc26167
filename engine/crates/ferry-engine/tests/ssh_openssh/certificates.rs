//! Certificates of users and hosts, made by ssh-keygen. Whatever ferry says of a host's certificate, OpenSSH's own client says too.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ferry_engine::error::{Class, Error};
use ferry_engine::ssh::SshOptions;

use crate::sshd::{Sshd, keygen, run};

/// Signs `subject`'s public key with `authority`, as `name-cert.pub`.
fn certify(folder: &Path, authority: &str, subject: &str, name: &str, words: &str) {
    let key = std::fs::read_to_string(folder.join(format!("{subject}.pub"))).unwrap();
    std::fs::write(folder.join(format!("{name}.pub")), key).unwrap();
    let signed = Command::new("ssh-keygen")
        .args(["-q", "-s"])
        .arg(folder.join(authority))
        .args(["-I", "test"])
        .args(words.split_whitespace())
        .arg(folder.join(format!("{name}.pub")))
        .stderr(Stdio::null())
        .status();
    assert!(signed.is_ok_and(|status| status.success()), "ssh-keygen -s {words}");
}

/// An sshd that trusts `authority` for users, and shows its host's certificate if there is one.
fn start(prepare: impl FnOnce(&Path)) -> Option<Sshd> {
    Sshd::start_with(|folder| {
        keygen(&folder.join("authority"), "ed25519", "");
        keygen(&folder.join("other"), "ed25519", "");
        prepare(folder);
        let shown = folder.join("host-cert.pub");
        let host = if shown.exists() {
            format!("HostCertificate {}\n", shown.display())
        } else {
            String::new()
        };
        // Certificates only: none of the plain keys is let in.
        format!(
            "{host}TrustedUserCAKeys {}\nAuthorizedKeysFile none\n",
            folder.join("authority.pub").display()
        )
    })
}

fn me(sshd: &Sshd) -> String {
    sshd.place().user
}

fn auth(sshd: &Sshd, options: &SshOptions) -> Result<(String, u32), Error> {
    run(async {
        let (session, _) = sshd.open(options).await?;
        let facts = session.facts().clone();
        session.close().await;
        Ok((facts.auth, facts.round_trips))
    })
}

#[test]
fn a_user_s_certificate_next_to_its_key_or_named() {
    let Some(sshd) = start(|_| ()) else { return };
    let me = me(&sshd);
    let folder = sshd.at(".");
    for key in ["id", "id_rsa", "id_locked"] {
        certify(&folder, "authority", key, &format!("{key}-named"), &format!("-n {me}"));
        let mut options = sshd.options(&[key]);
        options.passphrase = crate::passphrases::given("secret");
        let refused = auth(&sshd, &options).unwrap_err();
        assert_eq!(refused.class, Class::Permanent, "{refused}");
        options.certificates = vec![sshd.at(&format!("{key}-named-cert.pub"))];
        assert_eq!(auth(&sshd, &options).unwrap(), ("certificate".into(), 5), "{key}");
        options.certificates.clear();
        std::fs::rename(
            sshd.at(&format!("{key}-named-cert.pub")),
            sshd.at(&format!("{key}-cert.pub")),
        )
        .unwrap();
        assert_eq!(auth(&sshd, &options).unwrap(), ("certificate".into(), 5), "{key}");
    }
}

#[test]
fn a_user_s_certificate_that_does_not_hold_is_refused_with_what_is_wrong() {
    let Some(sshd) = start(|_| ()) else { return };
    let me = me(&sshd);
    let folder = sshd.at(".");
    for (authority, words, why) in [
        (
            "authority",
            format!("-n {me} -V 20200101:20200102"),
            "expired on Thu, 02 Jan 2020",
        ),
        (
            "authority",
            format!("-n {me} -V 20400101:20400102"),
            "is not valid before",
        ),
        ("authority", format!("-h -n {me}"), "is a host's, not a user's"),
        ("authority", "-n somebody-else".into(), "tried certificate ("),
        ("other", format!("-n {me}"), "tried certificate ("),
        (
            "authority",
            format!("-n {me} -O source-address=192.0.2.1/32"),
            "tried certificate (",
        ),
    ] {
        certify(&folder, authority, "id", "id", &words);
        let refused = auth(&sshd, &sshd.options(&["id"])).unwrap_err();
        assert_eq!(refused.class, Class::Permanent, "{refused}");
        assert!(refused.message.contains(why), "{words}: {refused}");
        assert!(!refused.message.contains('\n'), "{refused}");
    }
    std::fs::write(sshd.at("id-cert.pub"), "no certificate").unwrap();
    let left_out = auth(&sshd, &sshd.options(&["id"])).unwrap_err();
    assert!(left_out.message.contains("id-cert.pub was left out"), "{left_out}");
    let mut options = sshd.options(&["id"]);
    options.certificates = vec![sshd.at("id-cert.pub")];
    let named = auth(&sshd, &options).unwrap_err();
    assert_eq!(named.class, Class::Local, "{named}");
}

#[test]
fn an_agent_signs_for_certificates_of_its_own_and_of_files() {
    let Some(sshd) = start(|_| ()) else { return };
    let me = me(&sshd);
    let folder = sshd.at(".");
    let Some(agent) = crate::sshd::Agent::start(&sshd) else {
        return;
    };
    agent.add(&sshd.at("id"));
    certify(&folder, "authority", "id", "named", &format!("-n {me}"));
    let mut options = sshd.options(&[]);
    options.agent = Some(agent.socket.clone());
    assert_eq!(auth(&sshd, &options).unwrap_err().class, Class::Permanent);
    options.certificates = vec![sshd.at("named-cert.pub")];
    assert_eq!(auth(&sshd, &options).unwrap(), ("agent".into(), 5));
    // Found next to the key, ssh-add takes the certificate along.
    certify(&folder, "authority", "id_rsa", "id_rsa", &format!("-n {me}"));
    agent.add(&sshd.at("id_rsa"));
    options.certificates.clear();
    assert_eq!(auth(&sshd, &options).unwrap().0, "agent");
}

struct Case {
    authority: &'static str,
    /// For ssh-keygen -s.
    words: &'static str,
    /// With `PORT`, `AUTHORITY` and `HOST` (the host's plain key) for what they are in this run.
    known: &'static str,
    /// Empty when the host is known.
    why: &'static str,
}

const VOUCHED: &str = "@cert-authority [127.0.0.1]:PORT AUTHORITY\n";

const CASES: &[Case] = &[
    Case {
        authority: "authority",
        words: "-n 127.0.0.1",
        known: VOUCHED,
        why: "",
    },
    Case {
        authority: "authority",
        words: "-n a.example,127.0.0.1",
        known: "@cert-authority * AUTHORITY\n",
        why: "",
    },
    Case {
        authority: "authority",
        words: "-n 127.0.0.1",
        known: "@cert-authority 127.0.0.1 AUTHORITY\n",
        why: "",
    },
    Case {
        authority: "authority",
        words: "-n 127.0.0.*",
        known: VOUCHED,
        why: "",
    },
    Case {
        authority: "authority",
        words: "-n 127.0.0.1 -V -1d:+1d",
        known: VOUCHED,
        why: "",
    },
    Case {
        authority: "authority_rsa",
        words: "-n 127.0.0.1",
        known: "@cert-authority * RSA\n",
        why: "",
    },
    Case {
        authority: "authority_rsa",
        words: "-n 127.0.0.1 -t ssh-rsa",
        known: "@cert-authority * RSA\n",
        why: "is signed with ssh-rsa, which is not safe",
    },
    Case {
        authority: "authority",
        words: "-n b.example",
        known: VOUCHED,
        why: "is for b.example, not for 127.0.0.1",
    },
    Case {
        authority: "authority",
        words: "",
        known: VOUCHED,
        why: "names no host",
    },
    Case {
        authority: "authority",
        words: "-n 127.0.0.1 -V 20200101:20200102",
        known: VOUCHED,
        why: "expired on",
    },
    Case {
        authority: "authority",
        words: "-n 127.0.0.1 -V 20400101:20400102",
        known: VOUCHED,
        why: "is not valid before",
    },
    Case {
        authority: "other",
        words: "-n 127.0.0.1",
        known: VOUCHED,
        why: "which no @cert-authority line has",
    },
    Case {
        authority: "authority",
        words: "-n 127.0.0.1",
        known: "@cert-authority b.example AUTHORITY\n",
        why: "is unknown",
    },
    Case {
        authority: "authority",
        words: "-n 127.0.0.1 -O critical:unheard-of=1",
        known: VOUCHED,
        why: "critical options that ferry does not know: unheard-of",
    },
    Case {
        authority: "authority",
        words: "-n 127.0.0.1",
        known: "@cert-authority * AUTHORITY\n@revoked * AUTHORITY\n",
        why: "is revoked by",
    },
    Case {
        authority: "authority",
        words: "-n 127.0.0.1",
        known: "@revoked * HOST\n@cert-authority * AUTHORITY\n",
        why: "is revoked by",
    },
    // A key that is known needs no certificate; a certificate of a key that is known to be another one is good.
    Case {
        authority: "authority",
        words: "-n b.example",
        known: "@cert-authority * AUTHORITY\n[127.0.0.1]:PORT HOST\n",
        why: "",
    },
    Case {
        authority: "authority",
        words: "-n 127.0.0.1",
        known: "@cert-authority * AUTHORITY\n[127.0.0.1]:PORT OTHER\n",
        why: "",
    },
    Case {
        authority: "authority",
        words: "-n b.example",
        known: "@cert-authority * AUTHORITY\n[127.0.0.1]:PORT OTHER\n",
        why: "without it, its host key is",
    },
    // An authority's key is no host's, and a host's no authority's.
    Case {
        authority: "authority",
        words: "-n 127.0.0.1",
        known: "* AUTHORITY\n",
        why: "its host key is",
    },
    Case {
        authority: "authority",
        words: "-n 127.0.0.1",
        known: "@cert-authority * HOST\n",
        why: "which no @cert-authority line has",
    },
];

/// True if OpenSSH's own client accepts the host as the one in this file.
fn openssh_takes(sshd: &Sshd, known: &Path) -> bool {
    let option = |name: &str, value: &Path| format!("-o{name}={}", value.display());
    let done = Command::new("ssh")
        .args([
            "-F",
            "none",
            "-oBatchMode=yes",
            "-oStrictHostKeyChecking=yes",
            "-oGlobalKnownHostsFile=none",
        ])
        .args([
            "-oPreferredAuthentications=none",
            "-oLogLevel=ERROR",
            "-oUpdateHostKeys=no",
        ])
        .arg(option("UserKnownHostsFile", known))
        .args(["-p", &sshd.port.to_string(), "127.0.0.1", "true"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let taken = said.contains("Permission denied");
    assert!(
        taken || said.contains("Host key verification failed") || said.contains("REVOKED"),
        "{said}"
    );
    taken
}

fn case_holds(case: &Case) -> Option<()> {
    let sshd = start(|folder| {
        if case.authority == "authority_rsa" {
            keygen(&folder.join("authority_rsa"), "rsa", "");
        }
        certify(folder, case.authority, "host", "host", &format!("-h {}", case.words));
    })?;
    certify(&sshd.at("."), "authority", "id", "id", &format!("-n {}", me(&sshd)));
    let key = |name: &str| {
        let text = std::fs::read_to_string(sshd.at(&format!("{name}.pub"))).unwrap_or_default();
        text.trim().to_owned()
    };
    let text = case
        .known
        .replace("PORT", &sshd.port.to_string())
        .replace("AUTHORITY", &key("authority"))
        .replace("RSA", &key("authority_rsa"))
        .replace("HOST", &key("host"))
        .replace("OTHER", &key("other"));
    let known: PathBuf = sshd.at("known");
    std::fs::write(&known, text).unwrap();
    let mut options = sshd.options(&["id"]);
    options.known_hosts = vec![known.clone()];
    let taken = auth(&sshd, &options);
    match &taken {
        Ok(_) => assert_eq!(case.why, "", "{} {}", case.words, case.known),
        Err(refused) => {
            assert!(!case.why.is_empty(), "{} {}: {refused}", case.words, case.known);
            assert_eq!(refused.class, Class::Permanent, "{refused}");
            assert!(
                refused.message.contains(case.why),
                "{} {}: {refused}",
                case.words,
                case.known
            );
            assert!(!refused.message.contains('\n'), "{refused}");
        }
    }
    // OpenSSH's versions do not agree on these two. 9.2 takes a certificate without names for a certificate of every host. It takes
    // `*` in a name as a plain character.
    let versions_agree = !case.words.is_empty() && !case.words.contains('*');
    if versions_agree {
        assert_eq!(
            taken.is_ok(),
            openssh_takes(&sshd, &known),
            "{} {}: OpenSSH differs",
            case.words,
            case.known
        );
    }
    Some(())
}

#[test]
fn a_host_s_certificate_holds_where_it_does_for_openssh_and_the_reason_is_told_where_not() {
    for case in CASES {
        if case_holds(case).is_none() {
            return;
        }
    }
}

#[test]
fn the_report_names_key_and_authority() {
    let Some(sshd) = start(|folder| certify(folder, "authority", "host", "host", "-h -n 127.0.0.1")) else {
        return;
    };
    certify(&sshd.at("."), "authority", "id", "id", &format!("-n {}", me(&sshd)));
    let authority = std::fs::read_to_string(sshd.at("authority.pub")).unwrap();
    std::fs::write(sshd.at("known"), format!("@cert-authority * {authority}")).unwrap();
    let mut options = sshd.options(&["id"]);
    options.known_hosts = vec![sshd.at("known")];
    let shown = run(async {
        let (session, _) = sshd.open(&options).await.unwrap();
        let shown = session.facts().host_key.clone();
        session.close().await;
        shown
    });
    assert!(
        shown.starts_with("ssh-ed25519 SHA256:") && shown.contains(", certified by SHA256:"),
        "{shown}"
    );
}
