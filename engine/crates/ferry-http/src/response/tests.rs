use super::*;

#[test]
fn an_upload_s_interim_and_final_responses() {
    let wire =
        b"HTTP/1.1 100 Continue\r\nContent-Length: 9\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nokHTTP";
    let mut reader = ResponseReader::new(&Method::PUT);
    let (first, event) = reader.next(wire).unwrap();
    assert!(matches!(event, Event::Informational(head) if head.status == 100));
    assert_eq!(reader.body_length(), None, "an interim response has no body");
    let (second, event) = reader.next(&wire[first..]).unwrap();
    assert!(matches!(event, Event::Head(head) if head.status == 201));
    assert_eq!(reader.body_length(), Some(ResponseBody::Known(2)));
    let at = first + second;
    assert_eq!(reader.next(&wire[at..]), Ok((2, Event::Data(b"ok"))));
    assert!(!reader.keep_alive(), "not before the end");
    assert_eq!(
        reader.next(&wire[at + 2..]),
        Ok((0, Event::End)),
        "the next response is left alone"
    );
    assert!(reader.keep_alive());
    assert_eq!(reader.body_received(), 2);
}

#[test]
fn an_incomplete_head_is_kept_by_the_caller() {
    let wire = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
    let mut reader = ResponseReader::new(&Method::GET);
    for length in 0..wire.len() {
        assert_eq!(reader.next(&wire[..length]), Ok((0, Event::NeedMore)));
    }
    assert!(matches!(reader.next(wire), Ok((used, Event::Head(_))) if used == wire.len()));
}

#[test]
fn an_empty_line_before_a_head_is_skipped() {
    for empty in ["\r\n", "\n", "\r\n\r\n"] {
        let wire = format!("{empty}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
        let mut reader = ResponseReader::new(&Method::GET);
        for length in 0..wire.len() {
            let piece = &wire.as_bytes()[..length];
            assert_eq!(reader.next(piece), Ok((0, Event::NeedMore)), "{piece:?}");
        }
        assert!(matches!(reader.next(wire.as_bytes()), Ok((used, Event::Head(_))) if used == wire.len()));
    }
}

#[test]
fn a_short_final_head_behind_an_interim_one_that_came_in_pieces() {
    let interim = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
    let mut reader = ResponseReader::new(&Method::GET);
    assert_eq!(reader.next(&interim[..interim.len() - 1]), Ok((0, Event::NeedMore)));
    assert!(matches!(reader.next(interim), Ok((_, Event::Informational(_)))));
    assert!(matches!(reader.next(b"HTTP/1.1 204\r\n\r\n"), Ok((16, Event::Head(_)))));
}

#[test]
fn a_line_is_judged_when_it_is_whole() {
    let wire = b"HTTP/1.1 200 OK\r\nA\0: b\r\n";
    for length in 0..wire.len() {
        assert_eq!(
            ResponseReader::new(&Method::GET).next(&wire[..length]),
            Ok((0, Event::NeedMore))
        );
    }
    assert_eq!(
        ResponseReader::new(&Method::GET).next(wire),
        Err(FrameError::BadHead("CR or NUL in a line"))
    );
}

#[test]
fn a_body_until_the_close() {
    let mut reader = ResponseReader::new(&Method::GET);
    assert!(matches!(
        reader.next(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n"),
        Ok((_, Event::Head(_)))
    ));
    assert_eq!(reader.next(b"abc"), Ok((3, Event::Data(b"abc"))));
    assert_eq!(reader.next(b""), Ok((0, Event::NeedMore)));
    assert_eq!(reader.closed(), Ok(()));
    assert_eq!(reader.next(b""), Ok((0, Event::End)));
    assert!(!reader.keep_alive(), "whatever it promised, it is gone");
}

#[test]
fn a_close_too_early() {
    let closed_after = |wire: &[u8]| {
        let (mut reader, mut at) = (ResponseReader::new(&Method::GET), 0);
        while let (used, Event::Head(_) | Event::Informational(_) | Event::Data(_)) = reader.next(&wire[at..]).unwrap()
        {
            at += used;
        }
        let error = reader.closed().unwrap_err();
        assert_eq!(reader.next(b"more"), Err(error), "for good");
        error
    };
    assert_eq!(closed_after(b""), FrameError::ClosedInHead { bytes: 0 });
    assert_eq!(
        closed_after(b"HTTP/1.1 103 Hints\r\n\r\nHTTP/"),
        FrameError::ClosedInHead { bytes: 27 }
    );
    let known = closed_after(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
    assert_eq!(
        known,
        FrameError::Truncated {
            received: 3,
            expected: Some(9)
        }
    );
    assert_eq!(
        known.to_string(),
        "connection closed after 3 of 9 body bytes, 6 missing"
    );
    let chunked = closed_after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n");
    assert_eq!(
        chunked,
        FrameError::Truncated {
            received: 3,
            expected: None
        }
    );
}

#[test]
fn more_than_was_announced_is_judged() {
    let read = |length: &str, rest: &[u8]| {
        let wire = [b"HTTP/1.1 200 OK\r\n", length.as_bytes(), b"\r\n\r\nabc"].concat();
        let mut reader = ResponseReader::new(&Method::GET);
        let (used, _) = reader.next(&wire).unwrap();
        let (more, _) = reader.next(&wire[used..]).unwrap();
        let behind = [&wire[used + more..], rest].concat();
        reader.behind(&behind)
    };
    assert_eq!(read("Content-Length: 3", b""), Ok(()));
    assert_eq!(
        read("Content-Length: 2", b""),
        Err(FrameError::Excess { expected: 2 }),
        "the body goes on"
    );
    assert_eq!(
        read("Content-Length: 3", b"\r\nx"),
        Err(FrameError::Excess { expected: 3 })
    );
    assert_eq!(
        read("Content-Length: 3", b"\r\n"),
        Ok(()),
        "some servers append an empty line"
    );
    assert_eq!(
        read("Content-Length: 3", b"HTTP/1.1 408 Time-out\r\n"),
        Ok(()),
        "another response"
    );
    assert_eq!(read("Connection: close", b""), Ok(()), "no length, nothing to exceed");
}
