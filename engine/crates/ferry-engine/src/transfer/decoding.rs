//! The decoding of a download's body on its way to the sink, with a limit on its size and a check that it is complete.

use super::coding::{Coding, Decoder};
use crate::error::{Class, Error};
use crate::stop::Stop;

/// A few bytes can decode to thousands of times as many, which keep a connection's thread from everything else: the decoding
/// looks for a stop of the run after each such number of bytes.
const LOOK_BYTES: u64 = 16 << 20;

pub struct Decoding {
    decoder: Decoder,
    /// The URL of the body, for messages.
    url: String,
    /// Bytes of the file so far.
    pub decoded: u64,
    /// The most bytes of the file, and the error that ends a transfer with more (`--max-filesize`).
    most: Option<(u64, Error)>,
    /// A body of no bytes is an empty file.
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

    /// Decodes the next bytes of the body; `put` gets those of the file.
    ///
    /// # Errors
    /// A faulty body, a file with more bytes than it may have, an error of `put`, and a run that was told to stop.
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

    /// Checks that the body may end here.
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

    /// Adds URL, coding and position to an error of the body; those of the disk or of the user's limit stay as they are.
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
