//! Stopping in order: everybody is told, and whoever started the work waits for its end.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

/// Tells tasks to stop and knows those that have not yet. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
    killed: CancellationToken,
    tasks: TaskTracker,
}

impl Shutdown {
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops when this one does, and can be stopped alone.
    pub fn child(&self) -> Self {
        Self {
            token: self.token.child_token(),
            killed: self.killed.child_token(),
            tasks: TaskTracker::new(),
        }
    }

    /// Tells all tasks to stop.
    pub fn trigger(&self) {
        self.token.cancel();
    }

    pub fn is_triggered(&self) -> bool {
        self.token.is_cancelled()
    }

    pub async fn triggered(&self) {
        self.token.cancelled().await;
    }

    /// Starts a task that is waited for; it has to end by itself once told to.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_boxed(task.boxed())
    }

    // Tasks are boxed because each type of task compiles a scheduler of its own: a fifth of what
    // there was to compile.
    fn spawn_boxed<T: Send + 'static>(&self, task: BoxFuture<'static, T>) -> JoinHandle<T> {
        let killed = self.killed.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                // The killed are not asked once more.
                biased;
                () = killed.cancelled() => {}
                output = task => return output,
            }
            // What it had is dropped; nobody waits for those who are killed.
            std::future::pending().await
        })
    }

    /// Starts a task that is dropped where it stands when the shutdown begins.
    pub fn spawn_until<F>(&self, task: F) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_boxed_until(task.boxed())
    }

    fn spawn_boxed_until(&self, task: BoxFuture<'static, ()>) -> JoinHandle<()> {
        let (token, killed) = (self.token.clone(), self.killed.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = killed.cancelled() => {}
                _ = token.run_until_cancelled(task) => {}
            }
        })
    }

    /// Acts once when this ends, however it ends. For those who hold each other until then.
    pub fn at_end(&self, act: impl FnOnce() + Send + 'static) {
        let act = AtEnd(Some(Box::new(act)));
        self.spawn_until(async move {
            let _act = act;
            std::future::pending::<()>().await;
        });
    }

    /// Drops all tasks where they stand, those of children too, as the end of the process would.
    pub fn kill(&self) {
        self.killed.cancel();
        self.token.cancel();
    }

    /// Tells all tasks to stop and waits for them, but not forever.
    pub async fn finish(&self, patience: Duration) {
        self.trigger();
        self.tasks.close();
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            warn!(tasks = self.tasks.len(), "tasks did not end in time");
        }
    }
}

struct AtEnd(Option<Box<dyn FnOnce() + Send>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[tokio::test(start_paused = true)]
    async fn finish_waits_for_tasks_that_clean_up() {
        let shutdown = Shutdown::new();
        let own = shutdown.clone();
        let task = shutdown.spawn(async move {
            own.triggered().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
        });
        shutdown.spawn_until(std::future::pending());
        shutdown.finish(Duration::from_secs(10)).await;
        assert!(task.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn the_killed_do_not_clean_up() {
        let shutdown = Shutdown::new();
        let (own, done) = (shutdown.child(), Arc::new(AtomicBool::new(false)));
        let (ending, cleaned) = (own.clone(), done.clone());
        own.spawn(async move {
            ending.triggered().await;
            cleaned.store(true, Ordering::Relaxed);
        });
        tokio::task::yield_now().await;
        shutdown.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(own.is_triggered() && !done.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_is_acted_upon_however_it_comes() {
        let ends: [fn(&Shutdown); 2] = [Shutdown::trigger, Shutdown::kill];
        for end in ends {
            let (shutdown, acted) = (Shutdown::new(), Arc::new(AtomicBool::new(false)));
            let own = acted.clone();
            shutdown.child().at_end(move || own.store(true, Ordering::Relaxed));
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!acted.load(Ordering::Relaxed));
            end(&shutdown);
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(acted.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn a_child_stops_with_its_parent_and_alone() {
        let parent = Shutdown::new();
        let (one, other) = (parent.child(), parent.child());
        one.trigger();
        assert!(one.is_triggered() && !other.is_triggered() && !parent.is_triggered());
        parent.trigger();
        assert!(other.is_triggered());
    }
}
