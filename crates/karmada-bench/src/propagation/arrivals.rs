//! Notes when which object reaches which member, by watching the metadata in the members.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::StreamExt as _;
use karmada_client::{Client, WatchEvent, WatchOptions};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::plane::gvr;

const LIMIT: Duration = Duration::from_secs(3600);
const RESOURCES: [(&str, &str); 2] =
    [("deployments.v1.apps", "Deployment"), ("configmaps", "ConfigMap")];

#[derive(Default)]
struct Seen {
    /// The members that have the object, and when the last of them got it.
    objects: HashMap<String, (HashSet<usize>, Instant)>,
    watches: usize,
}

#[derive(Clone)]
pub(super) struct Arrivals {
    seen: Arc<Mutex<Seen>>,
    news: Arc<Notify>,
    members: usize,
}

impl Arrivals {
    /// Follows Deployments and ConfigMaps of the namespace `bench` in all members.
    pub(super) async fn watch(members: Vec<Client>) -> anyhow::Result<Self> {
        let own = Self { seen: Arc::default(), news: Arc::default(), members: members.len() };
        for (place, member) in members.iter().enumerate() {
            for (resource, kind) in RESOURCES {
                let api = member.api(&gvr(resource)).namespaced("bench").metadata_only();
                let options = WatchOptions { initial_events: true, ..WatchOptions::default() };
                let mut watch = api.watch(&options).await.context("watch a member")?;
                let own = own.clone();
                tokio::spawn(async move {
                    while let Some(Ok(event)) = watch.next().await {
                        if let WatchEvent::Added(object) = event {
                            own.note(place, format!("{kind} {}", object.name()));
                        }
                    }
                    own.seen.lock().watches += 1;
                });
            }
        }
        Ok(own)
    }

    fn note(&self, member: usize, key: String) {
        let mut seen = self.seen.lock();
        let now = Instant::now();
        let (members, last) = seen.objects.entry(key).or_insert_with(|| (HashSet::new(), now));
        members.insert(member);
        *last = now;
        if members.len() == self.members {
            self.news.notify_waiters();
        }
    }

    /// How many of the objects are in all members.
    fn complete(&self, keys: &[String]) -> usize {
        let seen = self.seen.lock();
        let everywhere = |key: &&String| {
            seen.objects.get(*key).is_some_and(|(members, _)| members.len() == self.members)
        };
        keys.iter().filter(everywhere).count()
    }

    /// When the object reached the last member.
    pub(super) fn last(&self, key: &str) -> Option<Instant> {
        let seen = self.seen.lock();
        let (members, last) = seen.objects.get(key)?;
        (members.len() == self.members).then_some(*last)
    }

    /// Waits until all objects are in all members.
    pub(super) async fn wait(&self, keys: &[String]) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let news = self.news.notified();
            let complete = self.complete(keys);
            if complete == keys.len() {
                return Ok(());
            }
            let ended = self.seen.lock().watches;
            anyhow::ensure!(ended == 0, "{ended} watches of members ended");
            let late = began.elapsed() > LIMIT;
            anyhow::ensure!(!late, "{complete} of {} objects arrived", keys.len());
            // Looking through thousands of keys at every arrival would be a load of its own.
            let pause = if keys.len() > 10 { Duration::from_millis(20) } else { Duration::ZERO };
            let _ = tokio::time::timeout(Duration::from_secs(5), news).await;
            tokio::time::sleep(pause).await;
        }
    }
}
