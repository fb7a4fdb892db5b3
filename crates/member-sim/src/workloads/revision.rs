//! Remembers the templates a workload had: as a hash in names and labels, and as
//! ControllerRevisions for those that can go back to them.

use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, DeleteOptions, Object, Result};
use karmada_runtime::{Cache, ObjectKey};

use super::ownership::{Claimer, accepts_all, controller_reference};

pub(crate) const REVISION_HASH: &str = "controller-revision-hash";
/// The label by which revisions themselves carry their hash.
const HISTORY_HASH: &str = "controller.kubernetes.io/hash";

/// Longest part of an owner's name in the name of a revision.
const NAME_PART: usize = 223;

pub(crate) fn revisions() -> Gvr {
    Gvr::new("apps", "v1", "controllerrevisions")
}

/// A short hash of a template, spelled so that it is a label and contains no words. Workloads
/// whose hash belongs to something else count their collisions.
pub(crate) fn template_hash(template: &Value, collisions: Option<i64>) -> String {
    let mut hash = fnv1a(0x811c_9dc5, template.to_string().as_bytes());
    if let Some(collisions) = collisions {
        hash = fnv1a(hash, &collisions.to_le_bytes());
    }
    encode(hash)
}

fn fnv1a(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Without vowels and digits that look like letters.
fn encode(hash: u32) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let letter = |digit: u8| char::from(LETTERS[usize::from(digit) % LETTERS.len()]);
    hash.to_string().bytes().map(letter).collect()
}

/// One remembered template.
#[derive(Debug, Clone)]
pub(crate) struct Revision {
    pub(crate) object: Arc<Object>,
    pub(crate) number: i64,
    data: Value,
}

impl Revision {
    fn of(object: Arc<Object>) -> Self {
        let mut value = object.value();
        let number = value.i64_at(&["revision"]).unwrap_or_default();
        Self { object, number, data: value["data"].take() }
    }

    pub(crate) fn name(&self) -> &str {
        self.object.name()
    }

    /// The template it stands for.
    pub(crate) fn template(&self) -> Value {
        let mut template =
            self.data.at(&["spec", "template"]).cloned().unwrap_or_else(|| json!({}));
        if let Some(fields) = template.as_object_mut() {
            fields.remove("$patch");
        }
        template
    }
}

/// What a revision holds: a patch that brings the template back.
fn data_of(template: &Value) -> Value {
    let mut template = template.clone();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// What has to be done for the present template to be the newest revision.
#[derive(Debug, PartialEq)]
enum Step {
    /// The newest one, or an older one that already is the newest number.
    Use(usize),
    /// An older one becomes the newest.
    Renumber(usize, i64),
    Create(i64),
}

fn next_step(history: &[Revision], data: &Value) -> Step {
    let newest = history.last().map_or(0, |revision| revision.number);
    match history.iter().rposition(|revision| &revision.data == data) {
        None => Step::Create(newest + 1),
        Some(at) if at + 1 == history.len() => Step::Use(at),
        Some(at) => Step::Renumber(at, newest + 1),
    }
}

/// The revisions of one workload.
pub(crate) struct History<'a> {
    pub(crate) client: &'a Client,
    /// The resource of the workload.
    pub(crate) owners: &'a Gvr,
    pub(crate) cache: &'a Cache,
}

/// All revisions of a workload, oldest first, and which of them is the present template.
pub(crate) struct Revisions {
    pub(crate) all: Vec<Revision>,
    pub(crate) update: Revision,
    pub(crate) collisions: i64,
}

