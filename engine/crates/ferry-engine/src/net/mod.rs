//! Connections: names to addresses, TCP, TLS, QUIC, and a pipe of bytes whose waits are those of `platform`.

pub mod congestion;
pub mod dial;
mod key_usage;
pub mod pipe;
pub mod proxy;
pub mod quic;
pub mod round_trip;
mod slow_start;
pub mod sndbuf;
pub mod tls;
mod tunnel;
pub mod wait;
