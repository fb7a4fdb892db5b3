//! The wire format of protobuf: varints, tags, length-delimited bytes.

use super::Error;

pub(super) const VARINT: u8 = 0;
pub(crate) const FIXED64: u8 = 1;
pub(super) const LENGTH: u8 = 2;
const FIXED32: u8 = 5;

/// Reads a message front to back; never past its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next field's number and wire type; nothing at the end of the message.
    pub(super) fn tag(&mut self) -> Result<Option<(u32, u8)>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Error::Overflow)?;
        Ok(Some((number, (tag & 7) as u8)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.take(1)? else { return Err(Error::Truncated) };
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::Overflow)
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, Error> {
        let bytes = self.take(8)?.try_into().map_err(|_| Error::Truncated)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = usize::try_from(self.varint()?).map_err(|_| Error::Overflow)?;
        self.take(length)
    }

    pub(super) fn skip(&mut self, wire: u8) -> Result<(), Error> {
        match wire {
            VARINT => self.varint().map(drop),
            FIXED64 => self.take(8).map(drop),
            LENGTH => self.bytes().map(drop),
            FIXED32 => self.take(4).map(drop),
            other => Err(Error::WireType(other)),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_tag(out: &mut Vec<u8>, number: u32, wire: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire));
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_tag(out, number, LENGTH);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_int(out: &mut Vec<u8>, number: u32, value: i64) {
    put_tag(out, number, VARINT);
    // Negative numbers take ten bytes, as protobuf has it for plain integers.
    put_varint(out, value as u64);
}
