//! The ciphers of keys that stand in the configuration: what is random about a value stands before it.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use crypto_secretbox::aead::{Aead as _, KeyInit as _};
use crypto_secretbox::{Key as BoxKey, Nonce as BoxNonce, XSalsa20Poly1305};

use crate::{Error, Result};

const IV_LEN: usize = 16;
const BOX_KEY_LEN: usize = 32;
const BOX_NONCE_LEN: usize = 24;

/// A key by which people know it.
pub struct NamedKey {
    pub name: String,
    secret: Vec<u8>,
}

impl NamedKey {
    /// A key of 16, 24 or 32 bytes.
    pub fn new(name: &str, secret: Vec<u8>) -> Result<Self> {
        if !matches!(secret.len(), 16 | 24 | 32) || name.is_empty() || name.contains(':') {
            let why = "a name without a colon and a secret of 16, 24 or 32 bytes are needed";
            return Err(Error::io(format!("use the key {name:?}"), std::io::Error::other(why)));
        }
        Ok(Self { name: name.to_owned(), secret })
    }

    /// How long the secret is.
    pub fn bits(&self) -> usize {
        self.secret.len() * 8
    }
}

/// Encrypts with a cipher by the name it has in stored values.
pub(super) fn seal(kind: &str, key: &NamedKey, place: &str, value: &[u8]) -> Option<Vec<u8>> {
    match kind {
        "aesgcm" => seal_gcm(&key.secret, place, value),
        "aescbc" => seal_cbc(key, value),
        _ => seal_box(key, value),
    }
}

pub(super) fn open(kind: &str, key: &NamedKey, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    match kind {
        "aesgcm" => open_gcm(&key.secret, place, sealed),
        "aescbc" => open_cbc(key, sealed),
        _ => open_box(key, sealed),
    }
}

pub(super) fn seal_gcm(secret: &[u8], place: &str, value: &[u8]) -> Option<Vec<u8>> {
    let mut nonce = [0; NONCE_LEN];
    aws_lc_rs::rand::fill(&mut nonce).ok()?;
    let mut text = value.to_vec();
    // What is moved to another place cannot be read there.
    let aad = Aad::from(place.as_bytes());
    let unique = Nonce::assume_unique_for_key(nonce);
    gcm(secret)?.seal_in_place_append_tag(unique, aad, &mut text).ok()?;
    Some([&nonce[..], &text].concat())
}

fn seal_cbc(key: &NamedKey, value: &[u8]) -> Option<Vec<u8>> {
    let mut text = value.to_vec();
    let cipher = PaddedBlockEncryptingKey::cbc_pkcs7(cbc(key)?).ok()?;
    let DecryptionContext::Iv128(iv) = cipher.encrypt(&mut text).ok()? else { return None };
    let iv: &[u8; IV_LEN] = iv.as_ref();
    Some([&iv[..], &text].concat())
}

fn seal_box(key: &NamedKey, value: &[u8]) -> Option<Vec<u8>> {
    let mut nonce = [0; BOX_NONCE_LEN];
    aws_lc_rs::rand::fill(&mut nonce).ok()?;
    let text = secret_box(key)?.encrypt(BoxNonce::from_slice(&nonce), value).ok()?;
    Some([&nonce[..], &text].concat())
}

fn secret_box(key: &NamedKey) -> Option<XSalsa20Poly1305> {
    let right = key.secret.len() == BOX_KEY_LEN;
    right.then(|| XSalsa20Poly1305::new(BoxKey::from_slice(&key.secret)))
}

fn gcm(secret: &[u8]) -> Option<LessSafeKey> {
    let algorithm = match secret.len() {
        16 => &AES_128_GCM,
        24 => &AES_192_GCM,
        _ => &AES_256_GCM,
    };
    UnboundKey::new(algorithm, secret).ok().map(LessSafeKey::new)
}

fn cbc(key: &NamedKey) -> Option<UnboundCipherKey> {
    let algorithm = match key.secret.len() {
        16 => &AES_128,
        24 => &AES_192,
        _ => &AES_256,
    };
    UnboundCipherKey::new(algorithm, &key.secret).ok()
}

pub(super) fn open_gcm(secret: &[u8], place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
    let mut text = text.to_vec();
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let aad = Aad::from(place.as_bytes());
    let length = gcm(secret)?.open_in_place(nonce, aad, &mut text).ok()?.len();
    text.truncate(length);
    Some(text)
}

fn open_cbc(key: &NamedKey, sealed: &[u8]) -> Option<Vec<u8>> {
    let (iv, text) = sealed.split_at_checked(IV_LEN)?;
    let iv: [u8; IV_LEN] = iv.try_into().ok()?;
    let mut text = text.to_vec();
    let cipher = PaddedBlockDecryptingKey::cbc_pkcs7(cbc(key)?).ok()?;
    let context = DecryptionContext::Iv128(FixedLength::from(iv));
    let length = cipher.decrypt(&mut text, context).ok()?.len();
    text.truncate(length);
    Some(text)
}

fn open_box(key: &NamedKey, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, text) = sealed.split_at_checked(BOX_NONCE_LEN)?;
    secret_box(key)?.decrypt(BoxNonce::from_slice(nonce), text).ok()
}
