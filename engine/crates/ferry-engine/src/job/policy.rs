//! The failures after which a request may be tried again, and the wait before that.

use std::time::Duration;

use http::Method;

use crate::error::{Class, Error};

/// The first wait; it doubles with every attempt.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The most attempts at one transfer, those that made progress included.
pub const MOST_ATTEMPTS: usize = 1000;

#[derive(Debug, Clone, Copy)]
pub struct Retries {
    pub most: u32,
    pub longest_wait: Duration,
    /// Requests that are not idempotent are tried again too (RFC 9110, section 9.2.2).
    pub unsafe_too: bool,
    /// A server that has never answered in this run and does not answer now is tried again too: `--retry` was typed.
    pub unreached_too: bool,
}

impl Retries {
    /// Returns the wait before attempt number `next` (1 is the first retry), or `None` when it must not be made.
    ///
    /// `sent` is true once body bytes of a request have left: no server has seen a POST without them. `jitter` is uniform in
    /// 0..1: half of the wait is fixed, the other half spreads clients that failed together.
    pub fn wait(&self, problem: &Error, method: &Method, sent: bool, next: u32, jitter: f64) -> Option<Duration> {
        if problem.class != Class::Transient || next > self.most {
            return None;
        }
        // A server that had been there before has earned more patience: it may be starting again.
        if problem.unreached && next == 1 && !self.unreached_too {
            return None;
        }
        if sent && !method.is_idempotent() && !self.unsafe_too {
            return None;
        }
        if let Some(wish) = problem.retry_after {
            // A server that wants more than the user's patience gets no further attempt: coming early would be rude and useless.
            return (wish <= self.longest_wait).then_some(wish);
        }
        let doubled = FIRST_WAIT
            .saturating_mul(1 << (next - 1).min(16))
            .min(self.longest_wait);
        Some(doubled.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0)))
    }
}

/// The class of a final status that is not a success; 3xx without a Location included.
pub fn class_of(status: u16) -> Class {
    match status {
        408 | 425 | 429 | 500 | 502 | 503 | 504 | 522 | 524 => Class::Transient,
        _ => Class::Permanent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRIES: Retries = Retries {
        most: 3,
        longest_wait: Duration::from_secs(10),
        unsafe_too: false,
        unreached_too: false,
    };

    fn transient() -> Error {
        Error::transient("lost")
    }

    #[test]
    fn waits_double_up_to_the_cap_and_end() {
        let many = Retries { most: 10, ..RETRIES };
        let waits: Vec<_> = (1..=7)
            .map(|next| many.wait(&transient(), &Method::GET, true, next, 1.0).unwrap())
            .collect();
        assert_eq!(
            waits.iter().map(Duration::as_millis).collect::<Vec<_>>(),
            [500, 1000, 2000, 4000, 8000, 10000, 10000]
        );
        assert_eq!(
            many.wait(&transient(), &Method::GET, true, 2, 0.0),
            Some(Duration::from_millis(500))
        );
        assert_eq!(RETRIES.wait(&transient(), &Method::GET, true, 4, 0.5), None);
    }

    #[test]
    fn only_transient_problems_are_tried_again() {
        for problem in [
            Error::permanent("no"),
            Error::integrity("no"),
            Error::local("no"),
            Error::usage("no"),
        ] {
            assert_eq!(RETRIES.wait(&problem, &Method::GET, false, 1, 0.5), None);
        }
    }

    #[test]
    fn the_servers_wish_is_honoured_within_the_users_patience() {
        let wish = |seconds| Error {
            retry_after: Some(Duration::from_secs(seconds)),
            ..transient()
        };
        assert_eq!(
            RETRIES.wait(&wish(7), &Method::GET, false, 1, 0.5),
            Some(Duration::from_secs(7))
        );
        assert_eq!(RETRIES.wait(&wish(11), &Method::GET, false, 1, 0.5), None);
    }

    #[test]
    fn a_post_is_repeated_only_when_nothing_left_or_the_user_says_so() {
        assert_eq!(RETRIES.wait(&transient(), &Method::POST, true, 1, 0.5), None);
        assert!(RETRIES.wait(&transient(), &Method::POST, false, 1, 0.5).is_some());
        assert!(RETRIES.wait(&transient(), &Method::PUT, true, 1, 0.5).is_some());
        let reckless = Retries {
            unsafe_too: true,
            ..RETRIES
        };
        assert!(reckless.wait(&transient(), &Method::POST, true, 1, 0.5).is_some());
    }

    #[test]
    fn a_first_attempt_that_nobody_answers_is_final_unless_the_user_asked_for_retries() {
        let unreached = Error {
            unreached: true,
            ..transient()
        };
        assert_eq!(RETRIES.wait(&unreached, &Method::GET, false, 1, 0.5), None);
        // The connection was lost before: the server is known to have been there.
        assert!(RETRIES.wait(&unreached, &Method::GET, false, 2, 0.5).is_some());
        let patient = Retries {
            unreached_too: true,
            ..RETRIES
        };
        assert!(patient.wait(&unreached, &Method::GET, false, 1, 0.5).is_some());
    }

    #[test]
    fn statuses_have_classes() {
        assert_eq!(class_of(503), Class::Transient);
        assert_eq!(class_of(429), Class::Transient);
        assert_eq!(class_of(404), Class::Permanent);
        assert_eq!(class_of(301), Class::Permanent);
    }
}
