//! The way to a value, for the few fields near the root that are treated unlike others.

/// The field names that lead to a value; no way leads into lists.
pub(super) struct Way<'w> {
    parent: Option<&'w Way<'w>>,
    name: &'w str,
    length: usize,
}

impl<'w> Way<'w> {
    pub(super) const ROOT: Way<'static> = Way { parent: None, name: "", length: 0 };

    pub(super) fn is_root(&self) -> bool {
        self.length == 0
    }

    pub(super) fn field(&'w self, name: &'w str) -> Self {
        Self { parent: Some(self), name, length: self.length + 1 }
    }

    pub(super) fn is_one_of(&self, paths: &[&[&str]]) -> bool {
        paths.iter().any(|path| self.length == path.len() && self.is(path))
    }

    fn is(&self, path: &[&str]) -> bool {
        match (self.parent, path) {
            (None, []) => true,
            (Some(parent), [parents @ .., last]) => self.name == *last && parent.is(parents),
            _ => false,
        }
    }
}
