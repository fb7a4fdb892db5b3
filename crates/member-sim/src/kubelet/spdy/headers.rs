//! Header blocks of SPDY/3.1: names and values, compressed in one zlib stream per direction that
//! begins with a dictionary both sides know.

use std::collections::BTreeMap;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::Error;

pub(super) type Headers = BTreeMap<String, String>;

/// How far deflate looks back.
const WINDOW: usize = 32 << 10;
/// No client of Kubernetes sends headers anywhere near this.
const LONGEST: usize = 64 << 10;
/// Method, flags and the checksum of the dictionary, in front of the first block.
const PREAMBLE: usize = 6;

/// Words of the dictionary, each with its length in front.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding \
    accept-language accept-ranges age allow authorization cache-control connection content-base \
    content-encoding content-language content-length content-location content-md5 content-range \
    content-type date etag expect expires from host if-match if-modified-since if-none-match \
    if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate \
    proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url \
    public set-cookie keep-alive origin";
/// What follows them without lengths.
const TAIL: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415\
    416417502504505203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad \
    Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not \
    Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 \
    Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,\
    application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,\
    deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

fn dictionary() -> Vec<u8> {
    let mut dictionary = Vec::new();
    for word in WORDS.split_whitespace() {
        let word = word.replace('_', " ");
        put(&mut dictionary, &word);
    }
    dictionary.extend_from_slice(TAIL.as_bytes());
    dictionary
}

fn put(to: &mut Vec<u8>, text: &str) {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(text.as_bytes());
}

/// Reads the blocks of one connection, in order.
pub(super) struct Reader {
    inflater: Box<DecompressorOxide>,
    window: Vec<u8>,
    at: usize,
    begun: bool,
}

impl Reader {
    pub(super) fn new() -> Self {
        // References into the dictionary are references to what came before the first block.
        let mut window = dictionary();
        let at = window.len();
        window.resize(WINDOW, 0);
        Self { inflater: Box::default(), window, at, begun: false }
    }

    pub(super) fn read(&mut self, block: &[u8]) -> Result<Headers, Error> {
        parse(&self.inflate(block)?).ok_or(Error::Headers)
    }

    fn inflate(&mut self, block: &[u8]) -> Result<Vec<u8>, Error> {
        let mut input = block;
        if !std::mem::replace(&mut self.begun, true) {
            let uses_dictionary = block.get(1).is_some_and(|flags| flags & 0x20 != 0);
            let preamble = if uses_dictionary { PREAMBLE } else { 2 };
            input = block.get(preamble..).ok_or(Error::Headers)?;
        }
        let mut found = Vec::new();
        loop {
            let (status, read, written) = decompress(
                &mut self.inflater,
                input,
                &mut self.window,
                self.at,
                TINFL_FLAG_HAS_MORE_INPUT,
            );
            found.extend_from_slice(&self.window[self.at..self.at + written]);
            self.at = (self.at + written) % WINDOW;
            input = &input[read..];
            match status {
                _ if found.len() > LONGEST => return Err(Error::Headers),
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput if input.is_empty() => return Ok(found),
                _ => return Err(Error::Headers),
            }
        }
    }
}

fn parse(mut block: &[u8]) -> Option<Headers> {
    let number = |block: &mut &[u8]| -> Option<usize> {
        let (digits, rest) = block.split_first_chunk::<4>()?;
        *block = rest;
        usize::try_from(u32::from_be_bytes(*digits)).ok()
    };
    let count = number(&mut block)?;
    let mut headers = Headers::new();
    for _ in 0..count {
        let mut text = || -> Option<String> {
            let length = number(&mut block)?;
            let (text, rest) = block.split_at_checked(length)?;
            block = rest;
            String::from_utf8(text.to_vec()).ok()
        };
        let (name, value) = (text()?, text()?);
        headers.insert(name.to_ascii_lowercase(), value);
    }
    Some(headers)
}

/// An empty block, compressed by not compressing it; `first` if none was sent before.
pub(super) fn empty_block(first: bool) -> Vec<u8> {
    let mut block = Vec::new();
    if first {
        // A zlib stream without a dictionary, which readers accept as well.
        block.extend_from_slice(&[0x78, 0x01]);
    }
    // One stored piece, four bytes long, and more may follow: the count of headers, zero.
    block.extend_from_slice(&[0, 4, 0, !4, !0, 0, 0, 0, 0]);
    // An empty one: Go's reader gives nothing away before it has seen such an end.
    block.extend_from_slice(&[0, 0, 0, !0, !0]);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_the_one_of_the_protocol() {
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in dictionary() {
            a = (a + u32::from(byte)) % 65521;
            b = (b + a) % 65521;
        }
        assert_eq!((dictionary().len(), b << 16 | a), (1423, 0xe3c6_a7c2));
    }

    /// Two blocks as Go's compressor makes them: `streamtype: error`, then `streamtype: stdout`.
    #[test]
    fn blocks_of_a_real_client_are_read_one_after_the_other() {
        let first =
            b"\x78\xf9\xe3\xc6\xa7\xc2\x62\x60\x60\x60\x04\xa7\xb3\x92\xa2\xd4\xc4\x5c\x68\x51\
            \xc2\x9a\x0a\x0a\x68\x00\x00\x00\x00\xff\xff";
        let second = b"\xc2\x2a\xc5\x56\x5c\x92\x92\x5f\x5a\x02\x00\x00\x00\xff\xff";
        let mut reader = Reader::new();
        assert_eq!(reader.read(first).unwrap()["streamtype"], "error");
        assert_eq!(reader.read(second).unwrap()["streamtype"], "stdout");
        assert!(reader.read(&[0xff; 9]).is_err());
    }

    #[test]
    fn an_empty_block_is_read_as_empty() {
        let mut reader = Reader::new();
        assert!(reader.read(&empty_block(true)).unwrap().is_empty());
        assert!(reader.read(&empty_block(false)).unwrap().is_empty());
    }
}
