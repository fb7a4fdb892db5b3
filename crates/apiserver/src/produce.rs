//! A stream made by an `async` block that hands over one item after the other. What the block keeps stays where
//! it is from one item to the next, where `unfold` would move all of it twice.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures::Stream;
use futures::future::poll_fn;
use parking_lot::Mutex;

/// Where the block puts its items.
pub(crate) struct Outlet<T>(Arc<Mutex<Option<T>>>);

impl<T> Outlet<T> {
    /// Hands an item over; goes on when the stream is asked for the next one.
    pub(crate) async fn give(&self, item: T) {
        *self.0.lock() = Some(item);
        // The stream takes the item before it lets the block go on.
        poll_fn(|_| if self.0.lock().is_some() { Poll::Pending } else { Poll::Ready(()) }).await;
    }
}

/// The items that `block` gives, until it ends.
pub(crate) fn produce<T, F>(
    block: impl FnOnce(Outlet<T>) -> F,
) -> impl Stream<Item = T> + Send + 'static
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let given = Arc::new(Mutex::new(None));
    let block: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(block(Outlet(given.clone())));
    let mut block = Some(block);
    futures::stream::poll_fn(move |context| {
        let Some(running) = &mut block else { return Poll::Ready(None) };
        if running.as_mut().poll(context).is_ready() {
            block = None;
        }
        match given.lock().take() {
            Some(item) => Poll::Ready(Some(item)),
            None if block.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    })
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn items_come_in_order_and_the_block_waits_for_their_reader() {
        let made = Arc::new(Mutex::new(Vec::new()));
        let noted = made.clone();
        let mut stream = produce(|out| async move {
            for number in 0..3 {
                noted.lock().push(number);
                tokio::task::yield_now().await;
                out.give(number).await;
            }
        });
        assert_eq!(stream.next().await, Some(0));
        assert_eq!(*made.lock(), [0], "nothing is made ahead");
        assert_eq!(stream.next().await, Some(1));
        assert_eq!(stream.next().await, Some(2));
        assert_eq!(stream.next().await, None);
        assert_eq!(stream.next().await, None, "the end stays the end");
        assert_eq!(*made.lock(), [0, 1, 2]);
    }

    #[tokio::test]
    async fn the_last_item_is_told_although_the_block_has_ended() {
        let stream = produce(|out| async move {
            // Whoever does not wait for the reader ends with the item in the outlet.
            drop(futures::future::select(Box::pin(out.give(1)), futures::future::ready(())).await);
        });
        assert_eq!(stream.collect::<Vec<_>>().await, [1]);
    }
}
