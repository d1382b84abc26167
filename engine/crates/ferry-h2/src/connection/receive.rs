//! What comes from the peer.

use super::Connection;
use crate::error::ConnectionError;
use crate::handler::Handler;

impl Connection {
    /// Takes bytes from the peer, all of them, and calls the handler for what is in them.
    ///
    /// # Errors
    /// When the peer broke the rules (RFC 9113, 5.4.1): a GOAWAY is queued and the connection is over.
    pub fn receive(&mut self, input: &[u8], handler: &mut impl Handler) -> Result<(), ConnectionError> {
        let _ = (input, handler);
        Ok(())
    }
}
