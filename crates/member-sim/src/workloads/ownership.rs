//! Which controller an object belongs to, and how controllers take up what nobody owns and let go
//! of what no longer matches.

use std::sync::Arc;

use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Meta, Object, OwnerReference, Patch, PatchOptions, Result};
use karmada_runtime::{Cache, ObjectKey};

/// Objects by the uid of their controller.
const BY_CONTROLLER: &str = "controller";
/// Objects without a controller, by namespace.
const ORPHANS: &str = "orphans";

/// Returns the owner that manages an object, if there is one.
pub(crate) fn controller_of(meta: &Meta) -> Option<&OwnerReference> {
    meta.owner_references.iter().find(|owner| owner.controller == Some(true))
}

/// The reference an object carries to the owner that manages it.
pub(crate) fn controller_reference(owner: &Object) -> Value {
    json!({
        "apiVersion": owner.gvk().api_version(),
        "kind": owner.gvk().kind,
        "name": owner.name(),
        "uid": owner.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Lets the objects of a cache be found by their controller. May be called more than once.
pub(crate) fn index_by_controller(cache: &Cache) {
    cache.add_index(BY_CONTROLLER, |object| {
        controller_of(object.meta()).map(|owner| owner.uid.clone()).into_iter().collect()
    });
    cache.add_index(ORPHANS, |object| match controller_of(object.meta()) {
        Some(_) => Vec::new(),
        None => vec![object.namespace().to_owned()],
    });
}

/// Returns the objects of this owner; the cache must be indexed.
pub(crate) fn owned_by(cache: &Cache, owner: &Object) -> Vec<Arc<Object>> {
    cache.by_index(BY_CONTROLLER, owner.uid())
}

pub(crate) fn orphans_in(cache: &Cache, namespace: &str) -> Vec<Arc<Object>> {
    cache.by_index(ORPHANS, namespace)
}

/// What an owner has to do about the objects around it.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) owned: Vec<Arc<Object>>,
    pub(crate) adopt: Vec<Arc<Object>>,
    pub(crate) release: Vec<Arc<Object>>,
}

/// Sorts the objects an owner has or could have by its selector.
pub(crate) fn sort_claims(
    owner: &Object,
    selector: &LabelSelector,
    owned: Vec<Arc<Object>>,
    orphans: Vec<Arc<Object>>,
) -> Claims {
    let matches = |object: &Arc<Object>| selector.matches_map(&object.meta().labels);
    let (mut claims, deleted) = (Claims::default(), owner.is_being_deleted());
    for object in owned {
        match (matches(&object), deleted) {
            (true, _) => claims.owned.push(object),
            // Whoever goes leaves everything to the garbage collector.
            (false, true) => {}
            (false, false) => claims.release.push(object),
        }
    }
    if !deleted && !selector.selects_nothing() {
        let free = |object: &Arc<Object>| !object.is_being_deleted() && matches(object);
        claims.adopt = orphans.into_iter().filter(free).collect();
    }
    claims
}

/// How an owner claims objects: those of `cache`, through `objects`; `owners` is its own kind.
pub(crate) struct Claimer<'a> {
    pub(crate) owners: Api,
    pub(crate) objects: Api,
    pub(crate) cache: &'a Cache,
    /// Added on adoption and taken away on release.
    pub(crate) finalizer: Option<&'a str>,
    /// Which objects may belong to the owner at all, whatever their labels say.
    pub(crate) accepts: &'a (dyn Fn(&Object) -> bool + Sync),
}

/// The usual answer of an owner that does not look at names.
pub(crate) fn accepts_all(_: &Object) -> bool {
    true
}

impl Claimer<'_> {
    /// Returns everything that belongs to the owner, after adopting and releasing as needed.
    pub(crate) async fn claim(
        &self,
        owner: &Object,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Object>>> {
        let (owned, orphans) =
            (owned_by(self.cache, owner), orphans_in(self.cache, owner.namespace()));
        let orphans = orphans.into_iter().filter(|object| (self.accepts)(object)).collect();
        let claims = sort_claims(owner, selector, owned, orphans);
        for object in &claims.release {
            self.release(owner, object).await?;
        }
        let mut owned = claims.owned;
        if !claims.adopt.is_empty() && self.still_there(owner).await? {
            for object in &claims.adopt {
                owned.extend(self.adopt(owner, object).await?);
            }
            owned.sort_by_cached_key(|object| ObjectKey::of(object));
        }
        Ok(owned)
    }

    /// The cache may not know yet that the owner is gone or another one.
    async fn still_there(&self, owner: &Object) -> Result<bool> {
        let current = self.owners.find(owner.name()).await?;
        Ok(current
            .is_some_and(|current| current.uid() == owner.uid() && !current.is_being_deleted()))
    }

    async fn adopt(&self, owner: &Object, object: &Object) -> Result<Option<Arc<Object>>> {
        let mut patch = json!({"metadata": {
            "uid": object.uid(),
            "ownerReferences": [controller_reference(owner)],
        }});
        if let Some(finalizer) = self.finalizer {
            patch["metadata"]["finalizers"] = json!([finalizer]);
        }
        match self.patch(object, patch).await? {
            Some(adopted) => Ok(Object::from_value(&adopted).ok().map(Arc::new)),
            None => Ok(None),
        }
    }

    async fn release(&self, owner: &Object, object: &Object) -> Result<()> {
        let mut patch = json!({"metadata": {
            "uid": object.uid(),
            "ownerReferences": [{"$patch": "delete", "uid": owner.uid()}],
        }});
        if let Some(finalizer) = self.finalizer {
            patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
        }
        self.patch(object, patch).await.map(drop)
    }

    /// Patches the object if it is still the one meant.
    async fn patch(&self, object: &Object, patch: Value) -> Result<Option<Value>> {
        let options = PatchOptions::default();
        match self.objects.patch(object.name(), &Patch::Strategic(patch), &options).await {
            Ok(patched) => Ok(Some(patched)),
            // Gone, or another object of the same name.
            Err(error) if error.is_not_found() || error.is_invalid() || error.is_conflict() => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, app: &str, deleted: bool) -> Arc<Object> {
        let mut value = json!({"metadata": {"name": name, "uid": name, "labels": {"app": app}}});
        if deleted {
            value["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Arc::new(Object::from_value(&value).unwrap())
    }

    fn names(objects: &[Arc<Object>]) -> Vec<&str> {
        objects.iter().map(|object| object.name()).collect()
    }

    #[test]
    fn an_owner_keeps_what_matches_and_takes_what_nobody_has() {
        let selector = LabelSelector::parse("app=web").unwrap();
        let owned = vec![object("a", "web", false), object("b", "db", false)];
        let orphans =
            vec![object("c", "web", false), object("d", "db", false), object("e", "web", true)];
        let claims =
            sort_claims(&object("o", "", false), &selector, owned.clone(), orphans.clone());
        assert_eq!(names(&claims.owned), ["a"]);
        assert_eq!(names(&claims.release), ["b"]);
        assert_eq!(names(&claims.adopt), ["c"]);
        let claims = sort_claims(&object("o", "", true), &selector, owned, orphans);
        assert_eq!(names(&claims.owned), ["a"]);
        assert!(claims.release.is_empty() && claims.adopt.is_empty());
    }
}
