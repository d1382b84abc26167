//! Feeds a response to a reader in pieces, as its contract asks, and asserts the properties that hold for any bytes.
//! The fuzz target includes this file too.

use ferry_http::{Event, FrameError, ResponseBody, ResponseHead, ResponseReader};
use http::Method;

/// The outcome of reading one response, without the places at which its data was cut.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Interim heads, then the final one.
    pub heads: Vec<ResponseHead>,
    pub length: Option<ResponseBody>,
    pub body: Vec<u8>,
    /// Bytes used, and true if the connection may be used again.
    pub end: Result<(usize, bool), FrameError>,
}

/// Reads `input` and then the close, in pieces of `sizes` repeated for ever, each at least one byte; in one piece if `sizes`
/// is empty.
pub fn drive(method: &Method, input: &[u8], sizes: &[u8]) -> Outcome {
    let mut sizes = sizes.iter().map(|size| usize::from(*size).max(1)).cycle();
    let mut reader = ResponseReader::new(method);
    let (mut heads, mut body) = (Vec::new(), Vec::new());
    let (mut from, mut upto) = (0, sizes.next().unwrap_or(input.len()).min(input.len()));
    let end = loop {
        assert!(!reader.keep_alive(), "only after the end");
        let piece = &input[from..upto];
        let (used, event) = match reader.next(piece) {
            Ok(progress) => progress,
            Err(error) => {
                assert_eq!(reader.next(piece), Err(error), "an error stays");
                assert_eq!(reader.closed(), Err(error), "an error stays");
                break Err(error);
            }
        };
        assert!(used <= piece.len());
        from += used;
        match event {
            Event::NeedMore if upto == input.len() => break reader.closed().map(|()| (from, reader.keep_alive())),
            Event::NeedMore => {
                assert_eq!(
                    reader.next(&input[from..upto]),
                    Ok((0, Event::NeedMore)),
                    "asking again is harmless"
                );
                upto += sizes.next().unwrap_or(1).min(input.len() - upto);
            }
            Event::Informational(head) | Event::Head(head) => {
                assert!(used > 0);
                heads.push(head);
            }
            Event::Data(data) => {
                assert!(!data.is_empty());
                assert_eq!(
                    data.as_ptr_range().end,
                    piece[..used].as_ptr_range().end,
                    "borrowed, and nothing used behind"
                );
                body.extend_from_slice(data);
            }
            Event::End => {
                assert_eq!(reader.next(&input[from..upto]), Ok((0, Event::End)), "an end stays");
                assert_eq!(reader.closed(), Ok(()), "an end stays");
                break Ok((from, reader.keep_alive()));
            }
        }
        assert_eq!(reader.body_received(), body.len() as u64);
    };
    if let (Ok(_), Some(ResponseBody::Known(length))) = (&end, reader.body_length()) {
        assert_eq!(body.len() as u64, length);
    }
    Outcome {
        heads,
        length: reader.body_length(),
        body,
        end,
    }
}
