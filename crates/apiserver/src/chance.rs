//! Where random things of a server come from: the operating system, or a seed, so that a run can be
//! repeated. Keys and signatures are not drawn here.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore, SeedableRng as _};

/// A source of random numbers. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Chance(Option<Arc<Mutex<StdRng>>>);

impl Chance {
    /// Draws the same numbers again for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Some(Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))))
    }

    fn draw<T>(&self, from: impl FnOnce(&mut dyn RngCore) -> T) -> T {
        match &self.0 {
            Some(seeded) => from(&mut *seeded.lock()),
            None => from(&mut rand::rng()),
        }
    }

    pub(crate) fn below(&self, range: Range<u64>) -> u64 {
        self.draw(|source| source.random_range(range))
    }

    /// A new id of an object or a question.
    pub(crate) fn id(&self) -> String {
        let mut bytes = [0; 16];
        self.draw(|source| source.fill_bytes(&mut bytes));
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_again_and_the_machine_does_not() {
        let drawn = |chance: Chance| (chance.id(), chance.below(0..1 << 60), chance.id());
        assert_eq!(drawn(Chance::seeded(7)), drawn(Chance::seeded(7)));
        assert_ne!(drawn(Chance::seeded(7)), drawn(Chance::seeded(8)));
        assert_ne!(drawn(Chance::default()), drawn(Chance::default()));
        let id = Chance::seeded(1).id();
        assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'), "{id}");
    }
}
