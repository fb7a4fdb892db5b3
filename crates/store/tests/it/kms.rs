//! Values whose keys a plugin guards: the format of Kubernetes, new keys, and a plugin that is away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use futures::StreamExt as _;
use karmada_store::encryption::{Encrypted, Kms, KmsOptions, NamedKey, Pace, Provider, Rule};
use karmada_store::{Error, Expect, Memory, RangeQuery, Store, Update};

use crate::kms_plugin::{KmsPlugin, Mood, field, fields};

const SECRET: &str = "/registry/secrets/default/a";
const PLAIN: &str = "the word is swordfish";
const MARK: &[u8] = b"k8s:enc:kms:v2:guard:";

/// Everything a test has: a directory for the socket, the plugin, and what is stored.
struct Bed {
    _dir: tempfile::TempDir,
    plugin: KmsPlugin,
    memory: Memory,
    pace: Pace,
}

impl Bed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let plugin = KmsPlugin::start(dir.path().join("kms.sock"));
        let moment = Duration::from_millis(20);
        let pace = Pace { healthy: moment, failing: moment, lifetime: Duration::from_secs(60) };
        Self { _dir: dir, plugin, memory: Memory::new(), pace }
    }

    fn provider(&self) -> Provider {
        let options = KmsOptions {
            name: "guard".to_owned(),
            endpoint: self.plugin.endpoint.clone(),
            timeout: Duration::from_millis(500),
            pace: self.pace.clone(),
        };
        Provider::Kms(Kms::new(options).unwrap())
    }

    fn with(&self, providers: Vec<Provider>) -> Encrypted {
        let prefixes = vec!["/registry/secrets/".to_owned()];
        Encrypted::new(Arc::new(self.memory.clone()), vec![Rule { prefixes, providers }])
    }

    async fn start(&self) -> Encrypted {
        let store = self.with(vec![self.provider()]);
        store.prepare(Duration::ZERO).await.unwrap();
        store
    }

    /// What is stored behind the mark.
    async fn raw(&self) -> Vec<u8> {
        let raw = self.memory.get(SECRET, None).await.unwrap().unwrap().value.to_bytes();
        raw.strip_prefix(MARK).unwrap().to_vec()
    }

    async fn key_id(&self) -> String {
        String::from_utf8(fields(&self.raw().await)[&2][0].clone()).unwrap()
    }
}

async fn read(store: &dyn Store) -> String {
    let kv = store.get(SECRET, None).await.unwrap().unwrap();
    String::from_utf8_lossy(&kv.value.to_bytes()).into_owned()
}

async fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn check(store: &dyn Store) -> Result<(), String> {
    let [(name, health)] = &store.checks()[..] else { panic!("one check for all plugins") };
    assert_eq!(*name, "kms-providers");
    health.clone().map_err(|error| error.to_string())
}

#[tokio::test]
async fn values_are_read_by_every_door_and_the_plugin_is_asked_once() {
    let bed = Bed::new();
    let store = bed.start().await;
    let mut updates = store.watch("/", store.revision()).await.unwrap();
    for name in ["a", "b", "c"] {
        let key = format!("/registry/secrets/default/{name}");
        store.put(&key, PLAIN.into(), Expect::Absent).await.unwrap();
    }
    assert!(!bed.raw().await.windows(9).any(|window| window == b"swordfish"));
    let again = bed.start().await;
    for store in [&store, &again] {
        assert_eq!(read(store).await, PLAIN);
        let all = store.range(RangeQuery::prefix("/")).await.unwrap();
        assert!(all.items.iter().all(|kv| kv.value == PLAIN));
    }
    let conflict = store.put(SECRET, "x".into(), Expect::Absent).await.unwrap_err();
    let Error::Conflict { current: Some(current) } = conflict else { panic!("{conflict:?}") };
    assert_eq!(current.value, PLAIN);
    let deleted = store.delete(SECRET, Expect::Any).await.unwrap();
    assert_eq!(deleted.prev.as_ref().unwrap().value, PLAIN);
    for _ in 0..4 {
        let Update::Event(event) = updates.next().await.unwrap().unwrap() else { panic!() };
        assert_eq!(event.prev.as_ref().unwrap_or(&event.kv).value, PLAIN);
    }
    let mood = bed.plugin.mood();
    assert_eq!((mood.encrypted, mood.decrypted), (2, 1), "a seed per start, read by the other");
}

