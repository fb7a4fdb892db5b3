//! What was read from texts lately, for those who ask again soon. There may be far more objects than anybody looks
//! at within a moment, and what is read from one takes several times the room of its text.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

/// How many are kept, for all objects of the process.
const KEPT: usize = 2048;

type Read = Arc<dyn Any + Send + Sync>;

/// The number under which each was kept, and what it is.
type Places = Box<[Mutex<(u64, Option<Read>)>]>;

static PLACES: LazyLock<Places> = LazyLock::new(|| (0..KEPT).map(|_| Mutex::default()).collect());
static NEXT: AtomicU64 = AtomicU64::new(1);

fn place_of(number: u64) -> &'static Mutex<(u64, Option<Read>)> {
    &PLACES[number as usize % KEPT]
}

/// Under which number something was kept, if it was. It may have had to make room since.
#[derive(Debug, Default)]
pub(crate) struct Ticket(AtomicU64);

impl Ticket {
    pub(crate) fn find<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let number = self.0.load(Ordering::Acquire);
        let place = place_of(number).lock();
        let (kept, read) = &*place;
        if *kept == number { read.clone()?.downcast().ok() } else { None }
    }

    pub(crate) fn keep<T: Any + Send + Sync>(&self, read: Arc<T>) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let former = std::mem::replace(&mut *place_of(number).lock(), (number, Some(read)));
        self.0.store(number, Ordering::Release);
        // Dropping it takes longer than the lock should be held.
        drop(former);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_found_until_others_need_the_room() {
        let (first, none) = (Ticket::default(), Ticket::default());
        let value = Arc::new("first".to_owned());
        first.keep(value.clone());
        assert!(Arc::ptr_eq(&first.find::<String>().unwrap(), &value));
        assert_eq!((first.find::<u32>(), none.find::<String>()), (None, None));
        for number in 0..KEPT {
            Ticket::default().keep(Arc::new(number));
        }
        assert_eq!(first.find::<String>(), None);
        assert_eq!(Arc::strong_count(&value), 1, "nobody holds it any longer");
    }
}
