//! QPACK, as the first header block of an HTTP/3 answer: h3's client on a connection that is only memory.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use serde_json::{Value, json};

use crate::text;

/// Type of a HEADERS frame (RFC 9114, 7.2.2).
const HEADERS: u8 = 1;

/// The fields of the answer whose HEADERS frame has this block, or the error of reading them.
pub fn decode(block: &[u8]) -> Result<Value, String> {
    let mut wire = BytesMut::new();
    wire.put_u8(HEADERS);
    // The eight-byte form of a length (RFC 9000, 16).
    wire.put_u64(block.len() as u64 | 3 << 62);
    wire.put_slice(block);
    let answered = at_once(ask(wire.freeze()))?;
    Ok(match answered {
        Ok(answer) => {
            let status = [(":status".to_owned(), answer.status().as_str().to_owned())];
            let fields = answer.headers().iter();
            let fields = fields.map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes())));
            json!({ "fields": status.into_iter().chain(fields).collect::<Vec<_>>() })
        }
        Err(problem) => json!({ "error": problem }),
    })
}

async fn ask(answer: Bytes) -> Result<http::Response<()>, String> {
    let connection = Memory { answer };
    let mut client = h3::client::builder();
    let built = client.send_grease(false).build::<_, _, Bytes>(connection).await;
    let (_driver, mut requests) = built.map_err(|error| error.to_string())?;
    let request = http::Request::get("https://server/").body(());
    let request = request.map_err(|error| error.to_string())?;
    let asked = requests.send_request(request).await;
    let mut stream = asked.map_err(|error| error.to_string())?;
    stream.recv_response().await.map_err(|error| error.to_string())
}

/// Nothing in memory makes a task wait.
fn at_once<T>(task: impl Future<Output = T>) -> Result<T, String> {
    match pin!(task).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err("the client waits for more than the answer".into()),
    }
}

/// A connection whose server opens no stream, and gives this answer to every request.
struct Memory {
    answer: Bytes,
}

/// A stream of such a connection: all that is sent is taken, and the answer arrives in one piece.
struct Stream {
    answer: Option<Bytes>,
}

fn stream_id() -> StreamId {
    StreamId::try_from(0).unwrap_or_else(|_| unreachable!("zero is a stream"))
}

impl quic::Connection<Bytes> for Memory {
    type RecvStream = Stream;
    type OpenStreams = Memory;

    fn poll_accept_recv(&mut self, _: &mut Context<'_>) -> Poll<Result<Stream, ConnectionErrorIncoming>> {
        Poll::Pending
    }

    fn poll_accept_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<Stream, ConnectionErrorIncoming>> {
        Poll::Pending
    }

    fn opener(&self) -> Memory {
        Memory {
            answer: self.answer.clone(),
        }
    }
}

impl quic::OpenStreams<Bytes> for Memory {
    type BidiStream = Stream;
    type SendStream = Stream;

    fn poll_open_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<Stream, StreamErrorIncoming>> {
        let answer = Some(self.answer.clone());
        Poll::Ready(Ok(Stream { answer }))
    }

    fn poll_open_send(&mut self, _: &mut Context<'_>) -> Poll<Result<Stream, StreamErrorIncoming>> {
        Poll::Ready(Ok(Stream { answer: None }))
    }

    fn close(&mut self, _: Code, _: &[u8]) {}
}

impl quic::SendStream<Bytes> for Stream {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        let mut data = data.into();
        data.advance(data.remaining());
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, _: u64) {}

    fn send_id(&self) -> StreamId {
        stream_id()
    }
}

impl quic::RecvStream for Stream {
    type Buf = Bytes;

    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        Poll::Ready(Ok(self.answer.take()))
    }

    fn stop_sending(&mut self, _: u64) {}

    fn recv_id(&self) -> StreamId {
        stream_id()
    }
}

impl quic::BidiStream<Bytes> for Stream {
    type SendStream = Stream;
    type RecvStream = Stream;

    fn split(self) -> (Stream, Stream) {
        (Stream { answer: None }, self)
    }
}
