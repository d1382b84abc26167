//! Any bytes as header blocks of one connection: no panic; with only the first field wanted, nothing else changes.
#![no_main]

use ferry_h2::hpack::Decoder;
use libfuzzer_sys::fuzz_target;

// The first byte of a block says how long it is.
fuzz_target!(|data: &[u8]| {
    const LIMIT: usize = 2000;
    let (mut all, mut first) = (Decoder::new(LIMIT), Decoder::new(LIMIT));
    let mut rest = data;
    while let Some((&length, behind)) = rest.split_first() {
        let (block, behind) = behind.split_at(behind.len().min(usize::from(length)));
        rest = behind;
        let (mut fields, mut firsts) = (Vec::new(), Vec::new());
        let result = all.decode(block, false, |field| {
            assert!(!field.valid || !field.value.contains(&b'\n'));
            fields.push((field.name.to_vec(), field.value.to_vec()));
        });
        let size: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        assert!(size <= LIMIT);
        let brief = first.decode(block, true, |field| {
            firsts.push((field.name.to_vec(), field.value.to_vec()))
        });
        assert!(firsts.len() <= 1);
        assert_eq!(firsts.first(), fields.first());
        // What is skipped may hide a malformed Huffman string, and counts as it lies there; nothing else differs.
        match (result, brief) {
            (Ok(_), Ok(_)) => {}
            (Err(_), Ok(_)) => return,
            (Err(a), Err(b)) => {
                let _ = (a, b);
                return;
            }
            (Ok(_), Err(error)) => panic!("only the brief decoder failed: {error}"),
        }
    }
});
