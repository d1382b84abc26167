//! Linux's figures and settings of TCP connections.
//!
//! `libc::tcp_info` ends with the fields of an old kernel, so the layout is here: offsets of `struct tcp_info` in `linux/tcp.h`. The
//! kernel only ever appends, and returns how many bytes it knows.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use super::PathFigures;
use crate::report::TcpSample;

mod offset {
    /// One byte.
    pub const STATE: usize = 0;
    pub const SND_MSS: usize = 16;
    pub const RCV_MSS: usize = 20;
    pub const UNACKED: usize = 24;
    pub const SACKED: usize = 28;
    pub const LOST: usize = 32;
    pub const RETRANS: usize = 36;
    pub const RTT: usize = 68;
    pub const SND_CWND: usize = 80;
    pub const RCV_RTT: usize = 92;
    /// Linux 4.1.
    pub const BYTES_ACKED: usize = 120;
    /// Linux 4.1.
    pub const BYTES_RECEIVED: usize = 128;
    /// Linux 4.6.
    pub const NOTSENT_BYTES: usize = 144;
    /// Linux 4.6.
    pub const MIN_RTT: usize = 148;
    /// Linux 4.6.
    pub const DATA_SEGS_IN: usize = 152;
    /// Linux 4.10.
    pub const SNDBUF_LIMITED: usize = 184;
    /// Linux 4.19.
    pub const BYTES_RETRANS: usize = 208;
    /// Linux 5.4.
    pub const SND_WND: usize = 228;
    /// Linux 6.2.
    pub const RCV_WND: usize = 232;
}

/// `TCP_CLOSE_WAIT` of `net/tcp_states.h`.
const CLOSE_WAIT: u8 = 8;

/// Room for what later kernels append too; they cut it to this.
const INFO_BYTES: usize = 256;

/// `SIOCOUTQNSD` of `linux/sockios.h`: bytes written and not sent yet. The libc crate does not have it for every target.
const SIOCOUTQNSD: libc::Ioctl = 0x894B;

struct TcpInfo {
    bytes: [u8; INFO_BYTES],
    length: usize,
}

impl TcpInfo {
    fn of(socket: &SockRef<'_>) -> Option<Self> {
        let mut bytes = [0_u8; INFO_BYTES];
        let mut length = libc::socklen_t::try_from(INFO_BYTES).ok()?;
        // SAFETY: the descriptor is open as long as the SockRef is borrowed; the kernel writes at most `length` bytes to `bytes`.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let length = usize::try_from(length).ok()?;
        (result == 0).then_some(Self {
            bytes,
            length: length.min(INFO_BYTES),
        })
    }

    /// None when this kernel does not have the field.
    fn u32(&self, offset: usize) -> Option<u32> {
        self.bytes[..self.length]
            .get(offset..offset + 4)?
            .try_into()
            .ok()
            .map(u32::from_ne_bytes)
    }

    fn u64(&self, offset: usize) -> Option<u64> {
        self.bytes[..self.length]
            .get(offset..offset + 8)?
            .try_into()
            .ok()
            .map(u64::from_ne_bytes)
    }

    /// Zero before the first measurement.
    fn rtt_us(&self) -> Option<u32> {
        self.u32(offset::RTT).filter(|&us| us > 0)
    }

    /// A count of segments in bytes.
    fn segments(&self, count: u32) -> Option<u64> {
        Some(u64::from(count) * u64::from(self.u32(offset::SND_MSS)?))
    }

    /// Bytes in flight, counted as in the kernel's `tcp_packets_in_flight`: segments sent and neither acknowledged nor lost, and
    /// those sent once more.
    fn in_flight(&self) -> Option<u64> {
        let left = self.u32(offset::SACKED)?.saturating_add(self.u32(offset::LOST)?);
        self.segments(
            self.u32(offset::UNACKED)?
                .saturating_sub(left)
                .saturating_add(self.u32(offset::RETRANS)?),
        )
    }
}

#[must_use]
pub fn tcp_sample(socket: &SockRef<'_>, t_s: f64) -> Option<TcpSample> {
    let info = TcpInfo::of(socket)?;
    Some(TcpSample {
        t_s,
        rtt_us: info.rtt_us(),
        // All ones until there is one.
        min_rtt_us: info.u32(offset::MIN_RTT).filter(|&us| us != u32::MAX),
        cwnd_bytes: info.u32(offset::SND_CWND).and_then(|count| info.segments(count)),
        bytes_in_flight: info.in_flight(),
        bytes_retransmitted: info.u64(offset::BYTES_RETRANS),
        unsent_bytes: info.u32(offset::NOTSENT_BYTES).map(u64::from),
        bytes_acked: info.u64(offset::BYTES_ACKED),
        bytes_received: info.u64(offset::BYTES_RECEIVED),
        receive_window_bytes: info.u32(offset::RCV_WND).map(u64::from),
        send_window_bytes: info.u32(offset::SND_WND).map(u64::from),
    })
}

