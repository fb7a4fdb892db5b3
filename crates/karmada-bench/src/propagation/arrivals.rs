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
    /// Those that somebody waits for and that are not everywhere yet: looking through all of them again
    /// and again would be a load of its own, and one that grows.
    awaited: HashSet<String>,
    watches: usize,
}

impl Seen {
    fn is_everywhere(&self, key: &str, members: usize) -> bool {
        self.objects.get(key).is_some_and(|(has, _)| has.len() == members)
    }
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
        match seen.objects.get_mut(&key) {
            Some((members, last)) => {
                members.insert(member);
                *last = now;
            }
            None => {
                seen.objects.insert(key.clone(), (HashSet::from([member]), now));
            }
        }
        if seen.is_everywhere(&key, self.members)
            && seen.awaited.remove(&key)
            && seen.awaited.is_empty()
        {
            self.news.notify_waiters();
        }
    }

    /// When the object reached the last member.
    pub(super) fn last(&self, key: &str) -> Option<Instant> {
        let seen = self.seen.lock();
        let (members, last) = seen.objects.get(key)?;
        (members.len() == self.members).then_some(*last)
    }

    /// Waits until all objects are in all members. One waits at a time.
    pub(super) async fn wait(&self, keys: &[String]) -> anyhow::Result<()> {
        let began = Instant::now();
        {
            let mut seen = self.seen.lock();
            let missing = keys.iter().filter(|key| !seen.is_everywhere(key, self.members));
            seen.awaited = missing.cloned().collect();
        }
        loop {
            let news = self.news.notified();
            let (missing, ended) = {
                let seen = self.seen.lock();
                (seen.awaited.len(), seen.watches)
            };
            if missing == 0 {
                return Ok(());
            }
            anyhow::ensure!(ended == 0, "{ended} watches of members ended");
            let late = began.elapsed() > LIMIT;
            anyhow::ensure!(!late, "{missing} of {} objects are missing", keys.len());
            let _ = tokio::time::timeout(Duration::from_secs(5), news).await;
        }
    }
}
