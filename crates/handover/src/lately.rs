//! What was made of texts lately, or texts were made of, for those who ask for it soon. There may be far more objects
//! than anybody looks at within a moment, and a tree takes several times the room of its text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The number under which something was kept, and what it is.
type Place<T> = Mutex<(u64, Option<Arc<T>>)>;

/// The last things that were kept. One more takes the place of the oldest.
pub struct Lately<T: ?Sized> {
    places: Box<[Place<T>]>,
    next: AtomicU64,
}

/// Under which number something was kept, if it was. It may have had to make room since.
#[derive(Debug, Default)]
pub struct Ticket(AtomicU64);

impl<T: ?Sized> Lately<T> {
    pub fn new(kept: usize) -> Self {
        let place = |_| Mutex::new((0, None));
        Self { places: (0..kept.max(1)).map(place).collect(), next: AtomicU64::new(1) }
    }

    fn place_of(&self, number: u64) -> &Place<T> {
        &self.places[number as usize % self.places.len()]
    }

    pub fn find(&self, ticket: &Ticket) -> Option<Arc<T>> {
        let number = ticket.0.load(Ordering::Acquire);
        let place = self.place_of(number).lock();
        let (kept, value) = &*place;
        if *kept == number { value.clone() } else { None }
    }

    pub fn keep(&self, ticket: &Ticket, value: Arc<T>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let former = std::mem::replace(&mut *self.place_of(number).lock(), (number, Some(value)));
        ticket.0.store(number, Ordering::Release);
        // Dropping it takes longer than the lock should be held.
        drop(former);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_found_until_others_need_the_room() {
        let lately = Lately::new(16);
        let (first, none) = (Ticket::default(), Ticket::default());
        let value = Arc::new("first".to_owned());
        lately.keep(&first, value.clone());
        assert!(Arc::ptr_eq(&lately.find(&first).unwrap(), &value));
        assert_eq!(lately.find(&none), None);
        for number in 0..16 {
            lately.keep(&Ticket::default(), Arc::new(number.to_string()));
        }
        assert_eq!(lately.find(&first), None);
        assert_eq!(Arc::strong_count(&value), 1, "nobody holds it any longer");
    }
}
