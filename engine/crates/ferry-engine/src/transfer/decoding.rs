//! The decoding of a download's body, on its way to the sink: what may come of it, and whether it is complete.

use super::coding::{Coding, Decoder};
use crate::error::{Class, Error};
use crate::stop::Stop;

/// A body of some bytes can become thousands of times as many, which keep a connection's thread from everything else: it looks after so many
/// whether the run was told to stop.
const LOOK_BYTES: u64 = 16 << 20;

pub struct Decoding {
    decoder: Decoder,
    /// Whose body it is, for messages.
    url: String,
    /// Bytes of the file so far.
    pub decoded: u64,
    /// More than these end the transfer so (`--max-filesize`).
    most: Option<(u64, Error)>,
    /// No bytes at all are an empty file.
    may_be_empty: bool,
    stop: Stop,
    looked: u64,
}

impl Decoding {
    /// # Errors
    /// Class Local, without memory.
    pub fn new(
        coding: Coding,
        url: String,
        most: Option<(u64, Error)>,
        may_be_empty: bool,
        stop: Stop,
    ) -> Result<Self, Error> {
        Ok(Self {
            decoder: Decoder::new(coding)?,
            url,
            decoded: 0,
            most,
            may_be_empty,
            stop,
            looked: 0,
        })
    }

    pub fn coding(&self) -> Coding {
        self.decoder.coding()
    }

    /// The next bytes of the body; `put` gets those of the file.
    ///
    /// # Errors
    /// A body that is none, one that has more than it may, what `put` says, and a run that was told to stop.
    pub fn decode(&mut self, body: &[u8], put: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let (decoded, looked, most, stop) = (&mut self.decoded, &mut self.looked, &self.most, &self.stop);
        let result = self.decoder.decode(body, &mut |piece| {
            *decoded += piece.len() as u64;
            if let Some((most, problem)) = most
                && *decoded > *most
            {
                return Err(problem.clone());
            }
            if *decoded - *looked >= LOOK_BYTES {
                *looked = *decoded;
                if let Some(problem) = stop.problem() {
                    return Err(problem);
                }
            }
            put(piece)
        });
        result.map_err(|problem| self.explained(problem))
    }

    /// Whether the body may end here.
    ///
    /// # Errors
    /// Class Integrity: it is cut short.
    pub fn finish(&self) -> Result<(), Error> {
        if self.may_be_empty && !self.decoder.has_begun() {
            return Ok(());
        }
        self.decoder
            .finish()
            .map_err(|fault| self.explained(fault.into_error()))
    }

    /// Where the body is at fault, and not the disk or the user's limit.
    fn explained(&self, mut problem: Error) -> Error {
        if problem.class == Class::Integrity {
            let (url, name) = (&self.url, self.coding().name());
            let decoded = self.decoded;
            problem.message =
                format!("{url}: the {name} body cannot be decoded after {decoded} bytes of the file: {problem}");
        }
        problem
    }
}
