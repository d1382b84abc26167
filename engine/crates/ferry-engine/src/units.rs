//! Sizes, rates and durations: parsed once at the edge, so that no string for a quantity goes further than the command line.
//! Every `Display` here parses back to the same value.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

const SIZES: &str = "a number with B, K, M, G, T (times 1024, as curl and wget have it), KiB, MiB, GiB, TiB or kB, MB, GB, TB (times 1000)";
const RATES: &str = "a size per second such as 500K, 2MB/s, 1.5 MiB/s or 2000000, or bits as in 8 Mbit/s";
const DURATIONS: &str = "a number with ms, s, m or h, such as 250ms, 5s or 1.5 s, at most 8760h";

/// More is a typing error, and would overflow clocks.
const MAX_DURATION_NS: u128 = 8760 * 3600 * 1_000_000_000;

const BINARY: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
const DECIMAL: [(&str, u64); 4] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
];
const TIMES: [(&str, u64); 4] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
];

/// The text is not a quantity; the message is one line and says what is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitError(String);

impl UnitError {
    fn expected(what: &str) -> Self {
        Self(format!("expected {what}"))
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnitError {}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// The size in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = Number::split(text).ok_or_else(|| UnitError::expected(SIZES))?;
        let multiplier = bytes_in(unit).ok_or_else(|| UnitError::expected(SIZES))?;
        number
            .times(multiplier, 1)
            .map(Self)
            .ok_or_else(|| UnitError("more bytes than fit in 64 bits".into()))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(f, self.0, "")
    }
}

/// Bytes per second, more than none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRate(NonZeroU64);

impl ByteRate {
    /// `None` for 0.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Option<Self> {
        NonZeroU64::new(bytes_per_second).map(Self)
    }

    /// The rate in bytes per second.
    #[must_use]
    pub fn bytes_per_second(self) -> u64 {
        self.0.get()
    }
}

impl FromStr for ByteRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::expected(RATES);
        let (number, unit) = Number::split(text).ok_or_else(wrong)?;
        let (multiplier, divisor) = match unit.strip_suffix("bit/s") {
            Some(prefix) => (decimal_prefix(prefix).ok_or_else(wrong)?, 8),
            // "/s" alone is not a unit: 5/s of what?
            None if unit == "/s" => return Err(wrong()),
            None => (bytes_in(unit.strip_suffix("/s").unwrap_or(unit)).ok_or_else(wrong)?, 1),
        };
        let rate = number
            .times(multiplier, divisor)
            .ok_or_else(|| UnitError("more than fits in 64 bits".into()))?;
        Self::new(rate).ok_or_else(|| UnitError("a rate must be at least 1 byte per second".into()))
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_exact(f, self.0.get(), "/s")
    }
}

/// `250ms`, `5s`, `2m`, `1.5 s`; a bare number is seconds, as curl and wget have it.
///
/// # Errors
/// Says what is accepted.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let wrong = || UnitError::expected(DURATIONS);
    let (number, unit) = Number::split(text).ok_or_else(wrong)?;
    let unit = if unit.is_empty() { "s" } else { unit };
    let (_, nanos) = TIMES.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let nanos = number
        .times(*nanos, 1)
        .filter(|n| u128::from(*n) <= MAX_DURATION_NS)
        .ok_or_else(wrong)?;
    Ok(Duration::from_nanos(nanos))
}

/// A [`parse_duration`] that is not zero: for limits of time, where zero could only fail.
///
/// # Errors
/// Says what is accepted.
pub fn parse_time_limit(text: &str) -> Result<Duration, UnitError> {
    let duration = parse_duration(text)?;
    if duration.is_zero() {
        Err(UnitError("must be more than 0".into()))
    } else {
        Ok(duration)
    }
}

/// The duration as text that [`parse_duration`] reads back to the same value, to the nanosecond.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (name, unit) = TIMES
        .iter()
        .map(|(name, unit)| (*name, u128::from(*unit)))
        .find(|(_, unit)| nanos >= *unit && nanos.is_multiple_of(*unit))
        .unwrap_or(("ms", 1_000_000));
    format!("{}{name}", decimal(nanos, unit, 6))
}

/// The number with a unit, for people: four significant figures are enough for them, so it does not parse back exactly.
#[must_use]
pub fn human_bytes(bytes: f64) -> String {
    let (name, unit) = DECIMAL
        .iter()
        .find(|(_, unit)| bytes >= *unit as f64)
        .copied()
        .unwrap_or(("B", 1));
    let value = bytes / unit as f64;
    let digits = if unit == 1 && value.fract() == 0.0 { 0 } else { 3 };
    format!("{value:.digits$} {name}")
}

