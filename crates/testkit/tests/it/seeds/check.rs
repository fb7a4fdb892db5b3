//! What has to be so, whatever happened.

use std::collections::BTreeMap;

use karmada_api::names;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_testkit::{Happening, Line, World};

use super::model::{Kind, Taints, Template};

/// The binding of a template.
pub(crate) async fn binding(world: &World, template: &Template) -> Option<Value> {
    let name = format!("{}-{}", template.name, template.kind.word().to_lowercase());
    if template.kind == Kind::ClusterRole {
        let place = "clusterresourcebindings.v1alpha2.work.karmada.io";
        return world.get(place, "", &name).await;
    }
    world.get("resourcebindings.v1alpha2.work.karmada.io", "default", &name).await
}

/// The name of a template's Works.
fn work_of(template: &Template) -> String {
    names::work(template.kind.word(), &template.name, template.kind.namespace())
}

/// Whether a copy has to be gone before others are written, and is not.
pub(crate) async fn waits_for_purge(world: &World, template: &Template) -> bool {
    let binding = binding(world, template).await.unwrap_or_default();
    let tasks = binding.list_at(&["spec", "gracefulEvictionTasks"]).iter();
    for task in tasks.filter(|task| task["purgeMode"] == "Directly") {
        let space = names::execution_space(task["fromCluster"].as_str().unwrap_or_default());
        let work = world.get("works.v1alpha1.work.karmada.io", &space, &work_of(template)).await;
        if work.is_some() {
            return true;
        }
    }
    false
}

fn shares(binding: &Value) -> BTreeMap<String, i64> {
    let targets = binding.list_at(&["spec", "clusters"]);
    let share = |target: &Value| {
        let name = target.str_at(&["name"]).unwrap_or_default().to_owned();
        (name, target.i64_at(&["replicas"]).unwrap_or_default())
    };
    targets.iter().map(share).collect()
}

/// What the member has of a template, if Karmada put it there.
async fn managed(world: &World, member: &str, template: &Template) -> Option<Value> {
    let kind = template.kind;
    let object = world.member(member).get(kind.resource(), kind.namespace(), &template.name).await;
    object.filter(|object| object.label(karmada_api::labels::MANAGED) == Some("true"))
}

/// Whether a member has a template as it is to be; for those whose replicas are not divided.
pub(crate) async fn has_current(
    world: &World,
    member: &str,
    template: &Template,
) -> Result<(), String> {
    let title = template.title();
    let Some(object) = managed(world, member, template).await else {
        return Err(format!("{member} has no {title}"));
    };
    match template.differs(member, &object, template.replicas) {
        Some(why) => Err(format!("{title} in {member}: {why}")),
        None => Ok(()),
    }
}

/// Whether everything is as it was told to be. `zombies` are objects a backup brought back that
/// nobody knows of any more.
pub(crate) async fn converged(
    world: &World,
    templates: &[Template],
    zombies: &[(String, String)],
) -> Result<(), String> {
    for member in world.members() {
        if !world.is_ready(&member).await {
            return Err(format!("{member} is not ready"));
        }
    }
    for template in templates {
        if template.alive {
            placed(world, template, zombies).await?;
        } else {
            gone(world, template, zombies).await?;
        }
    }
    Ok(())
}

async fn placed(
    world: &World,
    template: &Template,
    zombies: &[(String, String)],
) -> Result<(), String> {
    let title = template.title();
    let kind = template.kind;
    let own = world.get(kind.resource(), kind.namespace(), &template.name).await;
    let own = own.ok_or_else(|| format!("{title} is lost on the control plane"))?;
    if own["metadata"]["annotations"]["payload"] != template.payload.to_string().as_str() {
        return Err(format!("the last change of {title} is lost on the control plane"));
    }
    let binding =
        binding(world, template).await.ok_or_else(|| format!("{title} has no binding"))?;
    let shares = shares(&binding);
    let names = shares.keys().cloned().collect();
    if template.divided {
        let sum: i64 = shares.values().sum();
        if sum != template.replicas || !template.clusters.is_superset(&names) {
            return Err(format!(
                "{title}: {} replicas for {:?} are divided as {shares:?}",
                template.replicas, template.clusters
            ));
        }
    } else if names != template.clusters {
        return Err(format!("{title}: bound to {names:?}, told {:?}", template.clusters));
    }
    let mut ready = 0;
    for member in world.members() {
        let object = managed(world, &member, template).await;
        match (shares.get(&member), object) {
            (Some(share), Some(object)) => {
                ready += object.i64_at(&["status", "readyReplicas"]).unwrap_or_default();
                if let Some(why) = template.differs(&member, &object, *share) {
                    return Err(format!("{title} in {member}: {why}"));
                }
            }
            (Some(_), None) => return Err(format!("{member} has no {title}")),
            (None, Some(_)) if !zombies.contains(&(member.clone(), title.clone())) => {
                return Err(format!("{member} still has {title}"));
            }
            _ => {}
        }
    }
    if !binding.list_at(&["spec", "gracefulEvictionTasks"]).is_empty() {
        return Err(format!("{title} is still being evicted"));
    }
    let conditions = binding.list_at(&["status", "conditions"]);
    let applied = conditions.iter().find(|condition| condition["type"] == "FullyApplied");
    if applied.is_none_or(|applied| applied["status"] != "True") {
        return Err(format!("{title}: FullyApplied is {applied:?}"));
    }
    let rolled_up = own.i64_at(&["status", "readyReplicas"]).unwrap_or_default();
    let wanted: i64 = shares.values().sum();
    if kind == Kind::Deployment && (rolled_up != ready || ready != wanted) {
        return Err(format!("{title}: {rolled_up} ready in the template, {ready} in the members"));
    }
    Ok(())
}

