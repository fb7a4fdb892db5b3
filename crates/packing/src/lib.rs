//! Texts that are much alike, kept small: each is told by how it differs from a pattern, which is a few of them.
//! Objects of a kind differ in little but names, so a packed one takes a tenth of its text. Unpacking takes
//! about a microsecond, so texts are unpacked wherever they are looked at and packed wherever they stay.

mod patterns;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block;
use sha2::{Digest as _, Sha256};

pub use patterns::Patterns;

/// The longest pattern. A longer one takes longer to look through and hardly tells more.
const LONGEST: usize = 8 << 10;

/// The length of the text is written before what it was packed to.
const HEAD: usize = size_of::<u32>();

/// A text that others are told by.
pub struct Pattern {
    id: i64,
    text: Box<[u8]>,
}

impl Pattern {
    pub fn new(text: &[u8]) -> Self {
        // The end counts: it is what was learned last.
        let text: Box<[u8]> = text[text.len().saturating_sub(LONGEST)..].into();
        Self { id: id_of(&text), text }
    }

    /// A pattern that was kept elsewhere, if the text is the one of this id.
    pub fn known(id: i64, text: &[u8]) -> Option<Self> {
        (text.len() <= LONGEST && id_of(text) == id).then(|| Self { id, text: text.into() })
    }

    /// A number that no other text has.
    pub fn id(&self) -> i64 {
        self.id
    }

    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The text as it differs from the pattern, with its length before it.
    fn pack(&self, text: &[u8]) -> Option<Vec<u8>> {
        let length = u32::try_from(text.len()).ok()?;
        let mut packed = vec![0; HEAD + block::get_maximum_output_size(text.len())];
        packed.get_mut(..HEAD)?.copy_from_slice(&length.to_le_bytes());
        let taken =
            block::compress_into_with_dict(text, packed.get_mut(HEAD..)?, &self.text).ok()?;
        packed.truncate(HEAD + taken);
        Some(packed)
    }

    /// Unpacks what [`Self::pack`] has made; nothing if it is anything else.
    fn unpack(&self, packed: &[u8], text: &mut Vec<u8>) -> Option<()> {
        text.resize(length_of(packed)?, 0);
        let length =
            block::decompress_into_with_dict(packed.get(HEAD..)?, text, &self.text).ok()?;
        (length == text.len()).then_some(())
    }
}

fn id_of(text: &[u8]) -> i64 {
    let mut start = [0; 8];
    start.copy_from_slice(&Sha256::digest(text)[..8]);
    i64::from_le_bytes(start)
}

fn length_of(packed: &[u8]) -> Option<usize> {
    let (length, _) = packed.split_first_chunk()?;
    usize::try_from(u32::from_le_bytes(*length)).ok()
}

/// The text may be secret.
impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pattern {:x} of {} bytes", self.id, self.text.len())
    }
}

/// A text, packed if that makes it smaller. Clones share it.
#[derive(Clone, Default)]
pub struct Packed {
    data: Arc<[u8]>,
    pattern: Option<Arc<Pattern>>,
}