/// A decimal number without an exponent, exact: `digits / 10^scale`.
struct Number {
    digits: u128,
    scale: u128,
}

impl Number {
    /// The number and the unit after it, with or without a blank between them.
    fn split(text: &str) -> Option<(Self, &str)> {
        let text = text.trim();
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        // 20 digits hold every u64, and nine more decimals are a nanosecond's; the product below then fits 128 bits with any unit.
        if whole.is_empty() || fraction.is_empty() || whole.len() > 20 || fraction.len() > 9 {
            return None;
        }
        let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
        let digits = whole
            .parse::<u128>()
            .ok()?
            .checked_mul(scale)?
            .checked_add(fraction.parse().ok()?)?;
        Some((Self { digits, scale }, unit.trim_start()))
    }

    /// To the nearest whole number; `None` when that is more than 64 bits.
    fn times(&self, multiplier: u64, divisor: u128) -> Option<u64> {
        let below = self.scale * divisor;
        let product = self
            .digits
            .checked_mul(u128::from(multiplier))?
            .checked_add(below / 2)?;
        u64::try_from(product / below).ok()
    }
}

/// The highest multiple of a limit that any 100 ms may reach while lost time is made up: `1.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peak {
    percent_above: u32,
}

impl Peak {
    /// Two steps of a limit, which may always go at once, and a little to catch up with; 8 ms are a step on Windows.
    const LEAST: u32 = if cfg!(windows) { 30 } else { 15 };
    const MOST: u32 = 900;

    /// The excess over the limit, in percent of the limit.
    #[must_use]
    pub fn percent_above(self) -> u32 {
        self.percent_above
    }
}

impl Default for Peak {
    fn default() -> Self {
        Self { percent_above: 50 }
    }
}

impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal(u128::from(self.percent_above) + 100, 100, 2))
    }
}

impl FromStr for Peak {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let percent = format!("{whole}{fraction:0<2}");
        percent
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| percent.parse::<u32>().ok()?.checked_sub(100))
            .flatten()
            .filter(|above| fraction.len() <= 2 && (Self::LEAST..=Self::MOST).contains(above))
            .map(|percent_above| Self { percent_above })
            .ok_or_else(|| {
                let [least, most] = [Self::LEAST, Self::MOST].map(|percent_above| Self { percent_above });
                format!("expected {least} to {most}, with two decimals at most")
            })
    }
}

/// Bytes in a unit. `kb` and `mb` are refused: some mean bits.
fn bytes_in(unit: &str) -> Option<u64> {
    match unit {
        "" | "B" => Some(1),
        "KB" => Some(1000),
        "k" | "K" => Some(1 << 10),
        "m" | "M" => Some(1 << 20),
        "g" | "G" => Some(1 << 30),
        "t" | "T" => Some(1 << 40),
        _ => BINARY
            .iter()
            .chain(&DECIMAL)
            .find(|(name, _)| *name == unit)
            .map(|(_, bytes)| *bytes),
    }
}

fn decimal_prefix(prefix: &str) -> Option<u64> {
    match prefix {
        "" => Some(1),
        "k" | "K" => Some(1000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        "T" => Some(1_000_000_000_000),
        _ => None,
    }
}

/// In the largest unit in which three decimals are exact.
fn write_exact(f: &mut fmt::Formatter<'_>, bytes: u64, per: &str) -> fmt::Result {
    let mut units: Vec<_> = BINARY
        .iter()
        .chain(&DECIMAL)
        .filter(|(_, unit)| bytes >= *unit)
        .collect();
    units.sort_by_key(|(_, unit)| std::cmp::Reverse(*unit));
    match units
        .into_iter()
        .find(|(_, unit)| u128::from(bytes) * 1000 % u128::from(*unit) == 0)
    {
        Some((name, unit)) => write!(f, "{} {name}{per}", decimal(u128::from(bytes), u128::from(*unit), 3)),
        None => write!(f, "{bytes} B{per}"),
    }
}

/// `value / unit` with as many of `places` decimals as it needs.
fn decimal(value: u128, unit: u128, places: u32) -> String {
    let width = places as usize;
    let fraction = value % unit * 10_u128.pow(places) / unit;
    let text = format!("{}.{fraction:0width$}", value / unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
