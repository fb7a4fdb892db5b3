//! What only a store of several servers has to promise: watches and acknowledged writes outlive
//! the servers, and what cannot be known is not claimed.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use futures::StreamExt;
use karmada_store::{Error, Etcd, EtcdOptions, Expect, RangeQuery, Store, TlsFiles, Update};

use crate::servers::Servers;

/// Writes again and again until the write is acknowledged, as a client would.
async fn put(store: &Etcd, key: &str, value: &str) -> i64 {
    loop {
        match store.put(key, value.to_owned().into(), Expect::Any).await {
            Ok(kv) => return kv.mod_revision,
            Err(Error::Unavailable { .. } | Error::Ambiguous { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_watch_goes_on_while_servers_come_and_go() {
    let Some(mut servers) = Servers::start(3) else { return };
    let store = Arc::new(servers.store("/w").await);
    let mut updates = store.watch("/", store.revision()).await.unwrap();
    let mut written = Vec::new();
    for place in 0..3 {
        written.push(put(&store, "/a", "before").await);
        servers.kill(place);
        written.push(put(&store, "/a", "while it is away").await);
        servers.start_again(place);
        written.push(put(&store, "/a", "after").await);
    }
    let last = *written.last().unwrap();
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        if let Update::Event(event) = updates.next().await.unwrap().unwrap() {
            seen.push(event.revision());
        }
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert!(written.iter().all(|revision| seen.contains(revision)), "{written:?} {seen:?}");
    let revisions: Vec<i64> = (seen[0]..=last).collect();
    assert_eq!(seen, revisions, "nothing was left out");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_not_claimed_to_have_written_or_not() {
    let Some(servers) = Servers::start(1) else { return };
    let store = servers.store("/s").await;
    put(&store, "/a", "1").await;
    servers.freeze(0);
    let write = store.put("/a", "2".into(), Expect::Any);
    let (written, read) = tokio::join!(write, store.get("/a", None));
    assert!(matches!(written, Err(Error::Ambiguous { .. })), "{written:?}");
    assert!(matches!(read, Err(Error::Unavailable { .. })), "{read:?}");
    assert!(store.health().is_err());
    servers.go_on(0);
    put(&store, "/a", "3").await;
    // The write nobody can tell of may be carried out even now, after the one that was acknowledged.
    let value = store.get("/a", None).await.unwrap().unwrap().value;
    assert!(value == "3" || value == "2", "{value:?}");
    assert!(store.health().is_ok());
}

#[tokio::test]
async fn a_server_that_is_not_there_has_done_nothing() {
    let Some(mut servers) = Servers::start(1) else { return };
    let store = servers.store("/s").await;
    put(&store, "/a", "1").await;
    let mut updates = store.watch("/", store.revision()).await.unwrap();
    servers.kill(0);
    let refused = store.put("/a", "2".into(), Expect::Any).await.unwrap_err();
    let unsure = matches!(refused, Error::Unavailable { .. } | Error::Ambiguous { .. });
    assert!(unsure, "{refused:?}");
    let refused = store.put("/a", "2".into(), Expect::Any).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    servers.start_again(0);
    let written = put(&store, "/a", "3").await;
    // An attempt before the one that was acknowledged may have been made after all.
    loop {
        let Update::Event(event) = updates.next().await.unwrap().unwrap() else { continue };
        assert_eq!(event.kv.value, "3");
        if event.revision() == written {
            return;
        }
    }
}

#[tokio::test]
async fn history_another_process_has_compacted_is_known_to_be_gone() {
    let Some(servers) = Servers::start(1) else { return };
    let (one, other) = (servers.store("/c").await, servers.store("/c").await);
    for value in ["1", "2", "3"] {
        put(&one, "/a", value).await;
    }
    one.compact(3).await.unwrap();
    let gone = other.range(RangeQuery::prefix("/").at(2)).await.unwrap_err();
    assert!(matches!(gone, Error::Compacted { requested: 2, compacted: 3 }), "{gone:?}");
    assert_eq!(other.compacted_revision(), 3);
    let third = servers.store("/c").await;
    assert_eq!(third.compacted_revision(), 3, "one that comes later knows it at once");
    assert!(third.watch("/", 2).await.err().unwrap().is_compacted());
    one.compact(4).await.unwrap();
    let ignorant = other.watch("/", 3).await;
    let refused = match ignorant {
        Err(error) => error,
        Ok(mut updates) => match updates.next().await.unwrap() {
            // etcd still has the one change that follows.
            Ok(Update::Event(event)) => {
                assert_eq!(event.revision(), 4);
                return;
            }
            Ok(update) => panic!("{update:?}"),
            Err(error) => error,
        },
    };
    assert!(refused.is_compacted(), "{refused:?}");
}

#[tokio::test]
async fn stores_under_other_prefixes_are_not_seen() {
    let Some(servers) = Servers::start(1) else { return };
    let (one, other) = (servers.store("/one").await, servers.store("/one-more").await);
    let mut updates = one.watch("", one.revision()).await.unwrap();
    put(&other, "/a", "theirs").await;
    let ours = put(&one, "/b", "ours").await;
    let update = updates.next().await.unwrap().unwrap();
    assert!(matches!(update, Update::Event(event) if event.revision() == ours));
    assert_eq!(one.range(RangeQuery::prefix("")).await.unwrap().count, 1);
    put(&other, "/a", "again").await;
    let current = one.current().await.unwrap();
    assert_eq!(current, ours + 1, "revisions are those of the whole cluster");
    one.request_progress();
    assert_eq!(updates.next().await.unwrap().unwrap(), Update::Progress(current));
}

fn openssl(folder: &Path, line: &str) {
    let output = Command::new("openssl").args(line.split(' ')).current_dir(folder).output();
    let output = output.expect("run openssl");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn servers_and_clients_prove_themselves_by_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{middle}.{low}", 64 + (high & 0x3F));
    let config = format!(
        "[req]\ndistinguished_name = name\n[name]\n[ca]\nbasicConstraints = critical,CA:TRUE\n\
         [leaf]\nbasicConstraints = CA:FALSE\nsubjectAltName = IP:{address}\n"
    );
    std::fs::write(folder.path().join("openssl.cnf"), config).unwrap();
    let made =
        "req -x509 -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        folder.path(),
        &format!("{made} -keyout ca.key -out ca.crt -subj /CN=ca -extensions ca"),
    );
    let signed = format!("{made} -CA ca.crt -CAkey ca.key -extensions leaf");
    openssl(folder.path(), &format!("{signed} -keyout a.key -out a.crt -subj /CN=etcd"));
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let flags = [
        format!("--cert-file={}", file("a.crt")),
        format!("--key-file={}", file("a.key")),
        format!("--trusted-ca-file={}", file("ca.crt")),
        "--client-cert-auth".to_owned(),
    ];
    let Some(servers) = Servers::start_with(1, &flags) else { return };
    let tls = TlsFiles {
        ca: Some(file("ca.crt").into()),
        certificate: Some(file("a.crt").into()),
        key: Some(file("a.key").into()),
    };
    let store = servers.store_with("/t", tls.clone()).await;
    put(&store, "/a", "1").await;
    let missing = TlsFiles { key: Some(file("none").into()), ..tls };
    let options = EtcdOptions { servers: servers.addresses(), tls: missing, ..Default::default() };
    let refused = Etcd::open(&options).await.unwrap_err();
    assert!(refused.to_string().contains("none"), "{refused}");
}
