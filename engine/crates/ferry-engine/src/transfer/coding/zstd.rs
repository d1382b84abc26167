//! Zstandard (RFC 8878) as a content coding (RFC 9659): any number of frames, skippable ones included.

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

use super::{Fault, PIECE};
use crate::error::Error;

/// Encoders must not use a larger window in HTTP (RFC 9659, section 3): 8 MiB, the most that a decoder must find memory for.
const WINDOW_LOG: u32 = 23;

pub(super) struct Zstd {
    context: DCtx<'static>,
    output: Box<[u8]>,
    /// No byte of the next frame has come, and all of the last one was handed on.
    between: bool,
    /// The number of complete frames, skippable ones included.
    frames: u64,
}

impl Zstd {
    pub(super) fn new() -> Result<Self, Error> {
        let mut context = DCtx::try_create().ok_or_else(|| Error::local("no memory to decode zstd"))?;
        context
            .set_parameter(DParameter::WindowLogMax(WINDOW_LOG))
            .map_err(|code| Error::local(format!("cannot decode zstd: {}", get_error_name(code))))?;
        Ok(Self {
            context,
            output: vec![0; PIECE].into_boxed_slice(),
            between: true,
            frames: 0,
        })
    }

    pub(super) fn is_complete(&self) -> bool {
        self.between && self.frames > 0
    }

    pub(super) fn decode(
        &mut self,
        input: &[u8],
        put: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut left = input;
        loop {
            // A frame that libzstd sees entire it decodes in another way, which does not look at the size of the window and finds other faults: what
            // a body means would depend on how the network cut it. Without its first byte no frame is entire.
            let shown = if self.between { left.get(..1) } else { None }.unwrap_or(left);
            let mut source = InBuffer::around(shown);
            let mut target = OutBuffer::around(&mut self.output[..]);
            let missing = self
                .context
                .decompress_stream(&mut target, &mut source)
                .map_err(|code| fault(code, self.frames > 0).into_error())?;
            left = left.get(source.pos..).unwrap_or_default();
            self.between = missing == 0;
            self.frames += u64::from(self.between);
            let full = target.pos() == target.capacity();
            if target.pos() > 0 {
                put(target.as_slice())?;
            }
            // A full buffer may leave more behind it; without anything to do, a call would begin another frame.
            if left.is_empty() && (self.between || !full) {
                return Ok(());
            }
        }
    }
}

/// `behind`: there was a frame before.
fn fault(code: usize, behind: bool) -> Fault {
    match get_error_name(code) {
        "Unknown frame descriptor" if behind => Fault::Behind,
        "Restored data doesn't match checksum" => Fault::Checksum,
        name => Fault::Malformed(name),
    }
}
