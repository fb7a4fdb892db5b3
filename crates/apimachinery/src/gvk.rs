//! Group, version, kind and resource names, and their spellings.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A group and version, spelled `apps/v1`, or `v1` for the core group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct GroupVersion {
    pub group: String,
    pub version: String,
}

impl GroupVersion {
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Parses an `apiVersion`; more than one slash is no API version.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None => Some(Self::new("", api_version)),
            Some((group, version)) if !version.contains('/') => Some(Self::new(group, version)),
            Some(_) => None,
        }
    }

    pub fn with_kind(&self, kind: impl Into<String>) -> Gvk {
        Gvk { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        f.write_str(&self.version)
    }
}

/// A group, version and kind. Displays as Go does: `apps/v1, Kind=Deployment`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Gvk {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Gvk {
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        kind: impl Into<String>,
    ) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The `apiVersion` of objects of this kind.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&*self.group, &*self.version)
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() && self.version.is_empty() {
            return write!(f, "/, Kind={}", self.kind);
        }
        write!(f, "{}, Kind={}", self.group_version(), self.kind)
    }
}

/// A group and kind, spelled `Deployment.apps`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// A group and resource, spelled `deployments.apps`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct GroupResource {
    pub group: String,
    pub resource: String,
}

impl GroupResource {
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// A group, version and resource: what a request path names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Gvr {
    pub group: String,
    pub version: String,
    pub resource: String,
}

impl Gvr {
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        resource: impl Into<String>,
    ) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.group, &*self.resource)
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&*self.group, &*self.version)
    }
}

impl fmt::Display for Gvr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Resource={}", self.group_version(), self.resource)
    }
}
