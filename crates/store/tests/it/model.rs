//! Random operations against a model so simple that it is right: a list of all states there ever
//! were. The embedded backend is also closed and opened again on the way.

use std::collections::BTreeMap;
use std::path::Path;

use futures::{FutureExt, StreamExt};
use karmada_store::{
    Embedded, EventKind, Expect, FIRST_REVISION, KeyValue, Memory, RangeQuery, Store, Update,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Put { key: u8, value: u8, expect: Guess },
    Delete { key: u8, expect: Guess },
    Compact { back: u8 },
    Reopen,
}

/// What a writer claims to know about the key.
#[derive(Debug, Clone, Copy)]
enum Guess {
    Any,
    Absent,
    Right,
    Wrong,
}

type State = BTreeMap<String, KeyValue>;

/// `states[n]` is the state at revision `FIRST_REVISION + n`.
struct Model {
    states: Vec<State>,
    compacted: i64,
}

impl Model {
    fn revision(&self) -> i64 {
        FIRST_REVISION + self.states.len() as i64 - 1
    }

    fn latest(&self) -> &State {
        self.states.last().unwrap()
    }

    fn at(&self, revision: i64) -> &State {
        &self.states[(revision - FIRST_REVISION) as usize]
    }

    fn expect(&self, key: &str, guess: Guess) -> Expect {
        match guess {
            Guess::Any => Expect::Any,
            Guess::Absent => Expect::Absent,
            Guess::Wrong => Expect::ModRevision(self.revision() + 7),
            Guess::Right => match self.latest().get(key) {
                Some(kv) => Expect::ModRevision(kv.mod_revision),
                None => Expect::Absent,
            },
        }
    }

    /// Writes, or says that the expectation is not met.
    fn write(&mut self, key: &str, value: Option<u8>, expect: Expect) -> bool {
        let current = self.latest().get(key).cloned();
        let met = match expect {
            Expect::Any => true,
            Expect::Absent => current.is_none(),
            Expect::ModRevision(revision) => {
                current.as_ref().is_some_and(|kv| kv.mod_revision == revision)
            }
        };
        if !met || (value.is_none() && current.is_none()) {
            return false;
        }
        let revision = self.revision() + 1;
        let mut state = self.latest().clone();
        match value {
            None => drop(state.remove(key)),
            Some(value) => {
                let (create_revision, version) =
                    current.map_or((revision, 1), |kv| (kv.create_revision, kv.version + 1));
                let value = vec![value].into();
                let kv = KeyValue {
                    key: key.into(),
                    value,
                    create_revision,
                    mod_revision: revision,
                    version,
                };
                state.insert(key.to_owned(), kv);
            }
        }
        self.states.push(state);
        true
    }

    /// What a watch after `after` must deliver: the difference of every two neighbours.
    fn changes(&self, after: i64) -> Vec<(i64, EventKind, String, Option<i64>)> {
        let revisions = (after + 1)..=self.revision();
        let change = |revision| {
            let (old, new) = (self.at(revision - 1), self.at(revision));
            let written = new.values().find(|kv| kv.mod_revision == revision);
            let (kind, key) = match written {
                Some(kv) => (EventKind::Put, kv.key.to_string()),
                None => {
                    let gone = old.keys().find(|key| !new.contains_key(*key)).unwrap();
                    (EventKind::Delete, gone.clone())
                }
            };
            let prev = old.get(&key).map(|kv| kv.mod_revision);
            (revision, kind, key, prev)
        };
        revisions.map(change).collect()
    }
}

async fn check(store: &dyn Store, model: &Model) {
    assert_eq!(store.revision(), model.revision());
    assert_eq!(store.compacted_revision(), model.compacted);
    for revision in model.compacted..=model.revision() {
        let found = store.range(RangeQuery::prefix("/").at(revision)).await.unwrap();
        let wanted: Vec<_> = model.at(revision).values().cloned().collect();
        assert_eq!(found.items, wanted, "at revision {revision}");
    }
    if model.compacted > FIRST_REVISION {
        assert!(store.get("/0", Some(model.compacted - 1)).await.unwrap_err().is_compacted());
    }
    let mut stream = store.watch("/", model.compacted).await.unwrap();
    let mut seen = Vec::new();
    while let Some(Some(Ok(Update::Event(event)))) = stream.next().now_or_never() {
        let prev = event.prev.as_ref().map(|kv| kv.mod_revision);
        seen.push((event.revision(), event.kind, event.kv.key.to_string(), prev));
    }
    assert_eq!(seen, model.changes(model.compacted));
}

async fn run(ops: Vec<Op>, dir: Option<&Path>) {
    let open = || -> Box<dyn Store> {
        match dir {
            Some(dir) => Box::new(Embedded::open(dir).unwrap()),
            None => Box::new(Memory::new()),
        }
    };
    let mut store = open();
    let mut model = Model { states: vec![State::new()], compacted: FIRST_REVISION };
    for op in ops {
        match op {
            Op::Put { key, value, expect } => {
                let key = format!("/{key}");
                let expect = model.expect(&key, expect);
                let stored = store.put(&key, vec![value].into(), expect).await;
                assert_eq!(stored.is_ok(), model.write(&key, Some(value), expect));
            }
            Op::Delete { key, expect } => {
                let key = format!("/{key}");
                let expect = model.expect(&key, expect);
                let deleted = store.delete(&key, expect).await;
                assert_eq!(deleted.is_ok(), model.write(&key, None, expect));
            }
            Op::Compact { back } => {
                let target = model.revision() - i64::from(back);
                store.compact(target).await.unwrap();
                model.compacted = model.compacted.max(target);
            }
            Op::Reopen if dir.is_some() => {
                drop(store);
                store = open();
            }
            Op::Reopen => {}
        }
    }
    check(&*store, &model).await;
}

fn op() -> impl Strategy<Value = Op> {
    let guess = prop::sample::select(vec![
        Guess::Any,
        Guess::Absent,
        Guess::Right,
        Guess::Right,
        Guess::Wrong,
    ]);
    prop_oneof![
        8 => (0..6u8, any::<u8>(), guess.clone())
            .prop_map(|(key, value, expect)| Op::Put { key, value, expect }),
        4 => (0..6u8, guess).prop_map(|(key, expect)| Op::Delete { key, expect }),
        1 => (0..20u8).prop_map(|back| Op::Compact { back }),
        1 => Just(Op::Reopen),
    ]
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn memory_behaves_as_the_model(ops in prop::collection::vec(op(), 1..80)) {
        block_on(run(ops, None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn embedded_behaves_as_the_model_across_restarts(ops in prop::collection::vec(op(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        block_on(run(ops, Some(dir.path())));
    }
}
