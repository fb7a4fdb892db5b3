//! JSON text to trees and trees to JSON text, without serde in between. Only what is plain is read here: whatever is
//! unusual, and all that is wrong, is left to `serde_json`, which then says what it is.

use ecow::EcoVec;
use serde_json::{Error, Number};

use super::{List, Map, Text, Value};

/// Deeper trees are left to `serde_json`, which has a limit.
const DEEP: usize = 100;

impl Value {
    /// Reads a value from its text.
    pub fn from_text(text: &[u8]) -> Result<Self, Error> {
        match std::str::from_utf8(text).ok().and_then(read) {
            Some(value) => Ok(value),
            None => serde_json::from_slice(text),
        }
    }

    /// Reads an object from its text and leaves one field of one of its fields out.
    pub fn from_text_without(text: &[u8], [outer, inner]: [&str; 2]) -> Result<Self, Error> {
        let plain = std::str::from_utf8(text).ok();
        match plain.and_then(|text| Reader::new(text).without(outer, inner)) {
            Some(value) => Ok(value),
            None => serde_json::from_slice(text).map(|mut value: Self| {
                if let Some(fields) = value.get_mut(outer).and_then(Self::as_object_mut) {
                    fields.remove(inner);
                }
                value
            }),
        }
    }

    /// Writes the compact text of a value.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(number) => write_number(number, out),
            Self::String(text) => write_string(text, out),
            Self::Array(list) => {
                out.push(b'[');
                for (index, item) in list.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    item.write_text(out);
                }
                out.push(b']');
            }
            Self::Object(map) => {
                out.push(b'{');
                for (index, (name, value)) in map.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_string(name, out);
                    out.push(b':');
                    value.write_text(out);
                }
                out.push(b'}');
            }
        }
    }

    /// The compact text of a value.
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(1024);
        self.write_text(&mut text);
        text
    }
}

/// Writes a string in quotes.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    if is_plain(bytes) {
        out.reserve(bytes.len() + 2);
        out.push(b'"');
        out.extend_from_slice(bytes);
        out.push(b'"');
    } else {
        serde_json::to_writer(out, text).expect("text can be written to memory");
    }
}

pub(crate) fn write_number(number: &Number, out: &mut Vec<u8>) {
    let (mut rest, negative) = match (number.as_u64(), number.as_i64()) {
        (Some(whole), _) => (whole, false),
        (None, Some(whole)) => (whole.unsigned_abs(), true),
        (None, None) => {
            return serde_json::to_writer(out, number).expect("text can be written to memory");
        }
    };
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[first..]);
}

/// Marks the bytes of a word that do not stand for themselves inside quotes. The first mark is right, behind it there
/// may be wrong ones.
fn marks(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let word = u64::from_le_bytes(word);
    let equal = |byte: u8| {
        let zero = word ^ (ONES * u64::from(byte));
        zero.wrapping_sub(ONES) & !zero
    };
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (control | equal(b'"') | equal(b'\\')) & (ONES << 7)
}

fn stands_for_itself(byte: u8) -> bool {
    byte >= 0x20 && !matches!(byte, b'"' | b'\\')
}

