//! Waiting longer after every failure.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Delays that double up to a limit, each lengthened by up to the same again, so that clients that
/// failed together do not come back together.
#[derive(Debug, Clone)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    failures: u32,
    /// Seeded by a name, so that a run can be repeated.
    random: StdRng,
}

impl Backoff {
    pub fn new(base: Duration, max: Duration, name: &str) -> Self {
        let mut seed = [0; 32];
        for (place, byte) in name.bytes().enumerate() {
            if let Some(slot) = seed.get_mut(place % 32) {
                *slot ^= byte.rotate_left((place / 32) as u32 % 8);
            }
        }
        Self { base, max, failures: 0, random: StdRng::from_seed(seed) }
    }

    pub fn next_delay(&mut self) -> Duration {
        let delay = exponential(self.base, self.max, self.failures);
        self.failures = self.failures.saturating_add(1);
        delay.mul_f64(1.0 + self.random.random::<f64>())
    }

    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// `base` doubled for every failure, `max` at most.
pub(crate) fn exponential(base: Duration, max: Duration, failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    base.checked_mul(factor).unwrap_or(max).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit_and_begin_anew() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 30 * second, "pods");
        for least in [1, 2, 4, 8, 16, 30, 30] {
            let delay = backoff.next_delay();
            assert!(delay >= least * second && delay <= 2 * least * second, "{delay:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= 2 * second);
        assert_eq!(exponential(second, 30 * second, 1000), 30 * second);
    }
}
