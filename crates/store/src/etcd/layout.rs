//! Where keys of the store lie in etcd. With the default prefix they lie where a Kubernetes API
//! server looks for them.

use super::messages::{Keys, Pair};
use crate::{Error, KeyValue, Result, prefix_end};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// What keys of the store begin with.
    ours: String,
    /// What stands in etcd instead.
    theirs: String,
}

impl Layout {
    pub(super) fn new(ours: &str, theirs: &str) -> Self {
        let theirs = theirs.trim_matches('/');
        Self { ours: ours.to_owned(), theirs: format!("/{theirs}") }
    }

    /// Everything of the store.
    pub(super) fn whole(&self) -> Keys {
        let start = format!("{}/", self.theirs);
        let end = prefix_end(&start).unwrap_or_default();
        Keys { start: start.into_bytes(), end: end.into_bytes() }
    }

    /// Where a key lies.
    pub(super) fn to_theirs(&self, key: &str) -> Result<String> {
        match key.strip_prefix(&self.ours) {
            Some(rest) if rest.starts_with('/') => Ok(format!("{}{rest}", self.theirs)),
            _ => Err(Error::io(
                format!("find a place for the key {key} in etcd"),
                std::io::Error::other(format!("keys begin with {}/", self.ours)),
            )),
        }
    }

    /// Where the keys of a range lie.
    pub(super) fn keys(&self, start: &str, end: Option<&str>) -> Keys {
        let Keys { start: first, end: last } = self.whole();
        let start = self.to_theirs(start).map_or(first, String::into_bytes);
        let end = match end {
            None => last,
            Some(end) => match self.to_theirs(end) {
                Ok(end) => end.into_bytes(),
                // Before everything or behind it.
                Err(_) if end <= self.ours.as_str() => start.clone(),
                Err(_) => last,
            },
        };
        Keys { start, end }
    }

    pub(super) fn to_ours(&self, pair: Pair) -> Result<KeyValue> {
        let key = pair.key()?;
        let rest = key.strip_prefix(&self.theirs).unwrap_or(key);
        Ok(KeyValue {
            key: format!("{}{rest}", self.ours).into(),
            value: pair.value.into(),
            create_revision: pair.create_revision,
            mod_revision: pair.mod_revision,
            version: pair.version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(keys: Keys) -> (String, String) {
        let read = |bytes| String::from_utf8(bytes).unwrap();
        (read(keys.start), read(keys.end))
    }

    #[test]
    fn keys_lie_where_kubernetes_looks_for_them() {
        let layout = Layout::new("/registry", "/registry");
        let key = "/registry/configmaps/default/a";
        assert_eq!(layout.to_theirs(key).unwrap(), key);
        let other = Layout::new("/registry", "karmada/one/");
        assert_eq!(other.to_theirs(key).unwrap(), "/karmada/one/configmaps/default/a");
        assert!(other.to_theirs("/elsewhere").is_err());
        assert!(other.to_theirs("/registry2/a").is_err());
        let pair = Pair { key: "/karmada/one/configmaps/default/a".into(), ..Pair::default() };
        assert_eq!(&*other.to_ours(pair).unwrap().key, key);
    }

    #[test]
    fn a_range_never_leaves_the_prefix() {
        let layout = Layout::new("/registry", "/one");
        let cases = [
            ("", None, "/one/", "/one0"),
            ("/", Some("0"), "/one/", "/one0"),
            ("/registry/", Some("/registry0"), "/one/", "/one0"),
            ("/registry/pods/", Some("/registry/pods0"), "/one/pods/", "/one/pods0"),
            ("/registry/b", Some("/a"), "/one/b", "/one/b"),
        ];
        for (start, end, first, last) in cases {
            let keys = text(layout.keys(start, end));
            assert_eq!(keys, (first.to_owned(), last.to_owned()), "{start:?} {end:?}");
        }
    }
}
