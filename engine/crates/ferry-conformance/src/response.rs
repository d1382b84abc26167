//! An HTTP/1.1 answer, read to its end or to the close of the connection.

use ferry_http::{Event, ResponseHead, ResponseReader};
use serde_json::{Value, json};

use crate::text;

fn head(head: &ResponseHead) -> Value {
    let fields: Vec<_> = head
        .headers
        .iter()
        .map(|(name, value)| json!([name.as_str(), text(value.as_bytes())]))
        .collect();
    json!({ "status": head.status, "fields": fields })
}

/// The heads in order (interim ones first), the body, its end or the error, and the number of bytes of this answer.
pub fn read(method: &str, wire: &[u8]) -> Result<Value, String> {
    let method = method.parse().map_err(|_| format!("not a method: {method}"))?;
    let mut reader = ResponseReader::new(&method);
    let (mut at, mut heads, mut body) = (0, Vec::new(), Vec::new());
    let mut ended = false;
    let mut error = None;
    loop {
        match reader.next(&wire[at..]) {
            Err(problem) => {
                error = Some(problem.to_string());
                break;
            }
            Ok((used, event)) => {
                at += used;
                match event {
                    Event::NeedMore => {
                        match reader.closed() {
                            Ok(()) => ended = true,
                            Err(problem) => error = Some(problem.to_string()),
                        }
                        break;
                    }
                    Event::Informational(interim) => heads.push(head(&interim)),
                    Event::Head(last) => heads.push(head(&last)),
                    Event::Data(data) => body.extend_from_slice(data),
                    Event::End => {
                        ended = true;
                        break;
                    }
                }
            }
        }
    }
    Ok(json!({ "heads": heads, "body": text(&body), "ended": ended, "error": error, "used": at }))
}
