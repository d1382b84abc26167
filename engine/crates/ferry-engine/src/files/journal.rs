//! The journal beside a partial file, which identifies the file on its server.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use url::Url;

use super::Missing;
use crate::platform;

/// Names the format. Another format is not understood, and the partial file begins anew.
const SCHEMA: &str = "ferry-partial-1";
/// The format of a file with holes: a ferry that knows only the first format must not take the file's length for its content.
const SCHEMA_WITH_HOLES: &str = "ferry-partial-2";
/// More than URL and headers can be; a journal is read whole.
const MOST_BYTES: u64 = 256 * 1024;

/// The identity of a file on its server: a partial file is continued only while it is unchanged. Known with the answer's head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeKey {
    /// The URL without user, password and fragment.
    pub url: String,
    #[serde(flatten)]
    pub validators: Validators,
    /// All validators of the answer, also those that If-Range may not name: weak and young ones.
    #[serde(default, skip_serializing_if = "Stated::is_empty")]
    pub stated: Stated,
}

/// `ETag` and Last-Modified as an answer had them, whether or not they are strong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stated {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Stated {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The marks that tell one version of a file on a server from another, so that the rest of a file is fetched and never the rest
/// of another file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validators {
    pub size: Option<u64>,
    /// Strong ones only; a weak one is dropped, since it says nothing about bytes.
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

impl Validators {
    /// The value of If-Range (RFC 9110, section 13.1.5); without one the rest cannot be asked for.
    #[must_use]
    pub fn if_range(&self) -> Option<&str> {
        self.etag.as_deref().or(self.last_modified.as_deref())
    }
}

impl ResumeKey {
    /// Takes user and password out of the URL, which is written to disk.
    #[must_use]
    pub fn new(url: &Url, mut validators: Validators) -> Self {
        let mut url = url.clone();
        // Both refuse only where there can be neither.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        validators.etag = validators.etag.filter(|tag| !tag.starts_with("W/"));
        Self {
            url: url.into(),
            validators,
            stated: Stated::default(),
        }
    }

    /// Adds the validators as the answer had them.
    #[must_use]
    pub fn stating(self, stated: Stated) -> Self {
        Self { stated, ..self }
    }

    /// Returns the validators as the answer had them, or the strong ones of a journal that has no others.
    #[must_use]
    pub fn stated(&self) -> Stated {
        if self.stated.is_empty() {
            Stated {
                etag: self.validators.etag.clone(),
                last_modified: self.validators.last_modified.clone(),
            }
        } else {
            self.stated.clone()
        }
    }
}

/// A partial file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumable {
    /// The number of bytes that are on disk and may be kept. Never the whole size: the last byte of a complete file is fetched
    /// again, so that the server shows if the file is still the same.
    pub offset: u64,
    pub key: ResumeKey,
    /// The holes in a file that several connections have written; empty if all bytes from `offset` on are missing.
    pub missing: Missing,
}

#[derive(Serialize, Deserialize)]
struct Journal {
    schema: String,
    #[serde(flatten)]
    key: ResumeKey,
    #[serde(default, skip_serializing_if = "Missing::is_empty")]
    missing: Missing,
}

/// Writes a journal aside and renames it: a reader finds the old one, the new one or none. `aside` is a name in the same
/// directory.
pub(super) fn write(path: &Path, aside: &Path, key: &ResumeKey, missing: &Missing) -> io::Result<()> {
    let schema = if missing.is_empty() { SCHEMA } else { SCHEMA_WITH_HOLES };
    let text = serde_json::to_vec(&Journal {
        schema: schema.to_owned(),
        key: key.clone(),
        missing: missing.clone(),
    })?;
    let mut file = platform::create_private(aside)?;
    let written = file.write_all(&text).and_then(|()| {
        drop(file);
        platform::replace(aside, path)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(aside);
    }
    written
}

/// Reads a journal; `None` for anything that is not exactly one: then there is nothing to go on from.
pub(super) fn read(path: &Path) -> Option<(ResumeKey, Missing)> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    let journal: Journal = serde_json::from_slice(&text).ok()?;
    let Journal { schema, key, missing } = journal;
    let sound = match schema.as_str() {
        SCHEMA => missing.is_empty(),
        SCHEMA_WITH_HOLES => key.validators.size.is_some_and(|size| missing.is_sound(size)),
        _ => false,
    };
    sound.then_some((key, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (path, aside) = (dir.path().join("j"), dir.path().join("j.new"));
        let url: Url = "https://user:secret@host/x?y=1#z".parse().unwrap();
        let key = ResumeKey::new(
            &url,
            Validators {
                size: Some(7),
                etag: Some("\"strong\"".to_owned()),
                last_modified: Some("Sat, 21 Nov 2026 12:00:00 GMT".to_owned()),
            },
        );
        let strong = key.stated();
        assert_eq!(
            (strong.etag.as_deref(), strong.last_modified.as_deref()),
            (Some("\"strong\""), Some("Sat, 21 Nov 2026 12:00:00 GMT"))
        );
        let stated = Stated {
            etag: Some("W/\"weak\"".to_owned()),
            last_modified: None,
        };
        let key = key.stating(stated.clone());
        assert_eq!(key.stated(), stated);
        assert_eq!(key.url, "https://host/x?y=1");
        assert_eq!(read(&path), None);
        let whole = Missing::default();
        write(&path, &aside, &key, &whole).unwrap();
        assert_eq!(read(&path), Some((key.clone(), whole.clone())));
        assert!(!aside.exists());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }

        let weak = ResumeKey::new(
            &url,
            Validators {
                etag: Some("W/\"weak\"".to_owned()),
                ..Validators::default()
            },
        );
        assert_eq!(weak.validators.etag, None);
        write(&path, &aside, &weak, &whole).unwrap();
        assert_eq!(read(&path), Some((weak, whole)));

        let text = std::fs::read_to_string(&path).unwrap();
        for broken in [
            "",
            "{}",
            "[]",
            &text[..text.len() - 1],
            &text.replace("partial-1", "partial-2"),
        ] {
            std::fs::write(&path, broken).unwrap();
            assert_eq!(read(&path), None, "{broken}");
        }
    }

    #[test]
    fn holes_have_a_format_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let (path, aside) = (dir.path().join("j"), dir.path().join("j.new"));
        let url: Url = "https://host/x".parse().unwrap();
        let key = ResumeKey::new(
            &url,
            Validators {
                size: Some(70),
                etag: Some("\"strong\"".to_owned()),
                last_modified: None,
            },
        );
        let missing = Missing::new([10..20, 60..70]);
        write(&path, &aside, &key, &missing).unwrap();
        assert_eq!(read(&path), Some((key.clone(), missing.clone())));
        let text = std::fs::read_to_string(&path).unwrap();
        for broken in [
            text.replace("partial-2", "partial-1"),
            text.replace("\"start\":60", "\"start\":15"),
            text.replace("\"end\":70", "\"end\":71"),
            text.replace("\"end\":20", "\"end\":10"),
            text.replace("\"size\":70", "\"size\":null"),
        ] {
            assert_ne!(broken, text);
            std::fs::write(&path, &broken).unwrap();
            assert_eq!(read(&path), None, "{broken}");
        }
    }
}
