//! URLs, parsed as ferry parses them on the command line and in a Location field.

use ferry_engine::job::redirected;
use ferry_engine::remote::parse_remote;
use serde_json::{Value, json};

/// The URL that ferry requests, without credentials and fragment; or the reason for refusing the input.
pub fn typed(input: &str) -> Value {
    match parse_remote(input) {
        Ok(remote) => json!({ "href": remote.url.as_str() }),
        Err(error) => json!({ "error": error }),
    }
}

/// The target of an answer of `base` with this Location field, or ferry's reason for not following it.
pub fn location(base: &str, input: &str) -> Result<Value, String> {
    let base = base.parse().map_err(|error| format!("{base}: {error}"))?;
    Ok(match redirected(&base, input) {
        Ok(url) => json!({ "href": url.as_str() }),
        Err(error) => json!({ "error": error }),
    })
}
