//! Values at rest: unreadable without the key, readable with it through every door, and written
//! anew when keys change.

use std::sync::Arc;

use futures::StreamExt as _;
use karmada_store::encryption::{Encrypted, NamedKey, Provider, Rule};
use karmada_store::{Error, Expect, Memory, RangeQuery, Store, Update};

const SECRET: &str = "/registry/secrets/default/a";
const PLAIN: &str = "the word is swordfish";

fn key(name: &str, length: usize) -> NamedKey {
    let secret = name.bytes().cycle().take(length).collect();
    NamedKey::new(name, secret).unwrap()
}

fn rules(providers: Vec<Provider>) -> Vec<Rule> {
    vec![Rule { prefixes: vec!["/registry/secrets/".to_owned()], providers }]
}

async fn raw(memory: &Memory) -> Vec<u8> {
    memory.get(SECRET, None).await.unwrap().unwrap().value.to_bytes().to_vec()
}

async fn read(store: &dyn Store) -> String {
    let kv = store.get(SECRET, None).await.unwrap().unwrap();
    String::from_utf8_lossy(&kv.value.to_bytes()).into_owned()
}

fn contains(stored: &[u8], text: &str) -> bool {
    stored.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn values_are_read_by_every_door_and_never_stored_as_they_are() {
    let made: [fn() -> (Provider, &'static str); 7] = [
        || (Provider::AesGcm(vec![key("one", 32)]), "k8s:enc:aesgcm:v1:one:"),
        || (Provider::AesGcm(vec![key("one", 24)]), "k8s:enc:aesgcm:v1:one:"),
        || (Provider::AesGcm(vec![key("one", 16)]), "k8s:enc:aesgcm:v1:one:"),
        || (Provider::AesCbc(vec![key("one", 32)]), "k8s:enc:aescbc:v1:one:"),
        || (Provider::AesCbc(vec![key("one", 24)]), "k8s:enc:aescbc:v1:one:"),
        || (Provider::AesCbc(vec![key("one", 16)]), "k8s:enc:aescbc:v1:one:"),
        || (Provider::SecretBox(vec![key("one", 32)]), "k8s:enc:secretbox:v1:one:"),
    ];
    for make in made {
        let (provider, mark) = make();
        let memory = Memory::new();
        let store = Encrypted::new(Arc::new(memory.clone()), rules(vec![provider]));
        let mut updates = store.watch("/", store.revision()).await.unwrap();
        let stored = store.put(SECRET, PLAIN.into(), Expect::Absent).await.unwrap();
        assert_eq!(stored.value, PLAIN);
        assert!(raw(&memory).await.starts_with(mark.as_bytes()));
        assert!(!contains(&raw(&memory).await, "swordfish"));
        assert_eq!(read(&store).await, PLAIN);
        let all = store.range(RangeQuery::prefix("/")).await.unwrap();
        assert_eq!(all.items[0].value, PLAIN);
        let conflict = store.put(SECRET, "x".into(), Expect::Absent).await.unwrap_err();
        let Error::Conflict { current: Some(current) } = conflict else { panic!("{conflict:?}") };
        assert_eq!(current.value, PLAIN);
        let deleted = store.delete(SECRET, Expect::Any).await.unwrap();
        assert_eq!(deleted.prev.as_ref().unwrap().value, PLAIN);
        for _ in 0..2 {
            let Update::Event(event) = updates.next().await.unwrap().unwrap() else { panic!() };
            let shown = event.prev.as_ref().unwrap_or(&event.kv);
            assert_eq!(shown.value, PLAIN);
        }
        store.put("/registry/configmaps/a", PLAIN.into(), Expect::Any).await.unwrap();
        let other = memory.get("/registry/configmaps/a", None).await.unwrap().unwrap();
        assert_eq!(other.value, PLAIN, "no rule, no cipher");
    }
}

#[tokio::test]
async fn a_value_moved_to_another_place_is_not_read_there() {
    let memory = Memory::new();
    let providers = vec![Provider::AesGcm(vec![key("one", 32)])];
    let store = Encrypted::new(Arc::new(memory.clone()), rules(providers));
    store.put(SECRET, PLAIN.into(), Expect::Any).await.unwrap();
    let elsewhere = "/registry/secrets/other/a";
    memory.put(elsewhere, raw(&memory).await.into(), Expect::Any).await.unwrap();
    let found = store.get(elsewhere, None).await.unwrap().unwrap();
    assert!(!contains(&found.value.to_bytes(), "swordfish"));
    assert!(found.value.to_bytes().starts_with(b"k8s:enc:"), "it is shown as what it is");
}

#[tokio::test]
async fn keys_are_changed_one_after_the_other() {
    let memory = Memory::new();
    memory.put(SECRET, PLAIN.into(), Expect::Any).await.unwrap();
    let with = |providers| Encrypted::new(Arc::new(memory.clone()), rules(providers));
    let steps: [(Vec<Provider>, &str, usize); 5] = [
        (
            vec![Provider::AesCbc(vec![key("old", 32)]), Provider::Identity],
            "k8s:enc:aescbc:v1:old:",
            1,
        ),
        (vec![Provider::AesCbc(vec![key("new", 32), key("old", 32)])], "k8s:enc:aescbc:v1:new:", 1),
        (
            vec![Provider::AesGcm(vec![key("new", 32)]), Provider::AesCbc(vec![key("new", 32)])],
            "k8s:enc:aesgcm:v1:new:",
            1,
        ),
        (
            vec![Provider::SecretBox(vec![key("new", 32)]), Provider::AesGcm(vec![key("new", 32)])],
            "k8s:enc:secretbox:v1:new:",
            1,
        ),
        (vec![Provider::Identity, Provider::SecretBox(vec![key("new", 32)])], PLAIN, 1),
    ];
    for (providers, mark, renewed) in steps {
        let store = with(providers);
        assert_eq!(read(&store).await, PLAIN);
        assert_eq!(store.renew().await.unwrap(), renewed);
        assert!(raw(&memory).await.starts_with(mark.as_bytes()), "{mark}");
        assert_eq!(read(&store).await, PLAIN);
        assert_eq!(store.renew().await.unwrap(), 0, "a second time there is nothing to do");
    }
    let strict = with(vec![Provider::AesGcm(vec![key("new", 32)])]);
    assert_eq!(strict.renew().await.unwrap(), 0, "plain values are not accepted without identity");
    for length in [0, 15, 33] {
        assert!(NamedKey::new("short", vec![0; length]).is_err());
    }
}
