//! What was acknowledged is still there after `kill -9`, in order, and nothing else is.
//!
//! `STORE_CRASH_POINTS` sets how many times the writer is killed, `STORE_CRASH_SEED` repeats a run.

use std::collections::HashMap;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures::StreamExt;
use karmada_store::{Embedded, Event, EventKind, Expect, RangeQuery, Store, Update};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const WRITERS: usize = 8;
const CHILD_DIR: &str = "STORE_CRASH_DIR";

/// The process to be killed. Without the variable this test does nothing.
///
/// Each writer puts its own numbers, deletes every fifth of them again, and prints what was
/// acknowledged; one of them compacts now and then.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Ok(dir) = env::var(CHILD_DIR) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(Embedded::open(dir).unwrap());
        let writers = (0..WRITERS).map(|writer| tokio::spawn(write_forever(store.clone(), writer)));
        futures::future::join_all(writers).await;
    });
}

async fn write_forever(store: Arc<Embedded>, writer: usize) {
    let done = store.range(RangeQuery::prefix(format!("/next/{writer}"))).await.unwrap();
    let mut number: u64 = done.items.first().map_or(0, |kv| parse(&kv.value.to_bytes()) + 1);
    loop {
        let deletes = number % 5 == 4;
        let key = format!("/{writer}/{}", if deletes { number - 1 } else { number });
        // The child before may have come further than it could say.
        if !deletes {
            let kv = store.put(&key, number.to_string().into(), Expect::Any).await.unwrap();
            acknowledge(kv.mod_revision, &key);
        } else if let Ok(event) = store.delete(&key, Expect::Any).await {
            acknowledge(event.revision(), &key);
        }
        // Where the next child goes on.
        let next = format!("/next/{writer}");
        let kv = store.put(&next, number.to_string().into(), Expect::Any).await.unwrap();
        acknowledge(kv.mod_revision, &next);
        if writer == 0 && number % 50 == 49 {
            store.compact(kv.mod_revision - 400).await.unwrap();
        }
        number += 1;
    }
}

fn acknowledge(revision: i64, key: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "ack {revision} {key}").unwrap();
    out.flush().unwrap();
}

fn parse(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

fn number_from(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap())
}

#[tokio::test]
async fn an_acknowledged_write_survives_kill_9() {
    let points = number_from("STORE_CRASH_POINTS").unwrap_or(30);
    let seed = number_from("STORE_CRASH_SEED").unwrap_or_else(|| rand::rng().random());
    println!("seed {seed}, {points} crash points");
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut known = Known::default();
    for point in 0..points {
        let kill_after = random.random_range(1..600);
        known.learn(run_child(dir.path(), kill_after));
        let store = Embedded::open(dir.path()).unwrap();
        known.verify(&store, point).await;
    }
    assert!(known.acknowledged.len() as u64 >= points);
}

/// Runs the writing child and kills it once it has acknowledged `kill_after` writes.
fn run_child(dir: &Path, kill_after: usize) -> Vec<(i64, String)> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "crash::child_that_writes_until_it_is_killed", "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // What it printed before it died counts, so reading goes on after the kill.
    while let Some(Ok(line)) = lines.next() {
        let Some((revision, key)) = line.strip_prefix("ack ").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        acknowledged.push((revision.parse().unwrap(), key.to_owned()));
        if acknowledged.len() == kill_after {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged.len() >= kill_after, "the child ended by itself");
    acknowledged
}

/// What the children said, over all crashes.
#[derive(Default)]
struct Known {
    acknowledged: HashMap<i64, String>,
    /// The newest revision verified so far.
    verified: i64,
}

impl Known {
    fn learn(&mut self, acknowledged: Vec<(i64, String)>) {
        for (revision, key) in acknowledged {
            let before = self.acknowledged.insert(revision, key);
            assert_eq!(before, None, "revision {revision} was given out twice");
        }
    }

    async fn verify(&mut self, store: &Embedded, point: u64) {
        let newest = self.acknowledged.keys().max().copied().unwrap_or_default();
        assert!(store.revision() >= newest, "crash {point} lost acknowledged revisions");
        let events = history(store).await;
        let mut unacknowledged: HashMap<&str, u32> = HashMap::new();
        for event in &events {
            match self.acknowledged.get(&event.revision()) {
                Some(key) => assert_eq!(**key, *event.kv.key, "revision {}", event.revision()),
                None if event.revision() > self.verified => {
                    let writer = event.kv.key.trim_start_matches("/next").split('/').nth(1);
                    *unacknowledged.entry(writer.unwrap()).or_default() += 1;
                }
                None => {}
            }
            if event.kind == EventKind::Put {
                parse(&event.kv.value.to_bytes());
            }
        }
        for (writer, count) in unacknowledged {
            assert!(count <= 1, "writer {writer} had one write under way, found {count}");
        }
        self.verified = store.revision();
        self.verify_state(store).await;
    }

    /// Each writer's keys are exactly those its last number implies.
    async fn verify_state(&self, store: &Embedded) {
        for writer in 0..WRITERS {
            let next = store.get(&format!("/next/{writer}"), None).await.unwrap();
            let Some(done) = next.map(|kv| parse(&kv.value.to_bytes())) else { continue };
            let found = store.range(RangeQuery::prefix(format!("/{writer}/"))).await.unwrap();
            let mut numbers: Vec<u64> =
                found.items.iter().map(|kv| parse(&kv.value.to_bytes())).collect();
            numbers.sort_unstable();
            numbers.retain(|number| *number <= done);
            // A deletion under way may have reached the disk before its number did.
            let wanted: Vec<u64> = (0..=done)
                .filter(|number| !(number % 5 == 4 || (number % 5 == 3 && *number < done)))
                .collect();
            if numbers != wanted {
                assert_eq!(done % 5, 3, "writer {writer}");
                assert_eq!(numbers, wanted[..wanted.len() - 1], "writer {writer}");
            }
        }
    }
}

/// All events since the last compaction; there is one for every revision.
async fn history(store: &Embedded) -> Vec<Arc<Event>> {
    let (first, last) = (store.compacted_revision(), store.revision());
    let mut stream = store.watch("/", first).await.unwrap();
    let mut events = Vec::new();
    for revision in first + 1..=last {
        let Some(Ok(Update::Event(event))) = stream.next().await else { panic!("at {revision}") };
        assert_eq!(event.revision(), revision);
        events.push(event);
    }
    events
}
