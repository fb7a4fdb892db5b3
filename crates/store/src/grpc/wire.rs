//! The encoding of protocol buffers, as far as messages of the servers we ask need it: numbers, bytes and
//! messages within messages. Fields nobody asks for are skipped.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// A message of a server that is not encoded as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message cannot be decoded: {0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED_32: u64 = 5;

/// A message being written. Fields with the default value of their type are left out.
#[derive(Debug, Default)]
pub(crate) struct Writer(BytesMut);

impl Writer {
    pub(crate) fn number(mut self, field: u64, number: i64) -> Self {
        if number != 0 {
            put_varint(&mut self.0, field << 3 | VARINT);
            put_varint(&mut self.0, number as u64);
        }
        self
    }

    pub(crate) fn flag(self, field: u64, flag: bool) -> Self {
        self.number(field, i64::from(flag))
    }

    pub(crate) fn bytes(self, field: u64, bytes: &[u8]) -> Self {
        if bytes.is_empty() { self } else { self.delimited(field, bytes) }
    }

    /// A message is written even when it is empty: that it is there says something.
    pub(crate) fn message(self, field: u64, message: Writer) -> Self {
        self.delimited(field, &message.0)
    }

    fn delimited(mut self, field: u64, bytes: &[u8]) -> Self {
        self.0.reserve(bytes.len() + 16);
        put_varint(&mut self.0, field << 3 | LENGTH);
        put_varint(&mut self.0, bytes.len() as u64);
        self.0.put_slice(bytes);
        self
    }

    pub(crate) fn finish(self) -> Bytes {
        self.0.freeze()
    }
}

fn put_varint(buffer: &mut BytesMut, mut number: u64) {
    while number >= 0x80 {
        buffer.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    buffer.put_u8(number as u8);
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Number(u64),
    /// A part of the message read, not a copy.
    Bytes(Bytes),
}

impl Content {
    pub(crate) fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number as i64,
            Self::Bytes(_) => 0,
        }
    }

    pub(crate) fn flag(&self) -> bool {
        self.number() != 0
    }

    pub(crate) fn bytes(self) -> Bytes {
        match self {
            Self::Number(_) => Bytes::new(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Hands every field of a message to `take`, in the order in which they stand there.
pub(crate) fn read(
    mut message: Bytes,
    mut take: impl FnMut(u64, Content) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while message.has_remaining() {
        let tag = get_varint(&mut message)?;
        let content = match tag & 7 {
            VARINT => Content::Number(get_varint(&mut message)?),
            LENGTH => {
                let length = usize::try_from(get_varint(&mut message)?)
                    .ok()
                    .filter(|length| *length <= message.remaining())
                    .ok_or(Malformed("a field is longer than the message"))?;
                Content::Bytes(message.split_to(length))
            }
            FIXED_64 => Content::Number(fixed(&mut message, 8)?),
            FIXED_32 => Content::Number(fixed(&mut message, 4)?),
            _ => return Err(Malformed("a field has an unknown type")),
        };
        take(tag >> 3, content)?;
    }
    Ok(())
}

fn fixed(message: &mut Bytes, width: usize) -> Result<u64, Malformed> {
    if message.remaining() < width {
        return Err(Malformed("the message ends within a field"));
    }
    Ok(message.get_uint_le(width))
}

fn get_varint(message: &mut Bytes) -> Result<u64, Malformed> {
    let mut number = 0;
    for shift in (0..70).step_by(7) {
        if !message.has_remaining() {
            return Err(Malformed("the message ends within a number"));
        }
        let byte = message.get_u8();
        number |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or_default();
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Malformed("a number is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(message: Bytes) -> Result<Vec<(u64, Content)>, Malformed> {
        let mut fields = Vec::new();
        read(message, |field, content| {
            fields.push((field, content));
            Ok(())
        })?;
        Ok(fields)
    }

    #[test]
    fn what_was_written_is_read() {
        let inner = Writer::default().number(1, i64::MAX).number(2, -1);
        let message = Writer::default()
            .number(1, 300)
            .bytes(2, b"key")
            .flag(64, true)
            .number(3, 0)
            .bytes(4, b"")
            .message(5, inner)
            .message(6, Writer::default());
        let read = fields(message.finish()).unwrap();
        assert_eq!(
            read[..3],
            [
                (1, Content::Number(300)),
                (2, Content::Bytes("key".into())),
                (64, Content::Number(1)),
            ]
        );
        let inner = fields(read[3].1.clone().bytes()).unwrap();
        assert_eq!(inner[0].1.number(), i64::MAX);
        assert_eq!(inner[1].1.number(), -1);
        assert_eq!(read[4], (6, Content::Bytes(Bytes::new())));
        assert_eq!(read.len(), 5);
    }

    #[test]
    fn fields_of_other_widths_are_passed_over() {
        let message: &[u8] = &[0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x15, 2, 0, 0, 0, 0x18, 3];
        let read = fields(Bytes::from_static(message)).unwrap();
        let numbers: Vec<_> =
            read.iter().map(|(field, content)| (*field, content.number())).collect();
        assert_eq!(numbers, [(1, 1), (2, 2), (3, 3)]);
    }

    #[test]
    fn garbage_is_an_error() {
        let cases: [&'static [u8]; 6] = [
            &[0x08],
            &[0x08, 0x80],
            &[0x0A, 5, 1],
            &[0x0B],
            &[0x09, 1, 2],
            &[0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        ];
        for case in cases {
            assert!(fields(Bytes::from_static(case)).is_err(), "{case:?}");
        }
    }
}
