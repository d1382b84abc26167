//! The pipe between two sessions, and the meaning of refusals. Jump hosts themselves: `tests/engine/test_sftp_jump.py`.

use super::*;
use crate::error::Class;

fn poll(stream: &PipeStream, into: [&mut [u8]; 2]) -> Poll<io::Result<usize>> {
    stream.poll_read(&Context::from_waker(Waker::noop()), into)
}

fn stream() -> PipeStream {
    PipeStream {
        pipe: Arc::default(),
        writer: Box::pin(tokio::io::sink()),
    }
}

#[test]
fn what_has_arrived_is_read_before_the_end_and_the_end_says_whose_it_is() {
    let (mut one, mut two) = ([0; 3], [0; 4]);
    let own = stream();
    assert!(poll(&own, [&mut one, &mut two]).is_pending());
    own.pipe.data(0, b"abcdefghi");
    own.pipe
        .disconnected(Error::transient("jump host h:22: the connection was lost"));
    own.pipe.channel_closed(0);
    assert!(matches!(poll(&own, [&mut one, &mut two]), Poll::Ready(Ok(7))));
    assert_eq!((&one, &two), (b"abc", b"defg"));
    assert!(matches!(poll(&own, [&mut one, &mut two]), Poll::Ready(Ok(2))));
    let Poll::Ready(Err(lost)) = poll(&own, [&mut one, &mut two]) else {
        panic!("no end");
    };
    assert_eq!(lost.to_string(), "jump host h:22: the connection was lost");
    let closed = stream();
    closed.pipe.close();
    assert!(matches!(poll(&closed, [&mut one, &mut two]), Poll::Ready(Ok(0))));
}

#[test]
fn whoever_waits_to_send_is_woken_by_the_end() {
    let mut own = PipeStream {
        writer: Box::pin(tokio::io::duplex(1).0),
        ..stream()
    };
    let mut context = Context::from_waker(Waker::noop());
    let _ = own.poll_write(&mut context, b"a");
    assert!(own.poll_write(&mut context, b"b").is_ready() || lock(&own.pipe.0).writer.is_some());
    own.pipe.close();
    assert!(lock(&own.pipe.0).writer.is_none());
    let Poll::Ready(Err(error)) = own.poll_write(&mut context, b"c") else {
        panic!("written to a channel that is closed");
    };
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_jump_host_that_floods_is_read_from_no_further_until_some_is_taken() {
    let own = stream();
    assert_eq!(own.pipe.read_room(), ReadRoom::Bytes(HELD));
    own.pipe.data(0, &vec![0; HELD]);
    assert!(matches!(own.pipe.read_room(), ReadRoom::NotBefore(_)));
    own.pipe.data(0, b"more, of a packet that had come in part");
    assert!(matches!(own.pipe.read_room(), ReadRoom::NotBefore(_)));
    let mut taken = vec![0; HELD];
    assert!(matches!(poll(&own, [&mut taken, &mut []]), Poll::Ready(Ok(HELD))));
    assert!(matches!(own.pipe.read_room(), ReadRoom::Bytes(_)));
}

#[test]
fn what_a_jump_host_refuses_is_told_with_what_can_be_done() {
    let hop = HostPort {
        user: "me".into(),
        host: "h".into(),
        port: 22,
        is_jump: true,
    };
    for (reason, class, unreached) in [
        (ChannelOpenFailure::AdministrativelyProhibited, Class::Permanent, false),
        (ChannelOpenFailure::ConnectFailed, Class::Transient, true),
        (ChannelOpenFailure::ResourceShortage, Class::Transient, false),
    ] {
        let error = refused(&hop, "far:22", &reason, "no");
        assert_eq!((error.class, error.unreached), (class, unreached), "{error}");
        assert!(error.message.starts_with("jump host h:22: "), "{error}");
        assert!(error.message.contains("far:22"), "{error}");
    }
}
