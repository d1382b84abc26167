//! An HTTP/2 server that is never the limit of a client's requests per second: whatever is asked, it answers 200 and the same 10,000 bytes,
//! whose frames were made beforehand. nginx and h2o serve one connection with one thread, at 60 to 120 thousand requests a second: as much as
//! the clients, so that they measure the server. Loopback only; for `make bench-requests`.
//!
//! Usage: quick-server ADDRESS:PORT CERTIFICATE.pem KEY.pem

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

const BODY: usize = 10_000;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Frame types and flags of RFC 9113, section 6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, address, certificate, key] = args.as_slice() else { return Err("usage: quick-server ADDRESS:PORT CERT KEY".into()) };
    let address: SocketAddr = address.parse()?;
    if !address.ip().is_loopback() {
        return Err("loopback addresses only".into());
    }
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    let config = Arc::new(config);
    for socket in TcpListener::bind(address)?.incoming() {
        let (socket, config) = (socket?, Arc::clone(&config));
        // A connection that ends badly is its client's affair.
        std::thread::spawn(move || serve(socket, config));
    }
    Ok(())
}

fn serve(mut socket: TcpStream, config: Arc<ServerConfig>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    socket.set_nodelay(true)?;
    let mut tls = ServerConnection::new(config)?;
    tls.set_buffer_limit(None);
    let mut machine = Machine::new();
    let mut plain = vec![0; 256 * 1024];
    let mut filled = 0;
    loop {
        while tls.wants_write() {
            tls.write_tls(&mut socket)?;
        }
        if tls.read_tls(&mut socket)? == 0 {
            return Ok(());
        }
        tls.process_new_packets()?;
        loop {
            match tls.reader().read(&mut plain[filled..]) {
                Ok(0) => return Ok(()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
            let used = machine.receive(&plain[..filled]);
            plain.copy_within(used..filled, 0);
            filled -= used;
        }
        machine.answer();
        tls.writer().write_all(&machine.out)?;
        machine.out.clear();
    }
}

struct Machine {
    greeted: bool,
    /// What the client's connection window allows; its stream windows are larger than a body.
    window: i64,
    waiting: VecDeque<u32>,
    response: Vec<u8>,
    out: Vec<u8>,
}

impl Machine {
    fn new() -> Self {
        // `:status: 200`, index 8 of the static table, and content-length (28, RFC 7541, appendix A) as a literal without indexing.
        let mut block = vec![0x88, 0x0f, 28 - 15, 5];
        block.extend_from_slice(BODY.to_string().as_bytes());
        let mut response = Vec::new();
        frame(&mut response, HEADERS, END_HEADERS, 0, &block);
        frame(&mut response, DATA, END_STREAM, 0, &vec![b'x'; BODY]);
        let mut out = Vec::new();
        // MAX_CONCURRENT_STREAMS (3) 1000; connection window as it is, because requests have no bodies.
        frame(&mut out, SETTINGS, 0, 0, &[0, 3, 0, 0, 3, 232]);
        Self { greeted: false, window: 65_535, waiting: VecDeque::new(), response, out }
    }

    /// Takes whole frames; returns how many bytes they were.
    fn receive(&mut self, input: &[u8]) -> usize {
        let mut at = 0;
        if !self.greeted {
            if input.len() < PREFACE.len() {
                return 0;
            }
            self.greeted = true;
            at = PREFACE.len();
        }
        while let Some(head) = input.get(at..at + 9) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
            let Some(payload) = input.get(at + 9..at + 9 + length) else { break };
            match (head[3], head[4] & ACK) {
                (HEADERS, _) => self.waiting.push_back(stream),
                (SETTINGS, 0) => frame(&mut self.out, SETTINGS, ACK, 0, &[]),
                (PING, 0) => frame(&mut self.out, PING, ACK, 0, payload),
                (WINDOW_UPDATE, _) if stream == 0 && length == 4 => {
                    self.window += i64::from(u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]));
                }
                _ => {}
            }
            at += 9 + length;
        }
        at
    }

    fn answer(&mut self) {
        while self.window >= BODY as i64
            && let Some(stream) = self.waiting.pop_front()
        {
            let begin = self.out.len();
            self.out.extend_from_slice(&self.response);
            let data = begin + self.response.len() - BODY - 4;
            for at in [begin + 5, data] {
                self.out[at..at + 4].copy_from_slice(&stream.to_be_bytes());
            }
            self.window -= BODY as i64;
        }
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&u32::try_from(payload.len()).expect("a frame's length").to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}
