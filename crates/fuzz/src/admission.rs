//! Admission: hooks, the strategy of Clusters, conversion of bindings.

use std::borrow::Cow;

use karmada_admission::{Operation, Phase, Request, Settings, convert, hooks as all_hooks, review};
use karmada_api::features::Gates;
use karmada_apimachinery::gvk::{GroupVersion, Gvk, Gvr};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};

fn settings() -> Settings {
    Settings {
        gates: Gates::parse("AllAlpha=true,AllBeta=true").unwrap(),
        id: "id".into(),
        ..Settings::default()
    }
}

/// Creates, changes and deletes the object through every hook of its kind; defaulting a second time changes
/// nothing more.
pub(crate) fn hooks(data: &[u8]) {
    let Ok(input) = serde_json::from_slice::<Value>(data) else { return };
    let object = &input["object"];
    let settings = settings();
    for hook in all_hooks() {
        let gv = GroupVersion::parse(object.api_version()).unwrap_or_default();
        let request = |object: &Value, operation| Request {
            kind: Gvk::new(&*gv.group, &*gv.version, object.kind()),
            resource: Gvr::new(&*gv.group, &*gv.version, hook.resource),
            subresource: String::new(),
            name: object.name().to_owned(),
            namespace: object.namespace().to_owned(),
            operation,
            object: Cow::Owned(object.clone()),
            old_object: Cow::Borrowed(&input["old"]),
            dry_run: false,
        };
        for operation in [Operation::Create, Operation::Update, Operation::Delete] {
            let first = request(object, operation);
            let concerned = hook.group == "*" || hook.group == gv.group;
            if !concerned || !hook.operations.contains(&operation) {
                continue;
            }
            let Ok(verdict) = hook.run(&first, &settings) else { continue };
            if let (Phase::Mutating, Some(once)) = (hook.phase, verdict.object) {
                let again = hook.run(&request(&once, operation), &settings);
                let again = again.expect("what was defaulted is read again").object;
                assert_eq!(Some(&once), again.as_ref(), "{}: defaulting twice", hook.path);
            }
        }
    }
    for path in [
        "/mutate-propagationpolicy",
        "/validate-resourcebinding",
        "/validate-resourceinterpretercustomization",
    ] {
        review::answer(path, &input, &settings);
        review::answer(path, &json!({"request": input}), &settings);
    }
}

/// Creates and changes a Cluster; the canonical form is stable.
pub(crate) fn cluster(data: &[u8]) {
    use karmada_admission::cluster as rules;
    let Ok(input) = serde_json::from_slice::<Value>(data) else { return };
    let gates = Gates::default();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let Ok(mut new) = rules::decode(&input["object"]) else { return };
    rules::prepare_create(&mut new, &gates);
    if rules::validate_create(&new).is_empty() {
        rules::canonicalize(&mut new, now);
        let once = new.clone();
        rules::prepare_create(&mut new, &gates);
        rules::canonicalize(&mut new, now);
        assert_eq!(once, new, "defaulting twice");
        assert_eq!(rules::validate_create(&new), Vec::new(), "what was stored is valid");
    }
    let shown = rules::encode(&new);
    assert_eq!(rules::cells(&shown, "1d").len(), rules::column_definitions().len());
    if let Ok(old) = rules::decode(&input["old"]) {
        rules::prepare_update(&mut new, &old, &gates);
        let _ = rules::validate_update(&new, &old);
    }
}

/// Converts any object between the versions of a binding; there and back keeps what the old version knows.
pub(crate) fn conversion(data: &[u8]) {
    let Ok(object) = serde_json::from_slice::<Value>(data) else { return };
    let _ = convert::review(&object);
    let old = "work.karmada.io/v1alpha1";
    let Ok(as_old) = convert::convert(&object, old) else { return };
    let Ok(back) = convert::convert(&as_old, "work.karmada.io/v1alpha2") else { return };
    // The first conversion may add what the type always writes; from then on nothing changes.
    let once = convert::convert(&back, old).expect("converted before");
    let back = convert::convert(&once, "work.karmada.io/v1alpha2").expect("converted before");
    assert_eq!(once, convert::convert(&back, old).expect("converted before"), "there and back");
}
