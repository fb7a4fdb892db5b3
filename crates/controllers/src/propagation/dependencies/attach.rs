//! The bindings of dependencies: made for those that are needed, emptied when they no longer are.

use std::sync::Arc;

use karmada_api::config::DependentObjectReference;
use karmada_api::work::ResourceBinding;
use karmada_api::{Kind, event_reason};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};
use karmada_client::Object;
use karmada_propagation::dependencies::{self, Wish};
use karmada_runtime::{ObjectKey, chain};

use super::{BY_REQUIRER, Ctx, Error, RETRIES, gvk_of, reference_of};
use crate::propagation::templates;

impl Ctx {
    /// The bindings of what this binding requires.
    pub(super) fn attached_to(&self, binding: &ResourceBinding) -> Vec<Arc<Object>> {
        let label = dependencies::depended_by(binding);
        let attached = self.bindings.cache().by_index(BY_REQUIRER, &label);
        attached
            .into_iter()
            .filter(|attached| attached.namespace() == binding.namespace())
            .collect()
    }

    /// Brings the bindings of all dependencies in line; returns whether anything was written.
    pub(super) async fn distribute(
        self: &Arc<Self>,
        binding: &ResourceBinding,
        needed: &[DependentObjectReference],
    ) -> Result<bool, Error> {
        let mut written = false;
        for attached in self.attached_to(binding) {
            let own = attached.typed_for_now::<ResourceBinding>()?;
            let object = templates::find(&self.kinds, reference_of(&own)).await?;
            let value = object.map(|object| object.value());
            if dependencies::is_orphan(&own, value.as_ref(), needed) {
                written |= self.detach(&attached, binding).await?;
            }
        }
        let (mut failures, mut is_busy) = (Vec::new(), false);
        for dependency in needed {
            match self.attach_all(binding, dependency).await {
                Ok(attached) => written |= attached,
                Err(Error::Busy) => is_busy = true,
                Err(error) => failures.push(chain(&error)),
            }
        }
        match failures.as_slice() {
            [] if is_busy => Err(Error::Busy),
            [] => Ok(written),
            failures => Err(Error::Several(failures.join(", "))),
        }
    }

    async fn attach_all(
        self: &Arc<Self>,
        binding: &ResourceBinding,
        dependency: &DependentObjectReference,
    ) -> Result<bool, Error> {
        let informer = self.follow(&gvk_of(dependency)).await?;
        let cache = informer.cache();
        let objects: Vec<Arc<Object>> = if dependency.name.is_empty() {
            let all = cache.list_namespace(&dependency.namespace).into_iter();
            all.filter(|object| dependencies::names_object(dependency, &object.value())).collect()
        } else {
            // One that is missing is attached when it appears.
            let key = ObjectKey::new(dependency.namespace.as_str(), dependency.name.as_str());
            cache.get(&key).into_iter().collect()
        };
        let mut written = false;
        for object in objects {
            if !templates::leaves_orphans(&object) {
                written |= self.attach(binding, &object.content()).await?;
            }
        }
        Ok(written)
    }

    async fn attach(&self, binding: &ResourceBinding, object: &Value) -> Result<bool, Error> {
        let desired = dependencies::attached(binding, object);
        let key = ObjectKey::new(desired.namespace(), desired.name());
        let mut existing = self.cached(&key)?;
        let api = self.api(desired.namespace());
        let place = format!(
            "{} {} {}/{}",
            object.api_version(),
            object.kind(),
            object.namespace(),
            object.name()
        );
        for _ in 0..RETRIES {
            let written = match &existing {
                None => api.create_owned(to_value(&desired)?).await,
                Some(existing) => {
                    let wishes = self.wishes(existing, binding)?;
                    let Some(updated) = dependencies::attach(existing, &desired, &wishes)? else {
                        return Ok(false);
                    };
                    if is_newer_version_only(&updated, existing)
                        && !self.changed.lock().contains(&place)
                    {
                        return Ok(false);
                    }
                    self.tell_conflict(existing, &wishes);
                    api.update(&to_value(&updated)?).await
                }
            };
            match written {
                Ok(_) => {
                    self.changed.lock().remove(&place);
                    return Ok(true);
                }
                Err(error)
                    if error.is_already_exists() || error.is_conflict() || error.is_not_found() =>
                {
                    let found = api.find(desired.name()).await.map_err(Error::List)?;
                    if found.is_none() && existing.is_none() {
                        return Err(Error::Attach(error));
                    }
                    existing = found.as_ref().map(ResourceBinding::from_value).transpose()?;
                }
                Err(error) => return Err(Error::Attach(error)),
            }
        }
        Err(Error::Busy)
    }