/// The total time in which there was more to send than the send buffer could hold (`tcpi_sndbuf_limited`, microseconds).
#[must_use]
pub fn held_by_send_buffer(socket: &SockRef<'_>) -> Option<Duration> {
    TcpInfo::of(socket)?
        .u64(offset::SNDBUF_LIMITED)
        .map(Duration::from_micros)
}

/// True once the peer has ended its side of the connection. This is known without reading, so also while earlier data is unread.
#[must_use]
pub fn peer_has_ended(socket: &SockRef<'_>) -> Option<bool> {
    TcpInfo::of(socket).map(|info| info.bytes[offset::STATE] == CLOSE_WAIT)
}

/// Smoothed, as the kernel's retransmission timer uses it.
#[must_use]
pub fn rtt(socket: &SockRef<'_>) -> Option<Duration> {
    TcpInfo::of(socket)?.rtt_us().map(|us| Duration::from_micros(us.into()))
}

/// Starts to write the file's data to the disk, without waiting. This is a hint: on a file system that does not know it, fsync
/// does all of the work.
pub fn start_writing(file: &std::fs::File) {
    // SAFETY: the descriptor is the file's own; a length of 0 is the file's end.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

fn queue(socket: &SockRef<'_>, request: libc::Ioctl) -> Option<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests store one int at the address given; the descriptor is open as long as the SockRef is borrowed.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut bytes) };
    if result == 0 { u64::try_from(bytes).ok() } else { None }
}

/// Written by us and not yet handed to the network.
#[must_use]
pub fn unsent_bytes(socket: &SockRef<'_>) -> Option<u64> {
    queue(socket, SIOCOUTQNSD)
}

/// Written by us and not yet acknowledged by the peer. A segment's acknowledgement counts before its data can be read: the kernel handles both
/// under the socket's lock. `SIOCOUTQ` has the number of `TIOCOUTQ` on every architecture (linux/sockios.h).
#[must_use]
pub fn unacknowledged_bytes(socket: &SockRef<'_>) -> Option<u64> {
    queue(socket, libc::TIOCOUTQ)
}

/// Bytes that the peer has acknowledged since the connection began.
#[must_use]
pub fn acknowledged_bytes(socket: &SockRef<'_>) -> Option<u64> {
    TcpInfo::of(socket)?.u64(offset::BYTES_ACKED)
}

/// `TCP_CONGESTION`. A module that is not loaded yet needs root, and a route may forbid it (`ip route ... congctl lock`).
pub fn set_congestion(socket: &SockRef<'_>, name: &str) -> io::Result<()> {
    socket.set_tcp_congestion(name.as_bytes())
}

/// Checks that this system has a congestion control of that name for this user.
///
/// # Errors
/// The system's refusal, and the congestion controls that it has.
pub fn check_congestion(name: &str) -> Result<(), String> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).map_err(|error| error.to_string())?;
    set_congestion(&SockRef::from(&socket), name).map_err(|error| {
        let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        let known: Vec<_> = known.split_whitespace().collect();
        format!("{error}; this system has {}", known.join(", "))
    })
}

/// Lets the peer have at most `bytes` on its way. `TCP_WINDOW_CLAMP`, not a small `SO_RCVBUF`: packets cost up to 3.5 times their payload in
/// memory, and a buffer too small for a window that was offered already drops them, which costs the sender 200 ms. The buffer is fixed as well,
/// where an ordinary user may have one large enough, because the kernel's tuning would lift the clamp (`tcp_rcv_space_adjust`).
pub fn hold_window(socket: &SockRef<'_>, bytes: usize) {
    let buffer = bytes.saturating_mul(2).max(128 * 1024);
    // Debian's net.core.rmem_max is 208 KiB.
    if buffer <= 200 * 1024 {
        let _ = socket.set_recv_buffer_size(buffer);
    }
    clamp_window(socket, bytes);
}

/// Lets the peer have at most `bytes` on its way until the kernel's tuning lifts that. What was offered before stays.
pub fn clamp_window(socket: &SockRef<'_>, bytes: usize) {
    let clamp = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open as long as the reference lives, and the value is an int that outlives the call. What fails is only a tuning.
    let _ = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_WINDOW_CLAMP,
            std::ptr::from_ref(&clamp).cast(),
            libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4),
        )
    };
}

/// The smoothed round trip of what is sent, or of what is received, and what has arrived at the other end, or here. A receiver's round trip is
/// that of TCP's time stamps, whole milliseconds, averaged by the kernel; without them it is a guess.
#[must_use]
pub fn path_figures(socket: &SockRef<'_>, sends: bool) -> Option<PathFigures> {
    let info = TcpInfo::of(socket)?;
    let (rtt_us, in_order, segments) = if sends {
        let ahead = info.segments(info.u32(offset::SACKED)?)?;
        (info.rtt_us(), info.u64(offset::BYTES_ACKED)? + ahead, None)
    } else {
        let rtt_us = info.u32(offset::RCV_RTT).filter(|&us| us > 0);
        (
            rtt_us,
            info.u64(offset::BYTES_RECEIVED)?,
            info.u32(offset::DATA_SEGS_IN),
        )
    };
    Some(PathFigures {
        round_trip: Duration::from_micros(rtt_us?.into()),
        in_order,
        segments,
        segment_bytes: info.u32(offset::RCV_MSS)?,
    })
}

