//! Compressed bodies: any bytes give a file or a fault, the same in any pieces. The first byte chooses the coding, the second how the body is cut.
#![no_main]

use ferry_engine::error::{Class, Error};
use ferry_engine::transfer::coding::{Coding, Decoder};
use libfuzzer_sys::fuzz_target;

/// What a few kilobytes expand to is not worth more than this.
const MOST: usize = 1 << 20;

/// The file so far, and why there is no more of it.
fn decode(coding: Coding, body: &[u8], piece: usize) -> (Vec<u8>, Option<Error>) {
    let mut decoder = Decoder::new(coding).expect("memory for a decoder");
    let mut file = Vec::new();
    for input in body.chunks(piece) {
        let result = decoder.decode(input, &mut |content| {
            assert!(!content.is_empty() && content.len() <= 64 * 1024);
            if file.len() + content.len() > MOST {
                return Err(Error::permanent("enough"));
            }
            file.extend_from_slice(content);
            Ok(())
        });
        if let Err(problem) = result {
            return (file, Some(problem));
        }
    }
    let ended = decoder.finish();
    (file, ended.err().map(|fault| fault.into_error()))
}

fuzz_target!(|data: &[u8]| {
    let [kind, cut, body @ ..] = data else { return };
    let coding = if kind % 2 == 0 { Coding::Gzip } else { Coding::Zstd };
    let (whole, problem) = decode(coding, body, usize::MAX);
    let (file, same) = decode(coding, body, usize::from(*cut) + 1);
    let common = whole.len().min(file.len());
    assert!(whole[..common] == file[..common]);
    let enough = |problem: &Option<Error>| problem.as_ref().is_some_and(|problem| problem.class == Class::Permanent);
    if enough(&problem) || enough(&same) {
        return;
    }
    assert_eq!(problem, same);
    assert!(problem.is_some() || whole == file);
});
