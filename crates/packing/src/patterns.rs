//! Which text the others of a kind are told by: one of them, and behind it others that were not much like it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::RwLock;

use crate::{LONGEST, Packed, Pattern};

/// Shorter texts are kept as they are.
const SHORT: usize = 128;

/// A text that is shorter is no pattern for others.
const SHORT_PATTERN: usize = 512;

/// A text fits well if it can be told by this part of its length.
const GOOD_FIT: usize = 6;

/// How many texts have to fit badly, more than fit well, until the pattern learns from one of them.
const PATIENCE: u32 = 4;

/// How many patterns are made in all: texts that have nothing in common are no reason to go on for ever.
const MOST: u32 = 16;

/// The pattern that texts of one kind are packed by.
#[derive(Debug, Default)]
pub struct Patterns {
    current: RwLock<Option<Arc<Pattern>>>,
    /// How many texts have fitted badly, less those that have fitted well since.
    poor: AtomicU32,
    made: AtomicU32,
    /// What every pattern made here begins with.
    mark: Box<[u8]>,
}

impl Patterns {
    /// Patterns that tell by a mark what is known of all texts that were packed by them, also when they are read again.
    pub fn marked(mark: &[u8]) -> Self {
        Self { mark: mark.into(), ..Self::default() }
    }

    /// Whether a text was packed by patterns with the same mark.
    pub fn have_packed(&self, packed: &Packed) -> bool {
        !self.mark.is_empty() && packed.pattern.as_ref().is_some_and(|by| self.is_own(by))
    }

    fn is_own(&self, pattern: &Pattern) -> bool {
        pattern.text().starts_with(&self.mark)
    }

    /// Packs a text as well as it can be.
    pub fn pack(&self, text: &[u8]) -> Packed {
        if text.len() < SHORT {
            return text.into();
        }
        let current = self.current.read().clone();
        let Some(pattern) = current.or_else(|| self.adopt(&[], text)) else { return text.into() };
        let Some(data) = pattern.pack(text) else { return text.into() };
        self.judge(&pattern, data.len() <= text.len() / GOOD_FIT, text);
        if data.len() > text.len() - text.len() / 8 {
            return text.into();
        }
        Packed { data: data.into(), pattern: Some(pattern) }
    }

    /// Goes on with the pattern of a text that was packed before, if it is the one that has learned most.
    pub fn follow(&self, known: &Packed) {
        let learned = |pattern: &Pattern| pattern.text().len();
        let current = self.current.read().as_deref().map_or(0, learned);
        if let Some(pattern) =
            known.pattern.as_ref().filter(|known| learned(known) > current && self.is_own(known))
        {
            *self.current.write() = Some(pattern.clone());
        }
    }

    fn judge(&self, pattern: &Pattern, fits: bool, text: &[u8]) {
        if fits {
            let less = |poor: u32| poor.checked_sub(1);
            // Fewer than none is none.
            let _ = self.poor.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        } else if self.poor.fetch_add(1, Ordering::Relaxed) + 1 >= PATIENCE {
            self.poor.store(0, Ordering::Relaxed);
            drop(self.adopt(pattern.text(), text));
        }
    }

