//! A few short texts kept as one: an object has many of them, and there are many objects.

/// Texts one behind the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Texts {
    text: Box<str>,
    /// Where each of them ends.
    ends: Box<[u32]>,
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for one in texts {
            text.push_str(one.as_ref());
            // Objects are far smaller than that.
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

impl Texts {
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let end = *end as usize;
            let one = self.text.get(start..end).unwrap_or_default();
            start = end;
            one
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_as_they_were_given() {
        let given = ["app", "", "tier", "front\0end", "ü", "x"];
        let texts: Texts = given.into_iter().collect();
        assert_eq!(texts.iter().collect::<Vec<_>>(), given);
        assert_eq!(Texts::default().iter().count(), 0);
    }
}
