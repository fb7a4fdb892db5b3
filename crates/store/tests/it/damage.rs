//! A disk that is full, a directory that cannot be written, a file that was damaged, a second
//! process: a clear error, reads go on, nothing acknowledged is lost.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use karmada_store::{
    DirLock, Embedded, Error, Expect, LOCK_FILE, Options, RangeQuery, STORE_FILE, Store,
};

async fn fill(store: &Embedded, keys: usize) {
    for number in 0..keys {
        let value = vec![b'x'; 200];
        store.put(&format!("/k/{number:04}"), value.into(), Expect::Any).await.unwrap();
    }
}

// Shows: META-3
#[tokio::test]
async fn history_and_revision_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path()).unwrap();
    fill(&store, 10).await;
    store.delete("/k/0003", Expect::Any).await.unwrap();
    store.compact(5).await.unwrap();
    let before = store.range(RangeQuery::prefix("/")).await.unwrap();
    drop(store);
    let store = Embedded::open(dir.path()).unwrap();
    assert_eq!(store.range(RangeQuery::prefix("/")).await.unwrap(), before);
    assert_eq!((store.compacted_revision(), store.revision()), (5, 12));
    assert!(store.get("/k/0003", Some(11)).await.unwrap().is_some());
    let next = store.put("/k", "1".into(), Expect::Absent).await.unwrap();
    assert_eq!(next.mod_revision, 13, "a revision is never given out twice");
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_space_is_freed() {
    let dir = tempfile::tempdir().unwrap();
    // Two pages are left when no more of the values fit.
    let options = Options { max_bytes: Some((1 << 20) + 8192) };
    let store = Embedded::open_with(dir.path(), options.clone()).unwrap();
    let mut stored = 0;
    let refused = loop {
        let value = vec![b'x'; 20_000];
        match store.put(&format!("/big/{stored:03}"), value.into(), Expect::Absent).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "the bound has no effect");
    };
    assert!(matches!(refused, Error::Full { .. }), "{refused:?}");
    assert!(refused.to_string().contains("no space left"), "{refused}");
    assert!(store.health().is_err());
    let (revision, items) = (store.revision(), RangeQuery::prefix("/big/"));
    assert_eq!(store.range(items.clone()).await.unwrap().count, stored, "reads go on");
    // Deleting needs a little space of its own, which small writes still find.
    for number in 0..stored {
        store.delete(&format!("/big/{number:03}"), Expect::Any).await.unwrap();
    }
    store.compact(store.revision()).await.unwrap();
    let value = vec![b'y'; 20_000];
    store.put("/big/new", value.into(), Expect::Absent).await.unwrap();
    assert!(store.health().is_ok());
    assert!(store.revision() > revision);
    drop(store);
    let store = Embedded::open_with(dir.path(), options).unwrap();
    assert_eq!(store.range(items).await.unwrap().count, 1);
}

#[tokio::test]
async fn compaction_gives_space_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path()).unwrap();
    for _ in 0..3_000 {
        store.put("/one", vec![b'x'; 8_000].into(), Expect::Any).await.unwrap();
    }
    store.compact(store.revision()).await.unwrap();
    drop(store);
    let size = fs::metadata(dir.path().join(STORE_FILE)).unwrap().len();
    // 24 MB were written; what stays is one value and the slack below which shrinking rests.
    assert!(size < 6 << 20, "{size} bytes");
}

#[tokio::test]
async fn damage_is_named_and_left_as_it_is() {
    let overwrite = |path: &Path, at: u64, bytes: &[u8]| {
        let mut file = OpenOptions::new().write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
    };
    type Harm<'a> = &'a dyn Fn(&Path);
    let flip_value = |path: &Path| {
        let content = fs::read(path).unwrap();
        // Pages that were split keep old bytes nobody reads; the last page was never split.
        let at = content.windows(100).rposition(|window| window == [b'x'; 100]).unwrap();
        overwrite(path, at as u64 + 50, b"X");
    };
    let cases: [(&str, Harm<'_>); 4] = [
        ("header", &|path| overwrite(path, 0, b"no database here")),
        ("emptied", &|path| fs::write(path, "").unwrap()),
        ("cut off", &|path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(8192).unwrap();
        }),
        ("one byte of a value", &flip_value),
    ];
    for (name, harm) in cases {
        let dir = tempfile::tempdir().unwrap();
        let store = Embedded::open(dir.path()).unwrap();
        fill(&store, 100).await;
        drop(store);
        let path = dir.path().join(STORE_FILE);
        harm(&path);
        let harmed = fs::read(&path).unwrap();
        let error = Embedded::open(dir.path()).expect_err(name);
        assert!(matches!(error, Error::Damaged { .. }), "{name}: {error:?}");
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{name}: {error}");
        assert_eq!(fs::read(&path).unwrap(), harmed, "{name}: the file was changed");
    }
}

#[tokio::test]
async fn a_file_of_a_later_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(Embedded::open(dir.path()).unwrap());
    let conn = rusqlite::Connection::open(dir.path().join(STORE_FILE)).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    let error = Embedded::open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::Format { found: 99, .. }), "{error:?}");
}

#[test]
fn a_second_holder_is_told_who_the_first_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path()).unwrap();
    let error = Embedded::open(dir.path()).unwrap_err();
    let wanted = format!("is in use by process {} (", std::process::id());
    assert!(error.to_string().contains(&wanted), "{error}");
    drop(store);
    let lock = DirLock::acquire(dir.path()).unwrap();
    assert_eq!(lock.path(), dir.path().join(LOCK_FILE));
}

const CHILD_DIR: &str = "STORE_READ_ONLY_DIR";

/// Runs as a user without rights. Without the variable this test does nothing.
#[tokio::test]
async fn child_that_meets_a_read_only_directory() {
    let Ok(dir) = std::env::var(CHILD_DIR) else { return };
    let error = Embedded::open(dir).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
    println!("refused: {error}");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("data");
    fs::create_dir(&dir).unwrap();
    for path in [outer.path(), &dir] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "damage::child_that_meets_a_read_only_directory", "--nocapture"]);
    child.env(CHILD_DIR, &dir);
    // Root may write everywhere, so it becomes nobody first.
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        child.uid(65534).gid(65534);
    }
    let out = match child.output() {
        Ok(out) => out,
        Err(error) => return println!("SKIPPED: the test cannot be run by another user: {error}"),
    };
    let text = String::from_utf8_lossy(&out.stdout);
    let wanted = format!("refused: the store in {} cannot be written", dir.display());
    assert!(text.contains(&wanted), "{text}");
}