/// Fields, derivation and authenticated data as the definition of Kubernetes' `EncryptedObject` has them.
#[tokio::test]
async fn the_stored_form_is_the_documented_one() {
    let bed = Bed::new();
    let store = bed.start().await;
    store.put(SECRET, PLAIN.into(), Expect::Absent).await.unwrap();
    let object = fields(&bed.raw().await);
    assert_eq!(object[&2], [b"key-1"]);
    assert_eq!(object[&5], [[1]], "keys are derived from a seed");
    let note = fields(&object[&4][0]);
    assert_eq!(note[&1], [b"note.kms.example.com"]);
    assert_eq!(note[&2], [b"bring this back"]);
    let seed: Vec<u8> =
        object[&3][0].iter().zip(b"key-1".iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    assert_eq!(seed.len(), 32);
    let data = &object[&1][0];
    let prk = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &seed);
    let key = UnboundKey::from(prk.expand(&[&data[..32]], &AES_256_GCM).unwrap());
    let nonce = Nonce::try_assume_unique_for_key(&data[32..44]).unwrap();
    let mut text = data[44..].to_vec();
    let opened = LessSafeKey::new(key).open_in_place(nonce, Aad::from(SECRET), &mut text);
    assert_eq!(opened.unwrap(), PLAIN.as_bytes());
}

