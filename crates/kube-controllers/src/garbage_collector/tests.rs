//! The graph and the decision, without a server.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::value::Text;
use karmada_client::{Meta, OwnerReference, Propagation};

use super::decide::{Dependents, Owner, Plan, plan};
use super::graph::{Deletion, Graph, Node};

fn reference(owner: &str, block: bool) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: owner.into(),
        uid: owner.into(),
        controller: None,
        block_owner_deletion: Some(block),
    }
}

fn node(uid: &str, owners: &[&str], deletion: Deletion) -> Node {
    Node {
        gvr: Gvr::new("", "v1", "pods").into(),
        kind: "Pod".into(),
        namespace: "ns".into(),
        name: uid.into(),
        uid: uid.into(),
        owners: owners.iter().map(|owner| reference(owner, true)).collect(),
        deletion,
    }
}

#[test]
fn changes_say_who_has_to_be_looked_at() {
    let mut graph = Graph::default();
    let none: [&str; 0] = [];
    assert_eq!(graph.apply(node("owner", &[], Deletion::None)), none);
    assert_eq!(graph.apply(node("child", &["owner"], Deletion::None)), ["child"]);
    assert_eq!(graph.apply(node("child", &["owner"], Deletion::None)), none, "nothing changed");
    assert_eq!(graph.apply(node("owner", &[], Deletion::Foreground)), ["owner", "child"]);
    let mut released = node("child", &["owner"], Deletion::None);
    released.owners = vec![reference("owner", false)].into();
    assert_eq!(graph.apply(released), ["child", "owner"], "a released owner may go");
    assert_eq!(graph.remove("child"), ["owner"], "the last dependent wakes its owner");
    assert!(!graph.has_dependents("owner"));
    graph.apply(node("orphan", &["never seen"], Deletion::None));
    assert_eq!(graph.apply(node("never seen", &[], Deletion::None)), ["orphan"]);
    assert_eq!(graph.remove("never seen"), ["orphan"]);
}

#[test]
fn a_reference_means_an_object_only_within_reach() {
    let owner = node("a", &[], Deletion::None);
    let mut cluster_wide = owner.clone();
    cluster_wide.namespace = Text::default();
    let good = reference("a", true);
    let renamed = OwnerReference { name: "b".into(), ..good.clone() };
    let other_kind = OwnerReference { kind: "Job".into(), ..good.clone() };
    let other_group = OwnerReference { api_version: "x.io/v1".into(), ..good.clone() };
    let cases = [
        (&owner, &good, "ns", true),
        (&owner, &good, "other", false),
        (&owner, &good, "", false),
        (&cluster_wide, &good, "other", true),
        (&owner, &renamed, "ns", false),
        (&owner, &other_kind, "ns", false),
        (&owner, &other_group, "ns", false),
    ];
    for (owner, reference, namespace, expected) in cases {
        assert_eq!(owner.is_meant_by(reference, namespace), expected, "{reference:?} {namespace}");
    }
}

#[test]
fn an_object_goes_only_when_no_owner_is_left() {
    use Owner::{Dangling, Solid, Waiting};
    let background = Plan::Delete(Propagation::Background);
    let drop = |uids: &[&str]| Plan::DropOwners(uids.iter().map(|uid| (*uid).to_owned()).collect());
    let cases: [(&[Owner], Dependents, Plan); 9] = [
        (&[], Dependents::None, Plan::Keep),
        (&[Solid], Dependents::None, Plan::Keep),
        (&[Dangling], Dependents::None, background.clone()),
        (&[Dangling, Dangling], Dependents::Some, background.clone()),
        (&[Solid, Dangling], Dependents::None, drop(&["1"])),
        (&[Waiting, Solid, Dangling], Dependents::Some, drop(&["0", "2"])),
        (&[Waiting], Dependents::None, background),
        (&[Waiting, Dangling], Dependents::Some, Plan::DeleteForeground { unblock: false }),
        (&[Waiting], Dependents::Waiting, Plan::DeleteForeground { unblock: true }),
    ];
    for (states, dependents, expected) in cases {
        let owners: Vec<_> = states
            .iter()
            .enumerate()
            .map(|(place, state)| (reference(&place.to_string(), true), *state))
            .collect();
        assert_eq!(plan(&Meta::default(), &owners, dependents), expected, "{states:?}");
    }
    for (finalizer, propagation) in
        [("orphan", Propagation::Orphan), ("foregroundDeletion", Propagation::Foreground)]
    {
        let meta = Meta { finalizers: [finalizer.into()].into(), ..Meta::default() };
        let owners = [(reference("a", true), Dangling)];
        assert_eq!(plan(&meta, &owners, Dependents::None), Plan::Delete(propagation));
    }
}
