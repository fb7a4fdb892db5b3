//! Keys that encrypt values, and those that were decrypted before: the plugin is asked once for each.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::object::SourceKind;
use crate::encryption::ciphers::{open_gcm, seal_gcm};

const SEED_LEN: usize = 32;
/// What makes the key of one value differ from all others; it stands before the value.
const INFO_LEN: usize = 32;

/// A key that nobody has asked for that long is forgotten.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// A data encryption key, or the seed of many. It is not shown.
pub(super) struct Dek {
    kind: SourceKind,
    secret: Vec<u8>,
}

impl Dek {
    /// A seed that nobody has used yet, and its bytes.
    pub(super) fn generate() -> Option<(Self, Vec<u8>)> {
        let mut secret = vec![0; SEED_LEN];
        aws_lc_rs::rand::fill(&mut secret).ok()?;
        Some((Self { kind: SourceKind::Seed, secret: secret.clone() }, secret))
    }

    pub(super) fn new(kind: SourceKind, secret: Vec<u8>) -> Option<Self> {
        let usable = match kind {
            SourceKind::Key => matches!(secret.len(), 16 | 24 | 32),
            SourceKind::Seed => secret.len() >= SEED_LEN,
        };
        usable.then_some(Self { kind, secret })
    }

    /// Encrypts a value for its place. Only seeds do: a key that others use too could meet a nonce twice.
    pub(super) fn seal(&self, place: &str, value: &[u8]) -> Option<Vec<u8>> {
        if self.kind != SourceKind::Seed {
            return None;
        }
        let mut info = [0; INFO_LEN];
        aws_lc_rs::rand::fill(&mut info).ok()?;
        let sealed = seal_gcm(self.derive(&info).as_ref(), place, value)?;
        Some([&info[..], &sealed].concat())
    }

    pub(super) fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        match self.kind {
            SourceKind::Key => open_gcm(&self.secret, place, sealed),
            SourceKind::Seed => {
                let (info, sealed) = sealed.split_at_checked(INFO_LEN)?;
                open_gcm(self.derive(info).as_ref(), place, sealed)
            }
        }
    }

    /// The key of one value: the first block of HKDF-Expand with SHA-256, which has the length of a key.
    fn derive(&self, info: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.secret));
        context.update(info);
        context.update(&[1]);
        context.sign()
    }
}

/// Keys by the fingerprint of their source.
#[derive(Default)]
pub(super) struct Deks(Mutex<HashMap<[u8; 32], Kept>>);

struct Kept {
    dek: Arc<Dek>,
    used: Instant,
}

impl Deks {
    pub(super) fn get(&self, fingerprint: &[u8; 32]) -> Option<Arc<Dek>> {
        let mut all = self.0.lock();
        let kept = all.get_mut(fingerprint)?;
        kept.used = Instant::now();
        Some(kept.dek.clone())
    }

    pub(super) fn keep(&self, fingerprint: [u8; 32], dek: Arc<Dek>) {
        let used = Instant::now();
        let mut all = self.0.lock();
        all.retain(|_, kept| used.duration_since(kept.used) < KEPT);
        all.insert(fingerprint, Kept { dek, used });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_is_opened_in_its_place_only() {
        let (dek, secret) = Dek::generate().unwrap();
        let sealed = dek.seal("/a", b"text").unwrap();
        assert_ne!(sealed, dek.seal("/a", b"text").unwrap());
        let same = Dek::new(SourceKind::Seed, secret.clone()).unwrap();
        assert_eq!(same.open("/a", &sealed).as_deref(), Some(&b"text"[..]));
        assert_eq!(same.open("/b", &sealed), None);
        assert_eq!(same.open("/a", &sealed[1..]), None);
        assert_eq!(same.open("/a", b"short"), None);
        let key = Dek::new(SourceKind::Key, secret).unwrap();
        assert_eq!(key.open("/a", &sealed), None, "a seed is no key");
        assert_eq!(key.seal("/a", b"text"), None);
    }

    /// The first case in the appendix of RFC 5869.
    #[test]
    fn keys_are_derived_as_everybody_does() {
        let hex = |text: &str| -> Vec<u8> {
            let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
        };
        let prk = hex("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
        let info = hex("f0f1f2f3f4f5f6f7f8f9");
        let expected = hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
        let dek = Dek::new(SourceKind::Seed, prk).unwrap();
        assert_eq!(dek.derive(&info).as_ref(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn keys_nobody_asks_for_are_forgotten_after_a_day() {
        let deks = Deks::default();
        let (dek, _) = Dek::generate().unwrap();
        let dek = Arc::new(dek);
        deks.keep([1; 32], dek.clone());
        deks.keep([2; 32], dek.clone());
        tokio::time::advance(KEPT - Duration::from_secs(1)).await;
        assert!(deks.get(&[1; 32]).is_some());
        tokio::time::advance(Duration::from_secs(2)).await;
        deks.keep([3; 32], dek);
        let kept = [1, 2, 3].map(|number| deks.get(&[number; 32]).is_some());
        assert_eq!(kept, [true, false, true]);
    }
}
