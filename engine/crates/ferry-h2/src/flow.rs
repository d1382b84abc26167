//! Flow control windows (RFC 9113, 5.2 and 6.9).

/// The largest window (RFC 9113, 6.9.1).
pub const MAX_WINDOW: u32 = (1 << 31) - 1;
/// The window of a connection, and of a stream without SETTINGS (RFC 9113, 6.9.2).
pub const DEFAULT_WINDOW: u32 = 65_535;

/// The number of bytes that the peer may still send.
#[derive(Copy, Clone, Debug)]
pub struct ReceiveWindow {
    left: u32,
}

impl ReceiveWindow {
    /// The window of a slot that holds no stream: the peer may send nothing.
    pub const EMPTY: Self = Self { left: 0 };

    pub fn new(initial: u32) -> Self {
        Self { left: initial }
    }

    pub fn left(self) -> u32 {
        self.left
    }

    /// Subtracts a frame's length; false when the peer sent more than it was granted.
    pub fn charge(&mut self, length: u32) -> bool {
        match self.left.checked_sub(length) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Grants up to `bytes`; returns the increment to announce, 0 when the window is full.
    pub fn grant(&mut self, bytes: u32) -> u32 {
        let increment = bytes.min(MAX_WINDOW - self.left);
        self.left += increment;
        increment
    }

    /// Refills to `target` once half of it is used, so that updates come in batches; returns the increment or 0.
    pub fn top_up(&mut self, target: u32) -> u32 {
        if self.left > target / 2 || self.left == target {
            return 0;
        }
        self.grant(target - self.left)
    }
}

/// The number of bytes that this side may still send. It may be negative after the peer lowered
/// `SETTINGS_INITIAL_WINDOW_SIZE` (RFC 9113, 6.9.2).
#[derive(Copy, Clone, Debug)]
pub struct SendWindow {
    left: i64,
}

impl SendWindow {
    /// The window of a place without a stream.
    pub const EMPTY: Self = Self { left: 0 };

    pub fn new(initial: u32) -> Self {
        Self {
            left: i64::from(initial),
        }
    }

    /// Bytes that may be sent now.
    pub fn available(self) -> usize {
        usize::try_from(self.left).unwrap_or(0)
    }

    /// Subtracts the length of data sent; the caller has checked [`Self::available`].
    pub fn charge(&mut self, length: usize) {
        self.left -= i64::try_from(length).unwrap_or(i64::MAX);
    }

    /// Applies a `WINDOW_UPDATE` or a change of the initial window; false when it would exceed 2^31-1.
    pub fn adjust(&mut self, by: i64) -> bool {
        self.left += by;
        self.left <= i64::from(MAX_WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receive_window_is_refilled_at_half_and_never_overflows() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.charge(49));
        assert_eq!(window.top_up(100), 0);
        assert!(window.charge(1));
        assert_eq!(window.top_up(100), 50);
        assert!(!window.charge(101));
        assert_eq!(window.grant(u32::MAX), MAX_WINDOW - 100);
        assert_eq!(window.grant(1), 0);
        assert_eq!(ReceiveWindow::new(0).top_up(0), 0);
        let mut tiny = ReceiveWindow::new(1);
        assert!(tiny.charge(1));
        assert_eq!(tiny.top_up(1), 1);
    }

    #[test]
    fn a_send_window_may_go_negative() {
        let mut window = SendWindow::new(10);
        window.charge(10);
        assert!(window.adjust(-5));
        assert_eq!(window.available(), 0);
        assert!(window.adjust(6));
        assert_eq!(window.available(), 1);
        assert!(!window.adjust(i64::from(MAX_WINDOW)));
    }
}
