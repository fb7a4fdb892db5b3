//! The key of an object below the prefix of its resource: `namespace/name` or `name`.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

/// The end of a key of the store, with which it shares its text.
#[derive(Debug, Clone, Default)]
pub struct Key {
    whole: Arc<str>,
    prefix: u32,
}

impl Key {
    /// What follows the prefix, if the key begins with it.
    pub fn below(prefix: &str, whole: &Arc<str>) -> Self {
        let prefix = if whole.starts_with(prefix) { prefix.len() } else { 0 };
        // Keys are far shorter than that.
        Self { whole: whole.clone(), prefix: u32::try_from(prefix).unwrap_or_default() }
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        self.whole.get(self.prefix as usize..).unwrap_or_default()
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        str::cmp(self, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_follows_its_prefix() {
        let below = |prefix: &str, whole: &str| Key::below(prefix, &whole.into());
        assert_eq!(&*below("/registry/pods/", "/registry/pods/a/b"), "a/b");
        assert_eq!(&*below("/registry/nodes/", "/registry/pods/a"), "/registry/pods/a");
        assert_eq!(below("/x/", "/x/a"), below("/longer/", "/longer/a"));
        assert!(below("/x/", "/x/a") < below("/a/", "/a/b"));
        assert_eq!(&*Key::default(), "");
    }
}
