//! Connections: names to addresses, TCP, TLS, and a pipe of bytes whose waits are those of `platform`.

pub mod dial;
pub mod pipe;
pub mod sndbuf;
pub mod tls;
pub mod wait;
