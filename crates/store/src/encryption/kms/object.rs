//! What is stored of a value that a key service guards, in the encoding Kubernetes gives it: the
//! encrypted value beside the encrypted source of its key.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;

use crate::grpc::wire::{Malformed, Writer, read};

const MAX_KEY_ID: usize = 1024;
const MAX_SOURCE: usize = 1024;
const MAX_ANNOTATIONS: usize = 32 * 1024;
const MAX_LABEL: usize = 63;
const MAX_DOMAIN: usize = 253;

/// How a key is made of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceKind {
    /// The source is the key itself. Kubernetes before 1.29 wrote so.
    Key = 0,
    /// Every value has a key of its own, derived from the source.
    Seed = 1,
}

/// Notes of a plugin that it wants to see again.
pub(super) type Annotations = BTreeMap<String, Bytes>;

/// Where a key comes from: what the plugin needs to give it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) kind: SourceKind,
    pub(super) key_id: String,
    pub(super) encrypted: Bytes,
    pub(super) annotations: Annotations,
}

impl Source {
    /// Says what is wrong with a source, if anything is. The limits are those of Kubernetes, which would
    /// not read what exceeds them.
    pub(super) fn check(&self) -> Result<(), String> {
        check_key_id(&self.key_id)?;
        if self.encrypted.is_empty() || self.encrypted.len() > MAX_SOURCE {
            let length = self.encrypted.len();
            return Err(format!("an encrypted key has {length} bytes, not 1 to {MAX_SOURCE}"));
        }
        if let Some(name) = self.annotations.keys().find(|name| !is_domain(name)) {
            return Err(format!("the annotation {name:?} is not named by a domain"));
        }
        let size: usize = self.annotations.iter().map(|(name, note)| name.len() + note.len()).sum();
        if size > MAX_ANNOTATIONS {
            return Err(format!("annotations have {size} bytes, more than {MAX_ANNOTATIONS}"));
        }
        Ok(())
    }

    /// Tells sources apart.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        let text = self.write(Writer::default()).finish();
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest(&SHA256, &text).as_ref());
        fingerprint
    }

    fn write(&self, message: Writer) -> Writer {
        let message = message.bytes(2, self.key_id.as_bytes()).bytes(3, &self.encrypted);
        write_annotations(message, 4, &self.annotations).number(5, self.kind as i64)
    }
}

pub(super) fn check_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("its key has no ID".to_owned()),
        length if length > MAX_KEY_ID => {
            Err(format!("the ID of its key has {length} bytes, more than {MAX_KEY_ID}"))
        }
        _ => Ok(()),
    }
}

/// Whether a name is one of DNS with at least two parts; it may end with a dot.
fn is_domain(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        label.len() <= MAX_LABEL
            && label.bytes().all(|byte| allowed(byte) || byte == b'-')
            && label.bytes().next().is_some_and(allowed)
            && label.bytes().last().is_some_and(allowed)
    };
    name.len() <= MAX_DOMAIN && name.contains('.') && name.split('.').all(is_label)
}

/// A stored value, without the mark that stands before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EncryptedObject {
    pub(super) data: Bytes,
    pub(super) source: Source,
}

impl EncryptedObject {
    pub(super) fn write(source: &Source, data: &[u8]) -> Bytes {
        source.write(Writer::default().bytes(1, data)).finish()
    }

    pub(super) fn read(message: Bytes) -> Result<Self, String> {
        let mut data = Bytes::new();
        let mut kind = 0;
        let mut source = Source {
            kind: SourceKind::Key,
            key_id: String::new(),
            encrypted: Bytes::new(),
            annotations: Annotations::new(),
        };
        read(message, |field, content| {
            match field {
                1 => data = content.bytes(),
                2 => source.key_id = String::from_utf8_lossy(&content.bytes()).into(),
                3 => source.encrypted = content.bytes(),
                4 => read_annotation(content.bytes(), &mut source.annotations)?,
                5 => kind = content.number(),
                _ => {}
            }
            Ok(())
        })
        .map_err(|malformed| malformed.to_string())?;
        source.kind = match kind {
            0 => SourceKind::Key,
            1 => SourceKind::Seed,
            other => return Err(format!("keys of the kind {other} are not known")),
        };
        source.check()?;
        Ok(Self { data, source })
    }
}

pub(super) fn write_annotations(message: Writer, field: u64, annotations: &Annotations) -> Writer {
    annotations.iter().fold(message, |message, (name, note)| {
        message.message(field, Writer::default().bytes(1, name.as_bytes()).bytes(2, note))
    })
}

pub(super) fn read_annotation(entry: Bytes, all: &mut Annotations) -> Result<(), Malformed> {
    let (mut name, mut note) = (String::new(), Bytes::new());
    read(entry, |field, content| {
        match field {
            1 => name = String::from_utf8_lossy(&content.bytes()).into(),
            2 => note = content.bytes(),
            _ => {}
        }
        Ok(())
    })?;
    all.insert(name, note);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source {
            kind: SourceKind::Seed,
            key_id: "7".to_owned(),
            encrypted: "sealed".into(),
            annotations: Annotations::from([("a.example.com".to_owned(), "note".into())]),
        }
    }

    #[test]
    fn what_was_stored_is_read() {
        for kind in [SourceKind::Key, SourceKind::Seed] {
            let source = Source { kind, ..source() };
            let stored = EncryptedObject::write(&source, b"text");
            let expected = EncryptedObject { data: "text".into(), source };
            assert_eq!(EncryptedObject::read(stored), Ok(expected));
        }
    }

    #[test]
    fn sources_are_told_apart() {
        let mut others = vec![source(); 4];
        others[0].kind = SourceKind::Key;
        others[1].key_id.push('8');
        others[2].encrypted = "other".into();
        others[3].annotations.clear();
        for other in others {
            assert_ne!(other.fingerprint(), source().fingerprint(), "{other:?}");
        }
        assert_eq!(source().fingerprint(), source().fingerprint());
    }

    #[test]
    fn what_kubernetes_would_not_read_is_refused() {
        let note = |name: &str, length: usize| {
            let annotations = Annotations::from([(name.to_owned(), vec![0; length].into())]);
            Source { annotations, ..source() }
        };
        for (source, fine) in [
            (source(), true),
            (Source { key_id: String::new(), ..source() }, false),
            (Source { key_id: "k".repeat(1024), ..source() }, true),
            (Source { key_id: "k".repeat(1025), ..source() }, false),
            (Source { encrypted: Bytes::new(), ..source() }, false),
            (Source { encrypted: vec![0; 1024].into(), ..source() }, true),
            (Source { encrypted: vec![0; 1025].into(), ..source() }, false),
            (note("example.com.", 1), true),
            (note("example", 1), false),
            (note("Example.com", 1), false),
            (note("-.com", 1), false),
            (note("a..com", 1), false),
            (note("example.com", 32 * 1024 - 11), true),
            (note("example.com", 32 * 1024 - 10), false),
        ] {
            let checked = source.check();
            assert_eq!(checked.is_ok(), fine, "{checked:?}");
        }
    }

    #[test]
    fn garbage_is_not_read() {
        let empty = Writer::default().finish();
        let unknown = Writer::default().bytes(2, b"7").bytes(3, b"s").number(5, 2).finish();
        for message in [empty, unknown, Bytes::from_static(b"\x0a\xff")] {
            assert!(EncryptedObject::read(message).is_err());
        }
    }
}