#[tokio::test]
async fn what_kubernetes_wrote_before_seeds_is_read_and_written_anew() {
    let bed = Bed::new();
    for length in [16, 32] {
        let key: Vec<u8> = (0..length).collect();
        let cipher = NamedKey::new("k", key.clone()).unwrap();
        let elsewhere = bed.with(vec![Provider::AesGcm(vec![cipher])]);
        elsewhere.put(SECRET, PLAIN.into(), Expect::Any).await.unwrap();
        let sealed = bed.memory.get(SECRET, None).await.unwrap().unwrap().value.to_bytes();
        let sealed = sealed.strip_prefix(b"k8s:enc:aesgcm:v1:k:").unwrap();
        let source: Vec<u8> =
            key.iter().zip(b"key-0".iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        let note = [field(1, b"note.kms.example.com"), field(2, b"bring this back")].concat();
        let stored =
            [MARK, &field(1, sealed), &field(2, b"key-0"), &field(3, &source), &field(4, &note)];
        bed.memory.put(SECRET, stored.concat().into(), Expect::Any).await.unwrap();
        let store = bed.start().await;
        assert_eq!(read(&store).await, PLAIN);
        assert_eq!(store.renew().await.unwrap(), 1);
        assert_eq!(fields(&bed.raw().await)[&5], [[1]]);
        assert_eq!(read(&store).await, PLAIN);
        assert_eq!(store.renew().await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_new_key_is_written_with_once_the_plugin_tells_of_it() {
    let bed = Bed::new();
    let store = bed.start().await;
    store.put(SECRET, PLAIN.into(), Expect::Any).await.unwrap();
    assert_eq!(bed.key_id().await, "key-1");
    assert_eq!(store.renew().await.unwrap(), 0);
    // A plugin that has not made up its mind is not followed.
    {
        let mut mood = bed.plugin.mood();
        mood.key_id = "key-2".to_owned();
        mood.secret_key = Some("key-1".to_owned());
    }
    eventually("the difference is told", || {
        check(&store).is_err_and(|why| why.contains("\"key-2\"") && why.contains("\"key-1\""))
    })
    .await;
    store.put(SECRET, PLAIN.into(), Expect::Any).await.unwrap();
    assert_eq!(bed.key_id().await, "key-1");
    bed.plugin.mood().secret_key = None;
    eventually("the plugin is well again", || check(&store).is_ok()).await;
    assert_eq!(read(&store).await, PLAIN, "old values are read");
    assert_eq!(store.renew().await.unwrap(), 1);
    assert_eq!(bed.key_id().await, "key-2");
    assert_eq!(read(&store).await, PLAIN);
    assert_eq!(store.renew().await.unwrap(), 0);
}

#[tokio::test]
async fn a_plugin_may_die_and_come_back() {
    let mut bed = Bed::new();
    bed.pace.lifetime = Duration::from_millis(60);
    let store = bed.start().await;
    store.put(SECRET, PLAIN.into(), Expect::Any).await.unwrap();
    let other = bed.start().await;
    let theirs = "/registry/secrets/default/b";
    other.put(theirs, PLAIN.into(), Expect::Any).await.unwrap();
    bed.plugin.die();
    eventually("its absence is told", || {
        check(&store).is_err_and(|why| {
            why.contains("\"guard\"") && why.contains(&format!("{} ", bed.plugin.endpoint))
        })
    })
    .await;
    // What was written for a while after the plugin was heard of last is read like the rest.
    tokio::time::sleep(bed.pace.lifetime).await;
    let refused = store.put(SECRET, "lost".into(), Expect::Any).await.unwrap_err();
    let Error::KeyService { provider, endpoint, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!((provider.as_str(), endpoint), ("guard", &bed.plugin.endpoint));
    assert!(refused.to_string().contains("No such file"), "{refused}");
    assert_eq!(read(&store).await, PLAIN, "what is known is read");
    let unknown = store.get(theirs, None).await.unwrap_err();
    assert!(matches!(unknown, Error::KeyService { .. }), "{unknown:?}");
    let all = store.range(RangeQuery::prefix("/")).await;
    assert!(all.is_err(), "a part of the objects is not taken for all");
    let mut updates = store.watch("/", store.compacted_revision()).await.unwrap();
    assert!(updates.next().await.unwrap().is_ok());
    assert!(updates.next().await.unwrap().is_err(), "nothing is left out of a watch");
    assert!(updates.next().await.is_none());
    bed.plugin.come_back();
    store.put(SECRET, "kept".into(), Expect::Any).await.unwrap();
    assert_eq!(read(&store).await, "kept");
    assert_eq!(store.get(theirs, None).await.unwrap().unwrap().value, PLAIN);
    eventually("it is well again", || check(&store).is_ok()).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_plugin_at_the_start_is_said() {
    let bed = Bed::new();
    type Spoil = fn(&mut Mood);
    let moods: [(Spoil, &str); 5] = [
        (|mood| mood.version = "v1beta1".to_owned(), "\"v1beta1\""),
        (|mood| mood.key_id = String::new(), "no ID"),
        (|mood| mood.key_id = "k".repeat(1025), "1025"),
        (|mood| mood.secret_key = Some("other".to_owned()), "\"other\""),
        (|mood| mood.hangs = true, "no answer within 500ms"),
    ];
    for (spoil, word) in moods {
        let bed = Bed::new();
        spoil(&mut bed.plugin.mood());
        let store = bed.with(vec![bed.provider()]);
        let why = match store.prepare(Duration::ZERO).await {
            Err(why) => why.to_string(),
            // Kubernetes uses the key of a plugin whatever it says of itself.
            Ok(()) => check(&store).unwrap_err(),
        };
        assert!(why.contains(word) && why.contains("\"guard\""), "{why}");
    }
    bed.plugin.mood().healthz = "tired".to_owned();
    let store = bed.start().await;
    assert!(check(&store).unwrap_err().contains("\"tired\""));
}

#[tokio::test]
async fn a_plugin_that_comes_late_is_waited_for() {
    let mut bed = Bed::new();
    bed.plugin.die();
    let store = bed.with(vec![bed.provider()]);
    let (started, ()) = tokio::join!(store.prepare(Duration::from_secs(20)), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        bed.plugin.come_back();
    });
    started.unwrap();
}

#[tokio::test]
async fn values_move_to_a_plugin_and_away_from_it() {
    let bed = Bed::new();
    bed.memory.put(SECRET, PLAIN.into(), Expect::Any).await.unwrap();
    let arriving = bed.with(vec![bed.provider(), Provider::Identity]);
    arriving.prepare(Duration::ZERO).await.unwrap();
    assert_eq!(arriving.renew().await.unwrap(), 1);
    assert_eq!(bed.key_id().await, "key-1");
    let key = NamedKey::new("one", vec![7; 32]).unwrap();
    let leaving = bed.with(vec![Provider::AesGcm(vec![key]), bed.provider()]);
    leaving.prepare(Duration::ZERO).await.unwrap();
    assert_eq!(leaving.renew().await.unwrap(), 1);
    let raw = bed.memory.get(SECRET, None).await.unwrap().unwrap().value.to_bytes();
    assert!(raw.starts_with(b"k8s:enc:aesgcm:v1:one:"));
    assert_eq!(read(&leaving).await, PLAIN);
}

#[tokio::test]
async fn a_socket_may_have_a_name_instead_of_a_file() {
    let mut bed = Bed::new();
    let name = format!("\0karmada-kms-{}", std::process::id());
    bed.plugin = KmsPlugin::start(name.into());
    let store = bed.start().await;
    store.put(SECRET, PLAIN.into(), Expect::Any).await.unwrap();
    assert_eq!(read(&store).await, PLAIN);
}

#[tokio::test]
async fn damaged_values_are_shown_as_what_they_are() {
    let bed = Bed::new();
    let store = bed.start().await;
    store.put(SECRET, PLAIN.into(), Expect::Any).await.unwrap();
    let mut damaged = [MARK, &bed.raw().await].concat();
    damaged[MARK.len() + 60] ^= 1;
    for damaged in [damaged, [MARK, b"garbage"].concat()] {
        bed.memory.put(SECRET, damaged.clone().into(), Expect::Any).await.unwrap();
        let shown = store.get(SECRET, None).await.unwrap().unwrap().value.to_bytes();
        assert_eq!(shown, damaged);
    }
}
