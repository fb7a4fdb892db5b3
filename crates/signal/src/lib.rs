//! A number that moves and can be waited for. Unlike tokio's `watch`, it wakes those who wait in the
//! order they came, so that a run on one thread can be repeated exactly.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A value many can wait for. Clones are the same one.
#[derive(Debug, Default)]
pub struct Signal<T>(Arc<Inner<T>>);

#[derive(Debug, Default)]
struct Inner<T> {
    /// The value, and how often it was set.
    current: Mutex<(T, u64)>,
    moved: Notify,
}

impl<T> Clone for Signal<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone> Signal<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(Inner { current: Mutex::new((value, 0)), moved: Notify::new() }))
    }

    pub fn get(&self) -> T {
        self.0.current.lock().0.clone()
    }

    /// Sets the value and wakes everybody.
    pub fn set(&self, value: T) {
        self.change(|current| {
            *current = value;
            true
        });
    }

    /// Edits the value; those who wait are woken if the edit says so.
    pub fn change(&self, edit: impl FnOnce(&mut T) -> bool) {
        {
            let mut current = self.0.current.lock();
            if !edit(&mut current.0) {
                return;
            }
            current.1 += 1;
        }
        self.0.moved.notify_waiters();
    }

    /// Follows the value; what it is now counts as seen.
    pub fn follow(&self) -> Follow<T> {
        let seen = self.0.current.lock().1;
        Follow { signal: self.clone(), seen }
    }

    /// Waits until the value is as wanted.
    pub async fn until(&self, wanted: impl Fn(&T) -> bool) -> T {
        let mut follow = self.follow();
        loop {
            let value = follow.get();
            if wanted(&value) {
                return value;
            }
            follow.moved().await;
        }
    }
}

/// Somebody who follows a [`Signal`].
#[derive(Debug)]
pub struct Follow<T> {
    signal: Signal<T>,
    seen: u64,
}

impl<T> Clone for Follow<T> {
    fn clone(&self) -> Self {
        Self { signal: self.signal.clone(), seen: self.seen }
    }
}

impl<T: Clone> Follow<T> {
    /// The value now; from here on it counts as seen.
    pub fn get(&mut self) -> T {
        let current = self.signal.0.current.lock();
        self.seen = current.1;
        current.0.clone()
    }

    /// Waits until the value was set after it was last seen.
    pub async fn moved(&mut self) {
        loop {
            let mut notified = std::pin::pin!(self.signal.0.moved.notified());
            // From here on no change is missed.
            notified.as_mut().enable();
            let now = self.signal.0.current.lock().1;
            if now != self.seen {
                self.seen = now;
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_who_wait_are_woken_in_order_and_miss_nothing() {
        let signal = Signal::new(0);
        let woken: Arc<Mutex<Vec<usize>>> = Arc::default();
        let tasks: Vec<_> = (0..40)
            .map(|number| {
                let (signal, woken) = (signal.clone(), woken.clone());
                tokio::spawn(async move {
                    signal.until(|value| *value == 2).await;
                    woken.lock().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        signal.set(1);
        tokio::task::yield_now().await;
        signal.set(2);
        futures::future::join_all(tasks).await;
        assert_eq!(*woken.lock(), (0..40).collect::<Vec<_>>());
        let mut follow = signal.follow();
        signal.set(3);
        follow.moved().await;
        assert_eq!(follow.get(), 3);
        signal.change(|_| false);
        assert!(futures::FutureExt::now_or_never(follow.moved()).is_none());
    }
}
