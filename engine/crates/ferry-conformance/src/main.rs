//! Reads test cases that others wrote, one JSON object per line of standard input, and prints a line for each with the
//! result of ferry's protocol crates. `tests/conformance` writes the cases and judges the answers.

mod certificate;
mod h2;
mod hpack;
mod qpack;
mod response;
mod url;

use std::io::{BufRead, Write};

use serde::Deserialize;
use serde_json::Value;

/// A case. Bytes are in hexadecimal digits.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Case {
    /// Header blocks that share a decoder.
    Hpack { blocks: Vec<hpack::Block> },
    /// A header block of HTTP/3, without a dynamic table: ferry allows none.
    Qpack { block: String },
    /// The frames that a server sends behind its SETTINGS.
    H2 { wire: String },
    /// The bytes that an HTTP/1.1 server answers, until it closes.
    Response { method: String, wire: String },
    /// A server's certificates.
    Certificate(certificate::Path),
    /// A URL of the command line; with a base, the Location field of an answer to that URL.
    Url { input: String, base: Option<String> },
}

fn answer(case: Case) -> Result<Value, String> {
    match case {
        Case::Hpack { blocks } => hpack::decode(&blocks),
        Case::Qpack { block } => qpack::decode(&bytes(&block)?),
        Case::H2 { wire } => h2::receive(&bytes(&wire)?),
        Case::Response { method, wire } => response::read(&method, &bytes(&wire)?),
        Case::Certificate(path) => certificate::verify(&path),
        Case::Url { input, base: None } => Ok(url::typed(&input)),
        Case::Url {
            input,
            base: Some(base),
        } => url::location(&base, &input),
    }
}

fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let digit = |at: u8| {
        char::from(at)
            .to_digit(16)
            .ok_or_else(|| format!("not hexadecimal: {hex:.40}"))
    };
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).map_err(|error| error.to_string()),
            _ => Err(format!("half a byte: {hex:.40}")),
        })
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn main() -> std::process::ExitCode {
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in input.lines() {
        let case = line.map_err(|error| error.to_string());
        let case = case.and_then(|line| serde_json::from_str(&line).map_err(|error| error.to_string()));
        match case.and_then(answer) {
            Ok(value) if writeln!(output, "{value}").is_ok() => {}
            Ok(_) => return std::process::ExitCode::FAILURE,
            Err(problem) => {
                eprintln!("ferry-conformance: {problem}");
                return std::process::ExitCode::from(2);
            }
        }
    }
    std::process::ExitCode::SUCCESS
}
