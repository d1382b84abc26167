//! Bytes over time: the goodput series, the worst 100 ms and the longest silence, counted as bytes move.

use schemars::JsonSchema;
use serde::Serialize;

/// Bytes per slot since the body's begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Series {
    pub slot_ms: u32,
    pub bytes: Vec<u64>,
}

/// Being written: `add(t_ns, bytes)` as they move.
#[derive(Debug, Default)]
pub struct SeriesBuilder {}