impl History<'_> {
    /// Finds or makes the revision of the present template.
    pub(crate) async fn sync(
        &self,
        owner: &Object,
        spec: &Value,
        collisions: i64,
    ) -> Result<Revisions> {
        let api = self.client.api(&revisions()).namespaced(owner.namespace());
        let claimer = Claimer {
            owners: self.client.api(self.owners).namespaced(owner.namespace()),
            objects: api.clone(),
            cache: self.cache,
            finalizer: None,
            accepts: &accepts_all,
        };
        let selector =
            LabelSelector::from_object(spec.at(&["selector"])).unwrap_or(LabelSelector::nothing());
        let mut all: Vec<_> = claimer.claim(owner, &selector).await?;
        let mut all: Vec<_> = all.drain(..).map(Revision::of).collect();
        all.sort_by_key(|revision| (revision.number, ObjectKey::of(&revision.object)));
        let template = spec.at(&["template"]).cloned().unwrap_or_default();
        let data = data_of(&template);
        let mut revisions = match next_step(&all, &data) {
            Step::Use(at) => Revisions { update: all[at].clone(), all, collisions },
            Step::Renumber(at, number) => {
                let mut object = all[at].object.value();
                object["revision"] = number.into();
                let update = read(&api.update(&object).await?)?;
                all[at] = update.clone();
                Revisions { update, all, collisions }
            }
            Step::Create(number) => {
                let (update, collisions) =
                    self.create(owner, &template, data, number, collisions).await?;
                all.push(update.clone());
                Revisions { update, all, collisions }
            }
        };
        revisions.all.sort_by_key(|revision| revision.number);
        Ok(revisions)
    }

    async fn create(
        &self,
        owner: &Object,
        template: &Value,
        data: Value,
        number: i64,
        mut collisions: i64,
    ) -> Result<(Revision, i64)> {
        let api = self.client.api(&revisions()).namespaced(owner.namespace());
        loop {
            let object = render(owner, template, &data, number, collisions);
            match api.create(&object).await {
                Ok(created) => return Ok((read(&created)?, collisions)),
                Err(error) if error.is_already_exists() => {
                    // It may be ours, not yet in the cache.
                    let existing = api.get(object.name()).await?;
                    if existing.get("data") == Some(&data) {
                        return Ok((read(&existing)?, collisions));
                    }
                    collisions += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Deletes the oldest revisions nobody uses any more, but for `limit` of them.
    pub(crate) async fn truncate(
        &self,
        all: &[Revision],
        is_live: impl Fn(&Revision) -> bool,
        limit: usize,
    ) -> Result<()> {
        let unused: Vec<_> = all.iter().filter(|revision| !is_live(revision)).collect();
        let surplus = unused.len().saturating_sub(limit);
        for revision in &unused[..surplus] {
            let api = self.client.api(&revisions()).namespaced(revision.object.namespace());
            match api.delete(revision.name(), &DeleteOptions::default()).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

fn read(value: &Value) -> Result<Revision> {
    let object = Object::from_value(value).map_err(|source| karmada_client::Error::Decode {
        attempt: "write a controller revision".to_owned(),
        source,
    })?;
    Ok(Revision::of(Arc::new(object)))
}

fn render(owner: &Object, template: &Value, data: &Value, number: i64, collisions: i64) -> Value {
    let hash = template_hash(data, Some(collisions).filter(|count| *count > 0));
    let mut labels = template.at(&["metadata", "labels"]).cloned().unwrap_or_else(|| json!({}));
    labels[HISTORY_HASH] = hash.as_str().into();
    if owner.gvk().kind == "DaemonSet" {
        // Its pods are told apart by the hash, those of a StatefulSet by the revision's name.
        labels[REVISION_HASH] = hash.as_str().into();
    }
    let prefix: String = owner.name().chars().take(NAME_PART).collect();
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": format!("{prefix}-{hash}"),
            "namespace": owner.namespace(),
            "labels": labels,
            "annotations": owner.meta().annotations,
            "ownerReferences": [controller_reference(owner)],
        },
        "data": data,
        "revision": number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(number: i64, image: &str) -> Revision {
        let object = json!({"metadata": {"name": format!("r{number}")}, "revision": number,
            "data": data_of(&json!({"spec": {"image": image}}))});
        read(&object).unwrap()
    }

    #[test]
    fn hashes_differ_by_template_and_collision_and_never_spell_words() {
        let (a, b) = (json!({"image": "a"}), json!({"image": "b"}));
        let hashes = [template_hash(&a, None), template_hash(&b, None), template_hash(&a, Some(1))];
        assert_eq!(template_hash(&a, None), hashes[0]);
        assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2]);
        assert!(hashes.iter().all(|hash| !hash.contains(|c: char| "aeiou013".contains(c))));
    }

    #[test]
    fn going_back_to_an_old_template_gives_its_revision_the_newest_number() {
        let history = [revision(1, "a"), revision(2, "b")];
        let step = |image: &str| next_step(&history, &data_of(&json!({"spec": {"image": image}})));
        assert_eq!(step("a"), Step::Renumber(0, 3));
        assert_eq!(step("b"), Step::Use(1));
        assert_eq!(step("c"), Step::Create(3));
        assert_eq!(next_step(&[], &json!({})), Step::Create(1));
    }

    #[test]
    fn a_revision_gives_its_template_back() {
        assert_eq!(revision(1, "a").template(), json!({"spec": {"image": "a"}}));
    }
}
