//! Labels and annotations as one text: an object has several of them, there are many objects, and they are
//! read far more often than made.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::selector::Labelled;

/// Names and their values, sorted by name. Copies share them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pairs(
    /// The names and values in turn, each behind its length.
    Arc<str>,
);

/// Lengths are written in characters of six bits, the lowest first; this bit says that another one follows.
const MORE: u8 = 0x40;

fn push(out: &mut String, text: &str) {
    let mut length = text.len();
    loop {
        let (digit, rest) = (length as u8 & (MORE - 1), length >> 6);
        out.push(char::from(if rest == 0 { digit } else { digit | MORE }));
        length = rest;
        if rest == 0 {
            break;
        }
    }
    out.push_str(text);
}

/// Takes a text off the beginning.
fn take<'a>(texts: &mut &'a str) -> Option<&'a str> {
    let (mut length, mut shift) = (0_usize, 0);
    let mut digits = texts.bytes();
    loop {
        let digit = digits.next()?;
        length |= usize::from(digit & (MORE - 1)) << shift;
        shift += 6;
        if digit & MORE == 0 {
            break;
        }
    }
    let begin = texts.len() - digits.len();
    let text = texts.get(begin..begin + length)?;
    *texts = &texts[begin + length..];
    Some(text)
}

impl Pairs {
    /// Takes pairs as they come; of those with the same name the last one counts.
    fn from_list(mut pairs: Vec<(Part<'_>, Part<'_>)>) -> Self {
        let is_sorted = pairs.is_sorted_by(|(a, _), (b, _)| **a < **b);
        if !is_sorted {
            pairs.reverse();
            pairs.sort_by(|(a, _), (b, _)| str::cmp(a, b));
            pairs.dedup_by(|(later, _), (first, _)| **later == **first);
        }
        if pairs.is_empty() {
            return Self::default();
        }
        let size = pairs.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut texts = String::with_capacity(size);
        for (name, value) in &pairs {
            push(&mut texts, name);
            push(&mut texts, value);
        }
        Self(texts.into())
    }

    /// The same pairs out of those that `share` gives for equal ones.
    pub fn shared(self, share: impl FnOnce(Arc<str>) -> Arc<str>) -> Self {
        if self.is_empty() { self } else { Self(share(self.0)) }
    }

    pub fn iter(&self) -> Iter<'_> {
        Iter(&self.0)
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(_, value)| value)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// The pairs as a map, for those who change them.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

impl Default for Pairs {
    fn default() -> Self {
        static NONE: LazyLock<Arc<str>> = LazyLock::new(Arc::default);
        Self(NONE.clone())
    }
}

impl Labelled for Pairs {
    fn label(&self, name: &str) -> Option<&str> {
        self.get(name)
    }

    fn labels(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(self.iter())
    }
}

/// The pairs one after the other.
#[derive(Debug, Clone)]
pub struct Iter<'a>(&'a str);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        Some((take(&mut self.0)?, take(&mut self.0)?))
    }
}

impl<'a> IntoIterator for &'a Pairs {
    type Item = (&'a str, &'a str);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        Self::from_list(pairs.map(|(name, value)| (Part::Lent(name), Part::Lent(value))).collect())
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl Serialize for Pairs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A text of what is read, as a part of it where it is one.
enum Part<'de> {
    Lent(&'de str),
    Own(String),
}

impl std::ops::Deref for Part<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Lent(text) => text,
            Self::Own(text) => text,
        }
    }
}

impl<'de> Deserialize<'de> for Part<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = Part<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Part<'de>, E> {
                Ok(Part::Lent(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Part<'de>, E> {
                Ok(Part::Own(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Part<'de>, E> {
                Ok(Part::Own(text))
            }
        }

        deserializer.deserialize_str(Texts)
    }
}

/// Reads a map of texts; `null` reads as none.
impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Maps;

        impl<'de> Visitor<'de> for Maps {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs::from_list(pairs))
            }

            fn visit_some<D: Deserializer<'de>>(self, some: D) -> Result<Pairs, D::Error> {
                some.deserialize_map(self)
            }

            fn visit_none<E>(self) -> Result<Pairs, E> {
                Ok(Pairs::default())
            }

            fn visit_unit<E>(self) -> Result<Pairs, E> {
                Ok(Pairs::default())
            }
        }

        deserializer.deserialize_option(Maps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn pairs_come_back_as_they_were_given_in_order() {
        let long = "x".repeat(5000);
        let given = [("tier", "ü\0"), ("app", ""), ("", "none"), ("long", long.as_str())];
        let pairs: Pairs = given.into_iter().collect();
        let expected: BTreeMap<_, _> = given.into();
        assert!(pairs.iter().eq(expected.clone()));
        assert_eq!(
            (pairs.get("app"), pairs.get("tier"), pairs.get("x")),
            (Some(""), Some("ü\0"), None)
        );
        assert_eq!((pairs.len(), pairs.contains_key(""), pairs.is_empty()), (4, true, false));
        let text = serde_json::to_string(&pairs).unwrap();
        assert_eq!(text, serde_json::to_string(&expected).unwrap());
        assert_eq!(serde_json::from_str::<Pairs>(&text).unwrap(), pairs);
        for size in [63, 64, 65, 4095, 4096, 1 << 18] {
            let value = "y".repeat(size);
            let pairs: Pairs = [("a", value.as_str()), ("b", "c")].into_iter().collect();
            assert_eq!((pairs.get("a"), pairs.get("b")), (Some(value.as_str()), Some("c")));
        }
    }

    #[test]
    fn whatever_is_no_map_of_texts_is_refused_and_null_is_none() {
        let none: Pairs = serde_json::from_str("null").unwrap();
        assert!(none.is_empty() && none == Pairs::default() && none.iter().next().is_none());
        for odd in [r#"{"a":1}"#, r#"{"a":null}"#, "[]", "\"a\""] {
            assert!(serde_json::from_str::<Pairs>(odd).is_err(), "{odd}");
        }
        let twice: Pairs = serde_json::from_str(r#"{"b":"1","a":"\n","b":"2"}"#).unwrap();
        assert!(twice.iter().eq([("a", "\n"), ("b", "2")]));
        let tree = json!({"a": "b"});
        assert_eq!(Pairs::deserialize(&tree).unwrap().get("a"), Some("b"));
    }
}
