//! Gathers what many streams of one HTTP/2 connection have to say into few writes.
//!
//! A change of an object that a hundred watchers of a connection are told of is a hundred frames. Each stream
//! has a task of its own and wakes the task of the connection, which would encrypt and send every frame by
//! itself. Here a flush that comes soon after another one only promises: the task of the connection wakes
//! itself, and sends everything when its turn comes, behind the tasks that were woken before it. HTTP/2 reads
//! whenever it is polled, so that a read marks the next turn. The first flush after a pause is not kept waiting.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// As much as is kept back at most: four records of TLS.
const GATHERED: usize = 64 << 10;

/// Whoever has said nothing for so long has nothing to gather.
const PAUSE: Duration = Duration::from_micros(200);

thread_local! {
    /// Memory for what is kept, lent to the connection that has something to say.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

pub(super) struct Gather<S> {
    stream: S,
    /// Off for protocols that do not read in every turn.
    gathers: bool,
    kept: Vec<u8>,
    /// How much of it is sent already.
    sent: usize,
    /// Whether a flush was promised in an earlier turn.
    promised: bool,
    /// When something was sent last.
    last: Option<Instant>,
}

impl<S: AsyncWrite + Unpin> Gather<S> {
    pub(super) fn new(stream: S, gathers: bool) -> Self {
        Self { stream, gathers, kept: Vec::new(), sent: 0, promised: false, last: None }
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.kept.len() {
            let written =
                ready!(Pin::new(&mut self.stream).poll_write(context, &self.kept[self.sent..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += written;
        }
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        // A connection that rests holds no memory for what it once had to say.
        let mut spare = std::mem::take(&mut self.kept);
        spare.clear();
        if spare.capacity() <= 2 * GATHERED {
            SPARE.set(spare);
        }
        self.sent = 0;
        self.promised = false;
        self.last = Some(Instant::now());
        Poll::Ready(Ok(()))
    }

    /// Makes room for more, which may take sending what is kept.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.kept.len() >= GATHERED {
            ready!(self.poll_send(context))?;
        }
        if self.kept.capacity() == 0 {
            self.kept = SPARE.take();
        }
        Poll::Ready(Ok(()))
    }

    fn has_paused(&self) -> bool {
        self.last.is_none_or(|last| last.elapsed() >= PAUSE)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gather<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Reading goes on while the other side is slow to take what is sent.
        if self.promised
            && let Poll::Ready(Err(error)) = self.poll_send(context)
        {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.gathers {
            return Pin::new(&mut self.stream).poll_write(context, buffer);
        }
        ready!(self.poll_room(context))?;
        self.kept.extend_from_slice(buffer);
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.gathers {
            return Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        }
        ready!(self.poll_room(context))?;
        let before = self.kept.len();
        for buffer in buffers {
            self.kept.extend_from_slice(buffer);
        }
        Poll::Ready(Ok(self.kept.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        self.gathers || self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.gathers {
            return Pin::new(&mut self.stream).poll_flush(context);
        }
        if self.kept.is_empty() || self.promised {
            return Poll::Ready(Ok(()));
        }
        if self.has_paused() {
            return self.poll_send(context);
        }
        self.promised = true;
        context.waker().wake_by_ref();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

    use super::*;

    /// Counts how often a task was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Turn {
        woken: Arc<Woken>,
        gather: Gather<DuplexStream>,
    }

    impl Turn {
        fn new(room: usize) -> (Self, DuplexStream) {
            let (near, far) = duplex(room);
            (Self { woken: Arc::default(), gather: Gather::new(near, true) }, far)
        }

        fn poll<T>(
            &mut self,
            act: impl FnOnce(Pin<&mut Gather<DuplexStream>>, &mut Context<'_>) -> T,
        ) -> T {
            let waker = Waker::from(self.woken.clone());
            act(Pin::new(&mut self.gather), &mut Context::from_waker(&waker))
        }

        fn say(&mut self, text: &[u8]) -> bool {
            self.poll(|gather, context| {
                let said = gather.poll_write(context, text);
                matches!(said, Poll::Ready(Ok(length)) if length == text.len())
            })
        }

        fn flush(&mut self) {
            let flushed = self.poll(|gather, context| gather.poll_flush(context));
            assert!(matches!(flushed, Poll::Ready(Ok(()))));
        }

        /// What a connection does first whenever it is polled.
        fn begin(&mut self) {
            let mut bytes = [0; 16];
            let mut buffer = ReadBuf::new(&mut bytes);
            assert!(
                self.poll(|gather, context| gather.poll_read(context, &mut buffer)).is_pending()
            );
        }

        fn times_woken(&self) -> usize {
            self.woken.0.load(Ordering::Relaxed)
        }
    }

    async fn heard(far: &mut DuplexStream, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        far.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    fn is_silent(far: &mut DuplexStream) -> bool {
        let mut bytes = [0; 1];
        let mut buffer = ReadBuf::new(&mut bytes);
        Pin::new(far).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer).is_pending()
    }

    #[tokio::test(start_paused = true)]
    async fn what_follows_soon_goes_out_together_and_what_follows_a_pause_at_once() {
        let (mut turn, mut far) = Turn::new(1 << 20);
        assert!(turn.say(b"first"));
        turn.flush();
        assert_eq!(heard(&mut far, 5).await, b"first");
        assert_eq!(turn.times_woken(), 0);
        for word in [&b"one "[..], b"two "] {
            assert!(turn.say(word));
            turn.flush();
        }
        assert_eq!(turn.times_woken(), 1, "a second promise needs no second turn");
        assert!(is_silent(&mut far));
        turn.begin();
        assert_eq!(heard(&mut far, 8).await, b"one two ");
        turn.flush();
        assert_eq!(turn.times_woken(), 1, "nothing is left to promise");
        tokio::time::advance(PAUSE).await;
        assert!(turn.say(b"later"));
        turn.flush();
        assert_eq!(heard(&mut far, 5).await, b"later");
        assert_eq!(turn.times_woken(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_is_slow_is_not_written_to_without_end() {
        let (mut turn, mut far) = Turn::new(4 << 10);
        assert!(turn.say(b"first"));
        turn.flush();
        heard(&mut far, 5).await;
        let block = vec![b'x'; GATHERED];
        assert!(turn.say(&block));
        assert!(!turn.say(b"more"), "what is kept has to go first");
        let mut left = GATHERED;
        while left > 0 {
            let length = left.min(4 << 10);
            heard(&mut far, length).await;
            left -= length;
            turn.flush();
            turn.begin();
        }
        assert!(turn.say(b"more"));
    }

    #[tokio::test]
    async fn the_end_of_a_connection_leaves_nothing_behind() {
        let (mut turn, mut far) = Turn::new(1 << 10);
        assert!(turn.say(b"bye"));
        let shut = turn.poll(|gather, context| gather.poll_shutdown(context));
        assert!(matches!(shut, Poll::Ready(Ok(()))));
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"bye");
    }
}