    /// Takes the requirer out of the binding of a dependency. The binding stays; with nobody left
    /// that wants it, it leads to no Work.
    pub(super) async fn detach(
        &self,
        attached: &Object,
        by: &ResourceBinding,
    ) -> Result<bool, Error> {
        let mut existing = Some((*attached.typed_for_now::<ResourceBinding>()?).clone());
        let api = self.api(attached.namespace());
        for _ in 0..RETRIES {
            let Some(present) = &existing else { return Ok(false) };
            let mut remaining = Vec::new();
            for snapshot in &present.spec.required_by {
                if snapshot.namespace != by.namespace() || snapshot.name != by.name() {
                    let key = ObjectKey::new(&*snapshot.namespace, &*snapshot.name);
                    remaining.extend(self.cached(&key)?.map(|other| Wish::of(&other)));
                }
            }
            let Some(updated) = dependencies::detach(present, by, &remaining) else {
                return Ok(false);
            };
            match api.update(&to_value(&updated)?).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_conflict() || error.is_not_found() => {
                    let found = api.find(attached.name()).await.map_err(Error::List)?;
                    existing = found.as_ref().map(ResourceBinding::from_value).transpose()?;
                }
                Err(error) => return Err(Error::Attach(error)),
            }
        }
        Err(Error::Busy)
    }

    /// What everybody that requires the dependency asks for it, this binding included.
    fn wishes(&self, attached: &ResourceBinding, by: &ResourceBinding) -> Result<Vec<Wish>, Error> {
        let mut wishes = vec![Wish::of(by)];
        for snapshot in &attached.spec.required_by {
            if snapshot.namespace == by.namespace() && snapshot.name == by.name() {
                continue;
            }
            let key = ObjectKey::new(&*snapshot.namespace, &*snapshot.name);
            let other = self.cached(&key)?.ok_or(Error::RequirerMissing(key))?;
            wishes.push(Wish::of(&other));
        }
        Ok(wishes)
    }

    fn cached(&self, key: &ObjectKey) -> Result<Option<ResourceBinding>, Error> {
        let Some(cached) = self.bindings.cache().get(key) else { return Ok(None) };
        Ok(Some((*cached.typed_for_now::<ResourceBinding>()?).clone()))
    }

    /// Says what the requirers of a dependency disagree about.
    fn tell_conflict(&self, attached: &ResourceBinding, wishes: &[Wish]) {
        let Some(conflict) = dependencies::disagreement(wishes) else { return };
        if attached.spec.placement.is_some() {
            return;
        }
        let about = json!({
            "apiVersion": ResourceBinding::api_version(),
            "kind": ResourceBinding::KIND,
            "metadata": attached.metadata,
        });
        let note = format!("Dependency policy conflict detected: {conflict}.");
        self.events.warning(&about, event_reason::DEPENDENCY_POLICY_CONFLICT, note);
    }
}

/// Whether nothing but the version of the dependency differs, which also moves with its status.
fn is_newer_version_only(updated: &ResourceBinding, existing: &ResourceBinding) -> bool {
    let mut updated = updated.clone();
    updated.spec.resource.resource_version.clone_from(&existing.spec.resource.resource_version);
    updated == *existing
}

fn to_value(binding: &ResourceBinding) -> Result<Value, Error> {
    let mut value = binding.to_value()?;
    value.set(&["apiVersion"], ResourceBinding::api_version());
    value.set(&["kind"], ResourceBinding::KIND);
    Ok(value)
}
