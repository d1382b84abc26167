//! Connections: names to addresses, TCP, TLS, QUIC, and a pipe of bytes whose waits are those of `platform`.

pub mod congestion;
pub mod dial;
pub mod pipe;
pub mod proxy;
pub mod quic;
pub mod round_trip;
mod slow_start;
pub mod sndbuf;
pub mod tls;
mod tls_words;
mod tunnel;
pub mod verify;
pub mod wait;
mod x509;
