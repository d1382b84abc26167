//! The local name of a URL.

use url::Url;

use crate::report::Problem;

/// The last path segment of the URL as the user typed it: never of a redirect, never of a header.
pub fn local_name(url: &Url) -> Result<String, Problem> {
    todo!()
}
