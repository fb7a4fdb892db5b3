//! Says which policies select a template, which one holds it, and why the others do not.

use karmada_api::explain::{Explanation, PolicyCandidate};
use karmada_api::work::ResourceBindingSpec;
use karmada_propagation::claim::Holder;
use karmada_propagation::policies;
use karmada_runtime::ObjectKey;

use super::{Detector, head, holder};
use crate::explain::Explainer;
use crate::propagation::templates::gvk_of;

impl Explainer for Detector {
    fn explain(&self, _: &ObjectKey, spec: &ResourceBindingSpec, into: &mut Explanation) {
        let resource = &spec.resource;
        let key = ObjectKey::new(resource.namespace.as_str(), resource.name.as_str());
        let Some(template) = self.kinds.find(&gvk_of(resource), &key) else { return };
        let head = head(&template);
        let namespaced = match template.namespace() {
            "" => Vec::new(),
            namespace => self.policies.namespaced.read().candidates(namespace, &head),
        };
        let cluster_scoped = self.policies.cluster_scoped.read().candidates("", &head);
        let mut candidates = policies::explain(&namespaced, &cluster_scoped);
        stand_by(&mut candidates, holder(&template).as_ref());
        into.policies = candidates;
    }
}

/// A claim that stands is kept, whoever would win today.
fn stand_by(candidates: &mut Vec<PolicyCandidate>, holder: Option<&Holder>) {
    let held_by = match holder {
        Some(Holder::Policy { namespace, name, .. }) => {
            format!("PropagationPolicy {namespace}/{name}")
        }
        Some(Holder::ClusterPolicy { name, .. }) => format!("ClusterPropagationPolicy {name}"),
        Some(Holder::Foreign(owner)) => owner.clone(),
        None => {
            for candidate in candidates.iter_mut().filter(|candidate| candidate.won) {
                candidate.won = false;
                candidate.reason += "; it has not claimed the object yet";
            }
            return;
        }
    };
    let place = candidates.iter().position(|candidate| candidate.policy == held_by);
    let mut own = place.map(|place| candidates.remove(place)).unwrap_or_else(|| PolicyCandidate {
        policy: held_by.clone(),
        won: false,
        reason: "holds the object, although it does not select it".to_owned(),
    });
    for candidate in candidates.iter_mut().filter(|candidate| candidate.won) {
        candidate.won = false;
        candidate.reason += &format!("; {held_by} claimed the object before and keeps it");
    }
    own.won = true;
    candidates.insert(0, own);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(policy: &str, won: bool) -> PolicyCandidate {
        PolicyCandidate { policy: policy.to_owned(), won, reason: "selected by name".to_owned() }
    }

    #[test]
    fn the_holder_comes_first_and_the_better_one_is_told_why_it_waits() {
        let mut candidates = vec![
            candidate("PropagationPolicy ns/b", true),
            candidate("PropagationPolicy ns/a", false),
        ];
        let holder = Holder::Policy {
            namespace: "ns".to_owned(),
            name: "a".to_owned(),
            permanent_id: "id".to_owned(),
        };
        stand_by(&mut candidates, Some(&holder));
        let told: Vec<_> =
            candidates.iter().map(|c| format!("{} {}: {}", c.won, c.policy, c.reason)).collect();
        assert_eq!(
            told,
            [
                "true PropagationPolicy ns/a: selected by name",
                "false PropagationPolicy ns/b: selected by name; PropagationPolicy ns/a claimed the \
                 object before and keeps it",
            ]
        );
    }

    #[test]
    fn nobody_has_won_what_nobody_holds() {
        let mut candidates = vec![candidate("PropagationPolicy ns/b", true)];
        stand_by(&mut candidates, None);
        assert!(!candidates[0].won);
    }
}
