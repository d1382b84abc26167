//! Header blocks through one decoder.

use ferry_h2::hpack::Decoder;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{bytes, text};

/// One block, and the table size that the decoder has announced and the encoder has acknowledged before it.
#[derive(Deserialize)]
pub struct Block {
    wire: String,
    header_table_size: Option<usize>,
}

/// The fields of each block in order, or the error of decoding it; the first block with an error is the last.
pub fn decode(blocks: &[Block]) -> Result<Value, String> {
    let mut decoder = Decoder::new(1 << 20);
    let mut answers = Vec::new();
    for block in blocks {
        if let Some(size) = block.header_table_size {
            decoder.set_limit(size);
        }
        let mut fields = Vec::new();
        let wire = bytes(&block.wire)?;
        let result = decoder.decode(&wire, false, |field| {
            fields.push(json!([text(field.name), text(field.value)]));
        });
        match result {
            Ok(_) => answers.push(json!({ "fields": fields })),
            Err(error) => {
                answers.push(json!({ "error": error.to_string() }));
                break;
            }
        }
    }
    Ok(json!({ "blocks": answers }))
}