    /// Makes the pattern that has what `former` has and a text in addition.
    fn adopt(&self, former: &[u8], text: &[u8]) -> Option<Arc<Pattern>> {
        if text.len() < SHORT_PATTERN || self.made.fetch_add(1, Ordering::Relaxed) >= MOST {
            return None;
        }
        let former = former.strip_prefix(&*self.mark).unwrap_or(former);
        let learned = [former, text].concat();
        let surplus = (self.mark.len() + learned.len()).saturating_sub(LONGEST);
        let kept = learned.get(surplus..).unwrap_or_default();
        let pattern = Arc::new(Pattern::new(&[&self.mark, kept].concat()));
        *self.current.write() = Some(pattern.clone());
        Some(pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes in which nothing repeats, the same ones for the same seed.
    fn noise(mut seed: u32, length: usize) -> Vec<u8> {
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    /// Much that all of a kind have in common, and a name.
    fn object(kind: u32, name: usize) -> Vec<u8> {
        [noise(kind, 1000), name.to_string().into_bytes()].concat()
    }

    #[test]
    fn texts_of_a_kind_take_a_fraction() {
        let patterns = Patterns::default();
        for name in 0..100 {
            let text = object(1, name);
            let packed = patterns.pack(&text);
            assert_eq!(packed.to_bytes(), text);
            assert!(packed.weight() * 10 < text.len(), "{packed:?}");
        }
    }

    #[test]
    fn a_pattern_learns_what_else_there_is_and_forgets_nothing() {
        let patterns = Patterns::default();
        let weigh = |kind, name| patterns.pack(&object(kind, name)).weight();
        let usual = (0..10).map(|name| weigh(1, name)).max().unwrap();
        let strange = weigh(2, 0);
        assert!(strange > 10 * usual, "{strange} {usual}");
        (0..PATIENCE as usize).for_each(|name| assert!(weigh(2, name) > 0));
        assert!(weigh(2, 7) <= 2 * usual);
        assert!(weigh(1, 7) <= 2 * usual);
    }

    #[test]
    fn texts_without_anything_in_common_are_kept_as_they_are_and_end_the_search() {
        let patterns = Patterns::default();
        let kept_whole = (0..2000).filter(|seed| {
            let packed = patterns.pack(&noise(*seed, 600));
            (packed.weight(), packed.parts().1.is_none()) == (600, true)
        });
        // But for the one that was the first pattern.
        assert_eq!(kept_whole.count(), 1999);
        let before = patterns.current.read().clone().unwrap();
        assert!(patterns.made.load(Ordering::Relaxed) > MOST);
        (0..1000).for_each(|seed| drop(patterns.pack(&noise(seed, 700))));
        assert!(Arc::ptr_eq(&before, patterns.current.read().as_ref().unwrap()));
    }

    #[test]
    fn a_mark_tells_who_has_packed_a_text() {
        let [one, other, none] =
            [Patterns::marked(b"#1"), Patterns::marked(b"#2"), Patterns::default()];
        // So many that the pattern is as long as it can be.
        let texts: Vec<_> = (0..200).map(|name| object(name / 10, name as usize)).collect();
        for text in &texts {
            let packed = one.pack(text);
            assert_eq!(packed.to_bytes(), text);
            assert_eq!(one.have_packed(&packed), packed.parts().1.is_some());
            assert!(!other.have_packed(&packed) && !none.have_packed(&packed));
            other.follow(&packed);
            assert!(other.current.read().is_none());
        }
        let last = one.current.read().clone().unwrap();
        assert_eq!(last.text().len(), LONGEST);
        assert!(!one.have_packed(&texts[0].clone().into()), "nobody has packed it");
        assert!(!none.have_packed(&none.pack(&texts[0])), "there is nothing to know");
    }

    #[test]
    fn what_is_short_stays_as_it_is() {
        let patterns = Patterns::default();
        assert!(patterns.pack(&[b'x'; SHORT - 1]).parts().1.is_none());
        assert!(patterns.pack(&[b'x'; SHORT_PATTERN - 1]).parts().1.is_none());
        assert!(patterns.pack(&[b'x'; SHORT_PATTERN]).parts().1.is_some());
    }

    #[test]
    fn the_pattern_that_has_learned_most_is_gone_on_with() {
        let (first, second) = (Patterns::default(), Patterns::default());
        let early = first.pack(&object(1, 1));
        (0..=PATIENCE as usize).for_each(|name| drop(first.pack(&object(2, name))));
        let late = first.pack(&object(2, 7));
        [&early, &late, &early].into_iter().for_each(|known| second.follow(known));
        let other = second.pack(&object(1, 2));
        assert!(Arc::ptr_eq(late.parts().1.unwrap(), other.parts().1.unwrap()));
    }
}
