//! TCP's own view of a connection while a transfer lasts.

use crate::report::TcpSample;

/// Above this number every second sample is dropped: the same period at half the density.
const MOST: usize = 4096;

/// Samples taken at regular times, thinned out so that a transfer of days takes no more memory than one of minutes.
#[derive(Debug)]
pub struct Samples {
    kept: Vec<TcpSample>,
    /// One of this many is kept.
    stride: u64,
    seen: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            stride: 1,
            seen: 0,
        }
    }
}

impl Samples {
    /// Takes the sample of a regular time; the system is asked only for one that is kept.
    pub fn tick(&mut self, sample: impl FnOnce() -> Option<TcpSample>) {
        let due = self.seen.is_multiple_of(self.stride);
        self.seen += 1;
        if due {
            self.push(sample());
        }
    }

    /// Takes a sample whatever the time.
    pub fn push(&mut self, sample: Option<TcpSample>) {
        self.kept.extend(sample);
        if self.kept.len() > MOST {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    pub fn into_vec(self) -> Vec<TcpSample> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_transfer_is_sampled_less_often_and_to_its_end() {
        let mut samples = Samples::default();
        for t in 0..100_000_u32 {
            samples.tick(|| {
                Some(TcpSample {
                    t_s: t.into(),
                    ..TcpSample::default()
                })
            });
        }
        let kept = samples.into_vec();
        assert!(kept.len() > MOST / 2 && kept.len() <= MOST, "{}", kept.len());
        let steps: Vec<_> = kept.windows(2).map(|pair| pair[1].t_s - pair[0].t_s).collect();
        assert!(steps.iter().all(|step| (step - steps[0]).abs() < 0.5), "{steps:?}");
        assert!(kept.last().unwrap().t_s > 99_900.0);
    }
}
