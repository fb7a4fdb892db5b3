//! Packed values in the store file: they come back, files from before they were are read and taken further,
//! and a pattern lives no longer than what is packed by it.

use std::path::Path;

use karmada_store::{
    Embedded, Error, Expect, KeyValue, Patterns, RangeQuery, STORE_FILE, Snapshot, Store,
};

fn text(number: usize) -> String {
    let fields: String = (0..60).map(|n| format!("\"f:{:x}\":{{}},", n * 7919)).collect();
    format!("{{\"kind\":\"Thing\",{fields}\"name\":\"{number}\"}}")
}

async fn all(store: &Embedded) -> Vec<KeyValue> {
    store.range(RangeQuery::prefix("/")).await.unwrap().items
}

fn ask<T: rusqlite::types::FromSql>(dir: &Path, sql: &str) -> T {
    let conn = rusqlite::Connection::open(dir.join(STORE_FILE)).unwrap();
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn alter(dir: &Path, sql: &str) {
    let conn = rusqlite::Connection::open(dir.join(STORE_FILE)).unwrap();
    conn.execute_batch(sql).unwrap();
}

async fn filled(dir: &Path) -> Vec<KeyValue> {
    let (store, patterns) = (Embedded::open(dir).unwrap(), Patterns::default());
    for number in 0..20 {
        let value = patterns.pack(text(number).as_bytes());
        store.put(&format!("/things/{number}"), value, Expect::Any).await.unwrap();
    }
    store.put("/other", "as it is".into(), Expect::Any).await.unwrap();
    all(&store).await
}

#[tokio::test]
async fn packed_values_come_back_and_are_small_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path()).await;
    let weight: i64 = ask(dir.path(), "SELECT sum(length(value)) FROM log");
    assert!(weight * 5 < 20 * text(0).len() as i64, "{weight}");
    let store = Embedded::open(dir.path()).unwrap();
    assert_eq!(all(&store).await, before);
    let seven = store.get("/things/7", None).await.unwrap().unwrap();
    assert_eq!(seven.value.to_bytes(), text(7));
    assert!(seven.value.weight() < seven.value.len());
}

#[tokio::test]
async fn a_backup_holds_texts_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path()).await;
    let store = Embedded::open(dir.path()).unwrap();
    let backup = dir.path().join("backup");
    Snapshot::of(&store).await.unwrap().write(&backup).unwrap();
    let conn = rusqlite::Connection::open(&backup).unwrap();
    let packed: i64 = conn
        .query_row("SELECT count(*) FROM log WHERE pattern IS NOT NULL", [], |row| row.get(0))
        .unwrap();
    assert_eq!(packed, 0);
    assert_eq!(Snapshot::read(&backup).unwrap().items, before);
}

#[tokio::test]
async fn a_file_from_before_values_were_packed_is_read_and_taken_further() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path()).unwrap();
    store.put("/things/1", text(1).into(), Expect::Any).await.unwrap();
    let before = all(&store).await;
    drop(store);
    let older =
        "ALTER TABLE log DROP COLUMN pattern; DROP TABLE patterns; PRAGMA user_version = 1;";
    alter(dir.path(), older);
    assert_eq!(Snapshot::read(&dir.path().join(STORE_FILE)).unwrap().items, before);
    assert_eq!(ask::<i64>(dir.path(), "PRAGMA user_version"), 1, "reading changes nothing");
    let store = Embedded::open(dir.path()).unwrap();
    assert_eq!(all(&store).await, before);
    let packed = Patterns::default().pack(text(2).as_bytes());
    store.put("/things/2", packed, Expect::Any).await.unwrap();
    let now = all(&store).await;
    drop(store);
    let store = Embedded::open(dir.path()).unwrap();
    assert_eq!(all(&store).await, now);
}

#[tokio::test]
async fn a_pattern_goes_with_the_last_value_packed_by_it() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path()).await;
    let patterns = "SELECT count(*) FROM patterns";
    let store = Embedded::open(dir.path()).unwrap();
    for number in 0..20 {
        store.delete(&format!("/things/{number}"), Expect::Any).await.unwrap();
    }
    drop(store);
    let store = Embedded::open(dir.path()).unwrap();
    assert_eq!(ask::<i64>(dir.path(), patterns), 1, "history is packed by it");
    store.compact(store.revision()).await.unwrap();
    drop(store);
    let store = Embedded::open(dir.path()).unwrap();
    assert_eq!(ask::<i64>(dir.path(), patterns), 0);
    let packed = Patterns::default().pack(text(3).as_bytes());
    store.put("/things/3", packed, Expect::Any).await.unwrap();
    drop(store);
    let store = Embedded::open(dir.path()).unwrap();
    assert_eq!(store.get("/things/3", None).await.unwrap().unwrap().value.to_bytes(), text(3));
}

#[tokio::test]
async fn a_pattern_that_is_missing_or_altered_is_damage() {
    for harm in ["DELETE FROM patterns", "UPDATE patterns SET text = zeroblob(length(text))"] {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path()).await;
        alter(dir.path(), harm);
        let error = Embedded::open(dir.path()).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{harm}: {error:?}");
        assert!(error.to_string().contains("the pattern"), "{error}");
    }
}