/// Checks that this system reports the figures that `--background` needs.
///
/// # Errors
/// Names the missing requirement.
pub fn check_background() -> Result<(), String> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).map_err(|error| error.to_string())?;
    let told = TcpInfo::of(&SockRef::from(&socket)).and_then(|info| info.u64(offset::BYTES_RECEIVED));
    told.map(|_| ())
        .ok_or_else(|| "it needs Linux 4.1 or later, which counts the bytes of a connection".to_owned())
}

/// Acknowledges received data at once, instead of with the next packet that goes out or after 40 ms (tcp(7), `TCP_QUICKACK`: for
/// now, not for ever).
pub fn acknowledge(socket: &SockRef<'_>) {
    let _ = socket.set_tcp_quickack(true);
}

/// Lets sleeps and polls of this thread end within a microsecond of their time instead of within 50: the kernel bundles timers otherwise.
pub fn precise_timers() {
    // SAFETY: takes a number, touches no memory of ours. Failure leaves the default.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// The received, acknowledged and unsent bytes agree with the test's own transfer, so the offsets are right.
    #[test]
    fn figures_are_those_of_the_connection() {
        let (mut near, mut far) = pair();
        near.write_all(&vec![1; 100_000]).unwrap();
        far.read_exact(&mut vec![0; 100_000]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while unacknowledged_bytes(&SockRef::from(&near)) != Some(0) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let sample = tcp_sample(&SockRef::from(&near), 1.5).unwrap();
        assert!((sample.t_s - 1.5).abs() < f64::EPSILON);
        // The SYN is counted too by some kernels.
        assert!((100_000..=100_001).contains(&sample.bytes_acked.unwrap()), "{sample:?}");
        assert_eq!(sample.bytes_in_flight, Some(0));
        assert_eq!(sample.unsent_bytes, Some(0));
        assert_eq!(sample.bytes_retransmitted, Some(0));
        assert!(sample.rtt_us.is_some_and(|us| us < 1_000_000), "{sample:?}");
        assert!(sample.min_rtt_us.unwrap() <= sample.rtt_us.unwrap() * 4, "{sample:?}");
        assert!(
            sample
                .cwnd_bytes
                .is_some_and(|bytes| (10_000..1 << 30).contains(&bytes)),
            "{sample:?}"
        );
        assert!(
            sample
                .send_window_bytes
                .is_none_or(|bytes| (1000..1 << 30).contains(&bytes)),
            "{sample:?}"
        );
        let other = tcp_sample(&SockRef::from(&far), 0.0).unwrap();
        assert_eq!(other.bytes_received, Some(100_000));
        assert!(
            other
                .receive_window_bytes
                .is_none_or(|bytes| (1000..1 << 30).contains(&bytes)),
            "{other:?}"
        );
        assert!(rtt(&SockRef::from(&near)).is_some());
    }

    #[test]
    fn only_a_tcp_connection_can_be_held_by_its_send_buffer() {
        let (near, _far) = pair();
        assert_eq!(held_by_send_buffer(&SockRef::from(&near)), Some(Duration::ZERO));
        let (other, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(held_by_send_buffer(&SockRef::from(&other)), None);
    }

    #[test]
    fn what_the_peer_does_not_take_is_unsent() {
        let (mut near, far) = pair();
        near.set_nonblocking(true).unwrap();
        SockRef::from(&near).set_tcp_notsent_lowat(1 << 20).unwrap();
        let piece = vec![0; 65_536];
        let mut written = 0_u64;
        while let Ok(count) = near.write(&piece) {
            written += count as u64;
        }
        let socket = SockRef::from(&near);
        let look = || (unsent_bytes(&socket).unwrap(), unacknowledged_bytes(&socket).unwrap());
        let deadline = Instant::now() + Duration::from_secs(5);
        // The peer's kernel takes what fits into its window, and says so.
        while look().1 >= written && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (unsent, unacked) = look();
        assert!(
            0 < unsent && unsent <= unacked && unacked < written,
            "{unsent} {unacked} {written}"
        );
        assert_eq!(tcp_sample(&socket, 0.0).unwrap().unsent_bytes, Some(unsent));
        drop(far);
    }

    #[test]
    fn a_short_answer_has_no_late_fields() {
        let mut info = TcpInfo {
            bytes: [7; INFO_BYTES],
            length: 104,
        };
        assert_eq!(info.u64(offset::BYTES_ACKED), None);
        assert_eq!(info.u32(offset::RTT), Some(0x0707_0707));
        info.length = 131;
        assert_eq!(info.u64(offset::BYTES_RECEIVED), None);
        assert_eq!(info.u64(offset::BYTES_ACKED), Some(0x0707_0707_0707_0707));
    }

    #[test]
    fn what_is_no_tcp_socket_has_no_figures() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(tcp_sample(&SockRef::from(&socket), 0.0), None);
    }

    #[test]
    fn precise_timers_are_those_of_this_thread() {
        precise_timers();
        // SAFETY: returns a number, touches no memory.
        let slack_ns = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
        assert_eq!(slack_ns, 1);
    }
}
