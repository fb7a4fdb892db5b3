//! Backups and moves: what was taken at one revision is found again, wherever it is put.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use karmada_store::{
    Applied, Embedded, Error, Expect, Memory, RangeQuery, Snapshot, Store, raise_revision,
};

async fn filled() -> Memory {
    let store = Memory::new();
    for number in 0..20 {
        store.put(&format!("/k/{number:02}"), "old".into(), Expect::Any).await.unwrap();
    }
    for number in 0..5 {
        store.put(&format!("/k/{number:02}"), "new".into(), Expect::Any).await.unwrap();
        store.delete(&format!("/k/1{number}"), Expect::Any).await.unwrap();
    }
    store
}

async fn content(store: &dyn Store) -> Vec<(String, bytes::Bytes)> {
    let all = store.range(RangeQuery::prefix("")).await.unwrap().items;
    all.into_iter().map(|kv| (kv.key.to_string(), kv.value.to_bytes())).collect()
}

#[tokio::test]
async fn a_backup_is_a_private_file_that_holds_everything() {
    let (store, dir) = (filled().await, tempfile::tempdir().unwrap());
    let file = dir.path().join("backup");
    let snapshot = Snapshot::of(&store).await.unwrap();
    snapshot.write(&file).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    assert_eq!(Snapshot::read(&file).unwrap(), snapshot);
    // Once more: the older one is replaced.
    snapshot.write(&file).unwrap();
    let made = dir.path().join("store");
    snapshot.make_store(&made, snapshot.revision + 1000).unwrap();
    let restored = Embedded::open(&made).unwrap();
    assert_eq!(content(&restored).await, content(&store).await);
    assert_eq!(restored.revision(), snapshot.revision + 1000);
    let written = restored.put("/k/00", "newer".into(), Expect::Any).await.unwrap();
    assert_eq!(written.mod_revision, snapshot.revision + 1001);
    assert_eq!(written.version, 3, "what was known of the key is still known");
    let gone = restored.watch("/", snapshot.revision).await.err().unwrap();
    assert!(gone.is_compacted(), "whoever watched before has to list again");
    drop(restored);
    assert_eq!(Embedded::open(&made).unwrap().revision(), snapshot.revision + 1001);
}

#[tokio::test]
async fn an_altered_backup_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("backup");
    Snapshot::of(&filled().await).await.unwrap().write(&file).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let place = bytes.windows(3).position(|window| window == b"new").unwrap();
    bytes[place] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let refused = Snapshot::read(&file).unwrap_err();
    assert!(matches!(refused, Error::Damaged { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_store_in_use_is_brought_back_by_ordinary_writes() {
    let store = filled().await;
    let mut snapshot = Snapshot::of(&store).await.unwrap();
    snapshot.add("/secret", "theirs".into());
    let before = content(&store).await;
    store.put("/k/00", "changed".into(), Expect::Any).await.unwrap();
    store.put("/later", "x".into(), Expect::Any).await.unwrap();
    store.put("/secret", "ours".into(), Expect::Any).await.unwrap();
    store.delete("/k/01", Expect::Any).await.unwrap();
    let revision = store.revision();
    let applied = snapshot.apply(&store, &["/secret"]).await.unwrap();
    assert_eq!(applied, Applied { written: 2, deleted: 1 });
    assert_eq!(store.revision(), revision + 3, "versions only go up");
    let secret = store.delete("/secret", Expect::Any).await.unwrap();
    assert_eq!(secret.prev.as_ref().unwrap().value, "ours");
    assert_eq!(content(&store).await, before);
    snapshot.take("/secret");
    assert_eq!(snapshot.apply(&store, &[]).await.unwrap(), Applied::default());
}

#[tokio::test]
async fn a_backup_is_of_one_revision_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::open(dir.path()).unwrap());
    let writing = store.clone();
    // Both keys are always written one after the other, so they differ by one at most.
    let writer = tokio::spawn(async move {
        for number in 0..300 {
            for key in ["/a", "/b"] {
                writing.put(key, number.to_string().into(), Expect::Any).await.unwrap();
            }
        }
    });
    for _ in 0..20 {
        let snapshot = Snapshot::of(&*store).await.unwrap();
        let number = |place: usize| -> i64 {
            let item = snapshot.items.get(place);
            item.map_or(-1, |kv| String::from_utf8_lossy(&kv.value.to_bytes()).parse().unwrap())
        };
        assert!((0..=1).contains(&(number(0) - number(1))), "{snapshot:?}");
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn versions_read_before_a_move_are_not_given_out_again() {
    let store = filled().await;
    let count = content(&store).await;
    for wanted in [store.revision() - 1, store.revision() + 1, store.revision() + 500] {
        raise_revision(&store, "/revision", wanted).await.unwrap();
        assert!(store.revision() >= wanted, "{} {wanted}", store.revision());
        assert!(store.revision() <= wanted + 2, "{} {wanted}", store.revision());
    }
    assert_eq!(content(&store).await, count);
}
