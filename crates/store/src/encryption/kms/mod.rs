//! Values whose keys are guarded by a plugin that runs beside the server: version 2 of Kubernetes' KMS
//! API. One seed encrypts all values until the plugin has a new key; it is stored encrypted beside each
//! of them. The plugin is asked once for every seed, and now and then how it is.

mod dek;
mod object;
mod plugin;

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

use self::dek::{Dek, Deks};
use self::object::{EncryptedObject, Source, SourceKind, check_key_id};
use self::plugin::Plugin;
use crate::asked_once::AskedOnce;
use crate::grpc::Endpoint;
use crate::{Error, Result};

/// How often a plugin that is waited for is asked.
const AGAIN: Duration = Duration::from_millis(500);

/// Which plugin to ask, and how patiently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KmsOptions {
    /// By which stored values name it; without a colon.
    pub name: String,
    /// `unix:///path` or `unix:///@name`.
    pub endpoint: String,
    /// How long a call may take.
    pub timeout: Duration,
    pub pace: Pace,
}

/// How often a plugin is asked how it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    pub healthy: Duration,
    pub failing: Duration,
    /// How long a seed is written with after the plugin last stood by its key.
    pub lifetime: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            healthy: Duration::from_secs(20),
            failing: Duration::from_secs(3),
            // Compat: whoever changes a key waits that long before old values are written anew.
            lifetime: Duration::from_secs(180),
        }
    }
}

/// A plugin and the keys it has given.
pub struct Kms {
    name: String,
    plugin: Plugin,
    pace: Pace,
    /// What the plugin said first; it may not change its mind.
    version: Mutex<Option<String>>,
    writing: Mutex<Option<Writing>>,
    deks: Deks,
    health: Mutex<Result<()>>,
    asking: AskedOnce<()>,
}

/// What values are written with.
#[derive(Clone)]
struct Writing {
    dek: Arc<Dek>,
    source: Arc<Source>,
    until: Instant,
}

impl Kms {
    /// Knows the plugin; nobody is asked yet. An endpoint that is none is an error.
    pub fn new(options: KmsOptions) -> Result<Arc<Self>, String> {
        let endpoint = Endpoint::parse_socket(&options.endpoint)?;
        Ok(Arc::new(Self {
            name: options.name,
            plugin: Plugin::new(endpoint, options.timeout),
            pace: options.pace,
            version: Mutex::default(),
            writing: Mutex::default(),
            deks: Deks::default(),
            health: Mutex::new(Ok(())),
            asking: AskedOnce::default(),
        }))
    }

    /// What values of this plugin begin with.
    pub(super) fn mark(&self) -> String {
        format!("k8s:enc:kms:v2:{}:", self.name)
    }

    pub(super) fn health(&self) -> Result<()> {
        self.health.lock().clone()
    }

    /// Waits until values can be written; the error says why they cannot.
    pub(super) async fn ready(&self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        let mut told = false;
        loop {
            let Err(error) = self.writing().await else { return Ok(()) };
            if Instant::now() + AGAIN > deadline {
                return Err(error);
            }
            if !std::mem::replace(&mut told, true) {
                warn!(%error, "waiting for a kms provider");
            }
            sleep(AGAIN).await;
        }
    }

    /// Asks the plugin how it is from now on, as long as somebody has use for it.
    pub(super) fn follow(self: &Arc<Self>) {
        tokio::spawn(follow(Arc::downgrade(self)));
    }

    /// Encrypts a value for its place, mark included.
    pub(super) async fn seal(&self, place: &str, value: &[u8]) -> Result<Vec<u8>> {
        let writing = self.writing().await?;
        let sealed = writing.dek.seal(place, value);
        let sealed = sealed.ok_or_else(|| self.unusable("the cipher failed"))?;
        let object = EncryptedObject::write(&writing.source, &sealed);
        Ok([self.mark().as_bytes(), &object].concat())
    }

    /// Decrypts what stands behind the mark, and says whether it would be written otherwise today. There
    /// is nothing if it is no value of this plugin and place.
    pub(super) async fn open(&self, place: &str, stored: Bytes) -> Result<Option<(Vec<u8>, bool)>> {
        let Ok(EncryptedObject { data, source }) = EncryptedObject::read(stored) else {
            return Ok(None);
        };
        let Some(dek) = self.dek_of(&source).await? else { return Ok(None) };
        let stale = source.kind != SourceKind::Seed || self.has_another_key_than(&source.key_id);
        Ok(dek.open(place, &data).map(|value| (value, stale)))
    }

