//! Frames of a server, to a client with open requests.

use ferry_h2::{Config, Connection, Handler, HeaderBlock, StreamId};
use serde_json::{Value, json};

use crate::text;

/// Requests that are open when the frames come: streams 1, 3, ... 39.
const REQUESTS: u32 = 20;

#[derive(Default)]
struct Events(Vec<Value>);

impl Handler for Events {
    fn header(&mut self, stream: StreamId, name: &[u8], value: &[u8]) {
        self.0.push(json!(["header", stream.0, text(name), text(value)]));
    }

    fn headers_done(&mut self, stream: StreamId, _end_stream: bool) {
        self.0.push(json!(["headers done", stream.0]));
    }

    fn data(&mut self, stream: StreamId, data: &[u8]) {
        self.0.push(json!(["data", stream.0, text(data)]));
    }

    fn end(&mut self, stream: StreamId) {
        self.0.push(json!(["end", stream.0]));
    }

    fn reset(&mut self, stream: StreamId, code: u32) {
        self.0.push(json!(["reset", stream.0, code]));
    }

    fn goaway(&mut self, last: StreamId, code: u32, debug: &[u8]) {
        self.0.push(json!(["goaway", last.0, code, text(debug)]));
    }

    fn pong(&mut self, payload: [u8; 8]) {
        self.0.push(json!(["pong", text(&payload)]));
    }
}

/// The calls of the handler, and the error that ended the connection.
pub fn receive(wire: &[u8]) -> Result<Value, String> {
    let mut connection = Connection::new(&Config::default());
    let pseudo: [(&[u8], &[u8]); 4] = [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":authority", b"conformance.test"),
        (b":path", b"/"),
    ];
    let block = HeaderBlock::new(pseudo).map_err(|error| error.to_string())?;
    for _ in 0..REQUESTS {
        connection.open(&block, true).map_err(|error| error.to_string())?;
    }
    let mut events = Events::default();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let result = connection
        .receive(&settings, &mut events)
        .and_then(|()| connection.receive(wire, &mut events));
    let error = result
        .err()
        .map(|error| json!({ "code": error.code, "message": error.message }));
    Ok(json!({ "error": error, "events": events.0 }))
}
