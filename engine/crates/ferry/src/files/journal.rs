//! What lies beside a partial file and says of what it is a part.

use url::Url;

/// What a server must still have for a partial file to be continued. Known when the answer's head is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeKey {
    pub url: String,
    pub size: Option<u64>,
    /// Strong ones only; a weak one is dropped, since it says nothing about bytes.
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

impl ResumeKey {
    /// Takes user and password out of the URL, which is written to disk.
    pub fn new(url: &Url, size: Option<u64>, etag: Option<&str>, last_modified: Option<&str>) -> Self {
        todo!()
    }
}

/// A partial file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumable {
    /// So many bytes are on disk.
    pub offset: u64,
    pub url: String,
    pub size: Option<u64>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}