thread_local! {
    /// Room to unpack in.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The most room that is kept for the next text.
const KEPT_ROOM: usize = 64 << 10;

impl Packed {
    /// Puts together again what [`Self::parts`] has told.
    pub fn from_parts(data: &[u8], pattern: Option<Arc<Pattern>>) -> Self {
        Self { data: data.into(), pattern }
    }

    /// What it is kept as, and the pattern that is to be kept with it.
    pub fn parts(&self) -> (&[u8], Option<&Arc<Pattern>>) {
        (&self.data, self.pattern.as_ref())
    }

    /// The length of the text.
    pub fn len(&self) -> usize {
        match self.pattern {
            Some(_) => length_of(&self.data).unwrap_or_default(),
            None => self.data.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much memory it takes.
    pub fn weight(&self) -> usize {
        self.data.len()
    }

    /// Where it lies in memory. Clones lie where the first one lies, and nothing else does while one of them lives.
    pub fn place(&self) -> usize {
        self.data.as_ptr() as usize
    }

    /// Shows the text.
    pub fn with<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        let Some(pattern) = &self.pattern else { return look(&self.data) };
        // Whoever looks may look at another one meanwhile.
        let mut room = ROOM.take();
        // What was not made by packing reads as nothing, which is no object to anyone.
        if pattern.unpack(&self.data, &mut room).is_none() {
            room.clear();
        }
        let seen = look(&room);
        room.shrink_to(KEPT_ROOM);
        ROOM.set(room);
        seen
    }

    /// The text as a value of its own.
    pub fn to_bytes(&self) -> Bytes {
        self.with(Bytes::copy_from_slice)
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        let same_pattern = match (&self.pattern, &other.pattern) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        match same_pattern {
            // A text is packed in one way only.
            true => self.data == other.data,
            false => self.len() == other.len() && self.with(|one| other.with(|other| one == other)),
        }
    }
}

impl Eq for Packed {}

impl PartialEq<&str> for Packed {
    fn eq(&self, other: &&str) -> bool {
        self.with(|text| text == other.as_bytes())
    }
}

/// The text may be secret.
impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes kept as {}", self.len(), self.weight())
    }
}

impl From<&[u8]> for Packed {
    fn from(text: &[u8]) -> Self {
        Self::from_parts(text, None)
    }
}

impl From<&str> for Packed {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<String> for Packed {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<Vec<u8>> for Packed {
    fn from(text: Vec<u8>) -> Self {
        Self { data: text.into(), pattern: None }
    }
}

impl From<Bytes> for Packed {
    fn from(text: Bytes) -> Self {
        (&*text).into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(pattern: &[u8], text: &[u8]) -> Packed {
        let pattern = Arc::new(Pattern::new(pattern));
        let data = pattern.pack(text).unwrap();
        Packed { data: data.into(), pattern: Some(pattern) }
    }

    proptest! {
        #[test]
        fn texts_come_back_whatever_they_were_packed_by(
            pattern in proptest::collection::vec(0_u8..4, 0..300),
            text in proptest::collection::vec(0_u8..4, 0..600),
        ) {
            let packed = packed(&pattern, &text);
            prop_assert_eq!(packed.to_bytes(), &text[..]);
            prop_assert_eq!(packed.len(), text.len());
            prop_assert_eq!(&packed, &Packed::from(text));
        }

        #[test]
        fn what_was_never_packed_reads_as_nothing_and_does_no_harm(
            pattern in proptest::collection::vec(any::<u8>(), 0..64),
            mut data in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            // A length that fits, so that it is looked at further.
            if let Some(head) = data.first_chunk_mut::<HEAD>() {
                *head = 40_u32.to_le_bytes();
            }
            let packed = Packed::from_parts(&data, Some(Arc::new(Pattern::new(&pattern))));
            let read = packed.to_bytes();
            prop_assert!(read.is_empty() || read.len() == 40);
        }
    }

    #[test]
    fn texts_can_be_looked_at_side_by_side() {
        let (one, other) = (packed(b"pattern", b"pattern one"), packed(b"other", b"another one"));
        let both = one.with(|one| other.with(|other| [one, other].concat()));
        assert_eq!(both, b"pattern oneanother one");
        assert_ne!(one, other);
        assert_eq!(one, one.clone());
        assert_eq!(one.place(), one.clone().place());
    }

    #[test]
    fn a_pattern_is_known_by_its_text_alone() {
        let pattern = Pattern::new(b"some text");
        assert!(Pattern::known(pattern.id(), b"some text").is_some());
        assert!(Pattern::known(pattern.id(), b"some texT").is_none());
        assert_eq!(Pattern::new(&[b'x'; 2 * LONGEST]).text().len(), LONGEST);
    }

    #[test]
    fn nothing_of_a_text_is_shown_in_logs() {
        let shown = format!("{:?} {:?}", packed(b"secret", b"secret"), Pattern::new(b"secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