/// How many bytes stand for themselves inside quotes, up to the first that does not.
fn plain(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks();
    for (index, word) in words.iter().enumerate() {
        let marks = marks(*word);
        if marks != 0 {
            return index * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let plain = rest.iter().position(|byte| !stands_for_itself(*byte)).unwrap_or(rest.len());
    words.len() * 8 + plain
}

fn is_plain(bytes: &[u8]) -> bool {
    match bytes.last_chunk() {
        // The last eight may have been seen already.
        Some(last) => {
            let (words, _) = bytes.as_chunks();
            words.iter().all(|word| marks(*word) == 0) && marks(*last) == 0
        }
        None => bytes.iter().all(|byte| stands_for_itself(*byte)),
    }
}

/// Reads a whole text; nothing where it is not plain.
fn read(text: &str) -> Option<Value> {
    let mut reader = Reader::new(text);
    let value = reader.value(0)?;
    reader.is_at_end().then_some(value)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// What the maps and lists around hold so far: they are made when it is known how much they hold.
    fields: Vec<(Text, Value)>,
    items: Vec<Value>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, at: 0, fields: Vec::new(), items: Vec::new() }
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    /// Reads a map without one field of one of its maps.
    fn without(mut self, outer: &str, inner: &str) -> Option<Value> {
        let fields = self.fields(1, |reader, name, depth| {
            if name != outer || reader.next()? != b'{' {
                return reader.value(depth).map(Some);
            }
            let fields = reader.fields(depth + 1, |reader, name, depth| {
                if name != inner {
                    return reader.value(depth).map(Some);
                }
                reader.skip(depth)?;
                Some(None)
            })?;
            Some(Some(Value::Object(fields)))
        })?;
        self.is_at_end().then_some(Value::Object(fields))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// The next byte that is no space.
    fn next(&mut self) -> Option<u8> {
        match self.peek()? {
            b' ' | b'\n' | b'\t' | b'\r' => {
                self.skip_space();
                self.peek()
            }
            byte => Some(byte),
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        match self.next()? {
            b'"' => self.string().map(Value::String),
            b'{' if depth < DEEP => self.map(depth + 1).map(Value::Object),
            b'[' if depth < DEEP => self.list(depth + 1).map(Value::Array),
            b'-' | b'0'..=b'9' => self.number().map(Value::Number),
            b'n' => self.word("null", Value::Null),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            _ => None,
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += word.len();
        rest.starts_with(word.as_bytes()).then_some(value)
    }

    fn string(&mut self) -> Option<Text> {
        let start = self.at + 1;
        let mut end = start + plain(self.text.as_bytes().get(start..)?);
        match self.text.as_bytes().get(end)? {
            b'"' => {
                self.at = end + 1;
                self.text.get(start..end).map(Text::new)
            }
            b'\\' => {
                // Behind a backslash nothing ends the text.
                while self.text.as_bytes().get(end)? != &b'"' {
                    end += if self.text.as_bytes()[end] == b'\\' { 2 } else { 1 };
                }
                self.at = end + 1;
                let quoted = self.text.get(start - 1..self.at)?;
                serde_json::from_str::<String>(quoted).ok().map(Text::from)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Number> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let negative = rest.first() == Some(&b'-');
        let digits = &rest[usize::from(negative)..];
        let count = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        let is_whole = !matches!(digits.get(count), Some(b'.' | b'e' | b'E'));
        // Up to so many digits fit; a zero is written alone and has no sign.
        if is_whole && (1..=18).contains(&count) && (digits[0] != b'0' || (count == 1 && !negative))
        {
            let whole =
                digits[..count].iter().fold(0, |whole, digit| whole * 10 + i64::from(digit - b'0'));
            self.at += count + usize::from(negative);
            return Some(Number::from(if negative { -whole } else { whole }));
        }
        let is_part =
            |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let number = self.text.get(self.at..self.at + length)?;
        self.at += length;
        serde_json::from_str(number).ok()
    }

    fn map(&mut self, depth: usize) -> Option<Map> {
        self.fields(depth, |reader, _, depth| reader.value(depth).map(Some))
    }

    /// Reads a map, its values by a function that may leave them out.
    #[inline]
    fn fields(
        &mut self,
        depth: usize,
        value: impl Fn(&mut Self, &str, usize) -> Option<Option<Value>>,
    ) -> Option<Map> {
        if self.next()? != b'{' {
            return None;
        }
        self.at += 1;
        let first = self.fields.len();
        if self.next()? == b'}' {
            self.at += 1;
            return Some(Map::new());
        }
        loop {
            if self.next()? != b'"' {
                return None;
            }
            let name = self.string()?;
            if self.next()? != b':' {
                return None;
            }
            self.at += 1;
            if let Some(value) = value(self, &name, depth)? {
                self.fields.push((name, value));
            }
            match self.next()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return None,
            }
        }
        self.at += 1;
        Some(Map::from_fields(gathered(&mut self.fields, first)))
    }

    /// Passes over a value.
    fn skip(&mut self, depth: usize) -> Option<()> {
        match self.next()? {
            b'"' => self.skip_string(),
            open @ (b'{' | b'[') if depth < DEEP => {
                self.at += 1;
                let close = open + 2;
                if self.next()? == close {
                    self.at += 1;
                    return Some(());
                }
                loop {
                    if open == b'{' {
                        if self.next()? != b'"' {
                            return None;
                        }
                        self.skip_string()?;
                        if self.next()? != b':' {
                            return None;
                        }
                        self.at += 1;
                    }
                    self.skip(depth + 1)?;
                    match self.next()? {
                        b',' => self.at += 1,
                        end if end == close => break,
                        _ => return None,
                    }
                }
                self.at += 1;
                Some(())
            }
            _ => self.value(depth).map(drop),
        }
    }

    fn skip_string(&mut self) -> Option<()> {
        let end = self.at + 1 + plain(self.text.as_bytes().get(self.at + 1..)?);
        match self.text.as_bytes().get(end)? {
            b'"' => {
                self.at = end + 1;
                Some(())
            }
            _ => self.string().map(drop),
        }
    }

    fn list(&mut self, depth: usize) -> Option<List> {
        self.at += 1;
        let first = self.items.len();
        if self.next()? == b']' {
            self.at += 1;
            return Some(List::new());
        }
        loop {
            let item = self.value(depth)?;
            self.items.push(item);
            match self.next()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return None,
            }
        }
        self.at += 1;
        Some(gathered(&mut self.items, first).into())
    }
}

/// What was gathered from a place on, in as much memory as it takes.
fn gathered<T: Clone>(held: &mut Vec<T>, first: usize) -> EcoVec<T> {
    match held.len() - first {
        1 => held.pop().map(|only| [only].into()).unwrap_or_default(),
        _ => held.split_off(first).into(),
    }
}
