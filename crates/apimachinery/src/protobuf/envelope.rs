//! The envelope around a protobuf object: four magic bytes and a message that names the kind.

use super::Error;
use super::wire::{LENGTH, Reader, put_bytes};

const MAGIC: &[u8] = b"k8s\0";

/// An object still in protobuf form, with its kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope<'a> {
    pub api_version: String,
    pub kind: String,
    pub raw: &'a [u8],
    /// What `raw` is when it is not a protobuf message, such as `application/json`.
    pub content_type: String,
    pub content_encoding: String,
}

pub fn is_enveloped(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Opens the envelope.
pub fn decode_envelope(bytes: &[u8]) -> Result<Envelope<'_>, Error> {
    let mut reader = Reader::new(bytes.strip_prefix(MAGIC).ok_or(Error::NotEnveloped)?);
    let mut envelope = Envelope::default();
    while let Some((number, wire)) = reader.tag()? {
        match (number, wire) {
            (1, LENGTH) => read_type(reader.bytes()?, &mut envelope)?,
            (2, LENGTH) => envelope.raw = reader.bytes()?,
            (3, LENGTH) => envelope.content_encoding = text(reader.bytes()?, "contentEncoding")?,
            (4, LENGTH) => envelope.content_type = text(reader.bytes()?, "contentType")?,
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(envelope)
}

fn read_type(bytes: &[u8], envelope: &mut Envelope<'_>) -> Result<(), Error> {
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag()? {
        match (number, wire) {
            (1, LENGTH) => envelope.api_version = text(reader.bytes()?, "apiVersion")?,
            (2, LENGTH) => envelope.kind = text(reader.bytes()?, "kind")?,
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(())
}

fn text(bytes: &[u8], field: &str) -> Result<String, Error> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::Utf8(field.to_owned()))
}

/// Wraps an encoded message.
pub fn encode_envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    put_bytes(&mut type_meta, 1, api_version.as_bytes());
    put_bytes(&mut type_meta, 2, kind.as_bytes());
    let mut out = Vec::with_capacity(raw.len() + type_meta.len() + 16);
    out.extend_from_slice(MAGIC);
    put_bytes(&mut out, 1, &type_meta);
    put_bytes(&mut out, 2, raw);
    // Go writes the two empty texts as well.
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}
