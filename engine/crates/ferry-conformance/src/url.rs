//! URLs as ferry reads them: of the command line, and of a Location field.

use ferry_engine::job::redirected;
use ferry_engine::remote::parse_remote;
use serde_json::{Value, json};

/// The URL that ferry asks for, without credentials and fragment; or why it refuses what was typed.
pub fn typed(input: &str) -> Value {
    match parse_remote(input) {
        Ok(remote) => json!({ "href": remote.url.as_str() }),
        Err(error) => json!({ "error": error }),
    }
}

/// Where an answer of `base` with this Location field leads, or why ferry does not go there.
pub fn location(base: &str, input: &str) -> Result<Value, String> {
    let base = base.parse().map_err(|error| format!("{base}: {error}"))?;
    Ok(match redirected(&base, input) {
        Ok(url) => json!({ "href": url.as_str() }),
        Err(error) => json!({ "error": error }),
    })
}
