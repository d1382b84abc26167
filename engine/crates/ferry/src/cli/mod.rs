//! The command line: one definition per flag, and what it means as plain values.

mod options;

pub use options::{
    Algorithm, BenchOptions, Checksum, Common, GetOptions, PutOptions, RangeArg, Remote, Resolve, Source, Target,
    Timeouts, TransferOptions, Version,
};
