//! Values that many objects or servers of a process have in common are kept once for all of them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

/// How many values of a type are remembered. One more takes the place of another, so that values nobody has
/// any longer do not add up.
const REMEMBERED: usize = 1024;

/// Values that were seen lately, each in the place its hash gives it.
pub struct Seen<T: ?Sized>(Box<[Mutex<Option<Arc<T>>>]>);

impl<T: ?Sized> Default for Seen<T> {
    fn default() -> Self {
        Self((0..REMEMBERED).map(|_| Mutex::new(None)).collect())
    }
}

impl<T: Hash + Eq + ?Sized> Seen<T> {
    /// The value as others have it already, or as it is.
    fn share_with<O>(&self, own: O, lend: fn(&O) -> &T, keep: fn(O) -> Arc<T>) -> Arc<T> {
        let mut hasher = DefaultHasher::new();
        lend(&own).hash(&mut hasher);
        let Some(place) = self.0.get(hasher.finish() as usize % REMEMBERED) else {
            return keep(own);
        };
        let mut place = place.lock();
        if let Some(known) = place.as_ref().filter(|known| ***known == *lend(&own)) {
            return known.clone();
        }
        let kept = keep(own);
        *place = Some(kept.clone());
        kept
    }
}

impl<T: Hash + Eq> Seen<T> {
    /// The value as others have it already, or as it is.
    pub fn share(&self, value: T) -> Arc<T> {
        self.share_with(value, |value| value, Arc::new)
    }
}

impl<T: Hash + Eq> Seen<[T]> {
    /// The list as others have it already, or as it is.
    pub fn share_list(&self, list: Vec<T>) -> Arc<[T]> {
        self.share_with(list, |list| list.as_slice(), Arc::from)
    }
}

impl Seen<str> {
    /// The text as others have it already, or as it is.
    pub fn share_text(&self, text: Arc<str>) -> Arc<str> {
        self.share_with(text, |text| text, |text| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_others_are_themselves() {
        let seen = Seen::default();
        let (one, same, other) = (seen.share(1_u32), seen.share(1), seen.share(2));
        assert!(Arc::ptr_eq(&one, &same));
        assert_eq!((*one, *other), (1, 2));
        let seen = Seen::default();
        let (one, same) = (seen.share_list(vec![1, 2]), seen.share_list(vec![1, 2]));
        assert!(Arc::ptr_eq(&one, &same));
        assert_eq!(*seen.share_list(vec![2, 1]), [2, 1]);
        let seen = Seen::default();
        let (one, same) = (seen.share_text("a".into()), seen.share_text("a".into()));
        assert!(Arc::ptr_eq(&one, &same));
    }

    #[test]
    fn what_nobody_has_any_longer_does_not_add_up() {
        let seen = Seen::default();
        let values: Vec<_> = (0..10_000).map(|n| Arc::downgrade(&seen.share(n))).collect();
        let alive = values.iter().filter(|value| value.strong_count() > 0).count();
        assert!(alive <= REMEMBERED, "{alive}");
    }
}
