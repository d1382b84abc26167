//! Any bytes as a response: what `drive` asserts holds, and how they are cut changes nothing.
#![no_main]

use http::Method;
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/ferry-http/tests/drive/mod.rs"]
mod drive;

// The last five bytes say how: the method, and the sizes of the pieces. At the end, so that a seed is a readable response.
fuzz_target!(|data: &[u8]| {
    let Some((input, [method, sizes @ ..])) = data.split_last_chunk::<5>() else {
        return;
    };
    let method = [Method::GET, Method::HEAD, Method::CONNECT][usize::from(*method) % 3].clone();
    let whole = drive::drive(&method, input, &[]);
    assert_eq!(drive::drive(&method, input, sizes), whole);
    assert_eq!(drive::drive(&method, input, &[1]), whole);
});