    fn has_another_key_than(&self, key_id: &str) -> bool {
        self.writing.lock().as_ref().is_some_and(|writing| writing.source.key_id != key_id)
    }

    async fn dek_of(&self, source: &Source) -> Result<Option<Arc<Dek>>> {
        let fingerprint = source.fingerprint();
        if let Some(dek) = self.deks.get(&fingerprint) {
            return Ok(Some(dek));
        }
        let secret = self.plugin.decrypt(source).await;
        let secret = secret.map_err(|why| self.unusable(format!("decrypt a key: {why}")))?;
        let Some(dek) = Dek::new(source.kind, secret) else { return Ok(None) };
        let dek = Arc::new(dek);
        self.deks.keep(fingerprint, dek.clone());
        Ok(Some(dek))
    }

    /// What to write with now. A plugin that has been away is asked at once whether it is back.
    async fn writing(&self) -> Result<Writing> {
        let valid = || {
            let writing = self.writing.lock();
            writing.clone().filter(|writing| Instant::now() < writing.until)
        };
        if let Some(writing) = valid() {
            return Ok(writing);
        }
        let asked = self.asking.ask(|| self.ask()).await;
        let reason = "it gives no key to write with";
        valid().ok_or_else(|| asked.err().unwrap_or_else(|| self.unusable(reason)))
    }

    /// Asks the plugin how it is and which key it has, and remembers what it says.
    async fn ask(&self) -> Result<()> {
        let asked = self.examine().await.map_err(|why| self.unusable(why));
        let mut health = self.health.lock();
        match (&*health, &asked) {
            (Ok(()), Err(error)) => error!(%error, "a kms provider is not well"),
            (Err(_), Ok(())) => info!(provider = self.name, "a kms provider is well again"),
            _ => {}
        }
        health.clone_from(&asked);
        asked
    }

    async fn examine(&self) -> Result<(), String> {
        let status = self.plugin.status().await?;
        let mut problems = Vec::new();
        if status.healthz != "ok" {
            problems.push(format!("it says {:?} of its health", status.healthz));
        }
        problems.extend(self.check_version(&status.version).err());
        // Compat: a plugin that is not well may still have a new key.
        let followed = match check_key_id(&status.key_id) {
            Ok(()) => self.use_key(&status.key_id).await,
            refused => refused,
        };
        problems.extend(followed.err());
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }

    fn check_version(&self, version: &str) -> Result<(), String> {
        if !matches!(version, "v2" | "v2beta1") {
            return Err(format!("it speaks version {version:?} instead of v2"));
        }
        match self.version.lock().get_or_insert_with(|| version.to_owned()) {
            first if first == version => Ok(()),
            first => Err(format!("its version was {first} and is {version} now")),
        }
    }

    /// Writes with a seed of this key. The old one stays until there is a new one.
    async fn use_key(&self, key_id: &str) -> Result<(), String> {
        let until = Instant::now() + self.pace.lifetime;
        if let Some(writing) = &mut *self.writing.lock()
            && writing.source.key_id == key_id
        {
            writing.until = until;
            return Ok(());
        }
        let (dek, seed) = Dek::generate().ok_or("there are no random numbers")?;
        let source = self.plugin.encrypt(&seed).await;
        let source = source.map_err(|why| format!("encrypt a key: {why}"))?;
        if source.key_id != key_id {
            let used = source.key_id;
            return Err(format!("it says that its key is {key_id:?} and encrypts with {used:?}"));
        }
        let (dek, source) = (Arc::new(dek), Arc::new(source));
        self.deks.keep(source.fingerprint(), dek.clone());
        *self.writing.lock() = Some(Writing { dek, source, until });
        info!(provider = self.name, key = key_id, "values are written with a new key");
        Ok(())
    }

    fn unusable(&self, reason: impl Into<String>) -> Error {
        let endpoint = self.plugin.endpoint.to_string();
        Error::KeyService { provider: self.name.clone(), endpoint, reason: reason.into() }
    }
}

async fn follow(kms: Weak<Kms>) {
    loop {
        let Some(pause) = kms.upgrade().map(|kms| match kms.health() {
            Ok(()) => kms.pace.healthy,
            Err(_) => kms.pace.failing,
        }) else {
            return;
        };
        sleep(pause).await;
        let Some(kms) = kms.upgrade() else { return };
        // What it says is remembered.
        drop(kms.asking.ask(|| kms.ask()).await);
    }
}