async fn gone(
    world: &World,
    template: &Template,
    zombies: &[(String, String)],
) -> Result<(), String> {
    let title = template.title();
    let kind = template.kind;
    if world.get(kind.resource(), kind.namespace(), &template.name).await.is_some() {
        return Err(format!("{title} came back from the dead"));
    }
    if binding(world, template).await.is_some() {
        return Err(format!("{title} is gone, its binding is not"));
    }
    for member in world.members() {
        let known = zombies.contains(&(member.clone(), title.clone()));
        if !known && managed(world, &member, template).await.is_some() {
            return Err(format!("{title} is gone, {member} still has it"));
        }
    }
    Ok(())
}

/// Looks at everything that left a member: somebody must have said so.
pub(crate) fn nothing_left_unasked(
    world: &World,
    templates: &[Template],
    excused: &[(u64, String, String)],
    taints: &Taints,
    seen_since: u64,
) -> Result<(), String> {
    let lines = world.lines();
    for (place, line) in lines.iter().enumerate() {
        if line.happening != Happening::Deleted || line.place == "plane" || !line.managed {
            continue;
        }
        let is_it =
            |template: &&Template| template.kind.word() == line.kind && template.name == line.name;
        let Some(template) = templates.iter().find(is_it) else { continue };
        let same = |other: &Line| {
            (&other.place, &other.kind, &other.name) == (&line.place, &line.kind, &line.name)
        };
        let added = lines[..place].iter().rev();
        let added = added.clone().find(|other| same(other) && other.happening == Happening::Added);
        let from = added.map_or(0, |added| added.at);
        let title = template.title();
        let by_test = excused.iter().any(|(at, member, excused)| {
            *member == line.place && *excused == title && *at <= line.at && line.at <= *at + 1000
        });
        if by_test || template.was_unwanted(&line.place, from, line.at) {
            continue;
        }
        let binding = format!("{}-{}", template.name, template.kind.word().to_lowercase());
        let is_bound = |other: &&Line| {
            other.place == "plane" && other.name == binding && other.kind.ends_with("Binding")
        };
        let was_to_stay = |until: usize| {
            let last = lines[..until].iter().rev().find(is_bound);
            last.is_some_and(|last| last.at > seen_since && last.leaving.contains(&line.place))
        };
        // A Work that is being deleted stays so whatever is decided next, and takes its copy along
        // whenever the member answers again.
        let (space, work) = (names::execution_space(&line.place), work_of(template));
        let own = lines[..place].iter().enumerate().rev();
        let own = own.filter(|(_, other)| other.namespace == space && other.name == work);
        let decided = own.take_while(|(_, other)| other.going).last().map_or(place, |(at, _)| at);
        if was_to_stay(place) && was_to_stay(decided) {
            return Err(format!(
                "{title} left {} at {} before it was replaced",
                line.place, line.at
            ));
        }
        let dropped = lines[..place].iter().any(|other| {
            other.place == "plane"
                && other.name == binding
                && other.at >= from
                && !other.clusters.contains(&line.place)
        });
        let is_expelled = taints.may_expel(template, &line.place, from, line.at);
        if (template.divided || is_expelled) && dropped {
            continue;
        }
        return Err(format!("{title} left {} at {} and nobody said so", line.place, line.at));
    }
    Ok(())
}
