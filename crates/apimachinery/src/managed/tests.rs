use crate::{Value, json};
use proptest::prelude::*;

use super::*;
use crate::schema::Schema;
use crate::status::Status;

/// A small kind with every way of merging.
fn schema() -> Schema {
    let text = || json!({"type": "string"});
    let port = json!({"type": "object", "properties": {
        "number": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": text()}});
    Schema::parse(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "mode": text(),
            "command": {"type": "array", "items": text()},
            "modes": {"type": "array", "items": text(), "x-kubernetes-list-type": "set"},
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text()},
            "containers": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": text(), "image": text(), "ports": {
                    "type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["number", "protocol"], "items": port}}}},
        }},
        "data": {"type": "object", "additionalProperties": text()},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    }}))
    .expect("a schema")
}

/// One object and the writes made to it.
struct Story {
    schema: Schema,
    gvk: Gvk,
    live: Option<Value>,
    second: i64,
}

impl Story {
    fn new() -> Self {
        let gvk = Gvk::new("example.com", "v1", "Thing");
        Self { schema: schema(), gvk, live: None, second: 0 }
    }

    fn object(mut fields: Value) -> Value {
        fields["apiVersion"] = json!("example.com/v1");
        fields["kind"] = json!("Thing");
        if fields.get("metadata").is_none() {
            fields["metadata"] = json!({"name": "t"});
        }
        fields
    }

    fn context<'a>(gvk: &'a Gvk, manager: &'a str, second: i64) -> WriteContext<'a> {
        let now = Timestamp::from_second(second).expect("a small number");
        let mut ctx = WriteContext::new(manager, gvk, now);
        ctx.reset_fields = &[&["status"]];
        ctx
    }

    fn applies(&mut self, manager: &str, fields: Value, force: bool) -> Result<&Value, Status> {
        self.second += 1;
        let ctx = Self::context(&self.gvk, manager, self.second);
        let cursor = Some(Cursor::alone(&self.schema));
        let patch = Self::object(fields);
        let mut result = apply(self.live.as_ref(), &patch, &ctx, force, cursor)?;
        result["metadata"]["uid"] = json!("u");
        Ok(self.live.insert(result))
    }

    fn updates(&mut self, manager: &str, fields: Value) -> &Value {
        self.second += 1;
        let ctx = Self::context(&self.gvk, manager, self.second);
        let mut new = Self::object(fields);
        update(self.live.as_ref(), &mut new, &ctx, Some(Cursor::alone(&self.schema)));
        new["metadata"]["uid"] = json!("u");
        self.live.insert(new)
    }

    /// `manager/operation` and its fields.
    fn owners(&self) -> Vec<(String, Value)> {
        let live = self.live.as_ref().expect("written");
        let entries = live.list_at(&["metadata", "managedFields"]).iter().map(|entry| {
            let text = |field: &str| entry.str_at(&[field]).unwrap_or_default();
            (format!("{}/{}", text("manager"), text("operation")), entry["fieldsV1"].clone())
        });
        entries.collect()
    }

    fn spec(&self) -> Value {
        self.live.as_ref().expect("written")["spec"].clone()
    }
}

fn owner(name: &str, fields: Value) -> (String, Value) {
    (name.to_owned(), fields)
}

#[test]
fn creation_makes_the_writer_own_everything_but_identity() {
    let mut story = Story::new();
    story.updates("a", json!({"metadata": {"name": "t", "labels": {"x": "1"}}, "spec": {"replicas": 1}, "status": {"ready": 1}}));
    assert_eq!(
        story.owners(),
        [owner(
            "a/Update",
            json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}, "f:spec": {".": {}, "f:replicas": {}}})
        )]
    );
}

#[test]
fn a_write_that_owns_nothing_leaves_no_trace() {
    let mut story = Story::new();
    story.updates("a", json!({}));
    assert_eq!(story.owners(), []);
    // And an object nobody tracks is not tracked by later updates either.
    story.updates("a", json!({"spec": {"replicas": 1}}));
    assert_eq!(story.owners(), []);
    story.applies("b", json!({"spec": {"mode": "m"}}), false).expect("no conflict");
    assert_eq!(
        story.owners(),
        [
            owner("b/Apply", json!({"f:spec": {"f:mode": {}}})),
            owner("before-first-apply/Update", json!({"f:spec": {".": {}, "f:replicas": {}}})),
        ]
    );
}

#[test]
fn changing_a_field_takes_it_and_keeping_it_does_not() {
    let mut story = Story::new();
    story.updates("a", json!({"data": {"x": "1", "y": "1"}}));
    story.updates("b", json!({"data": {"x": "2", "y": "1"}}));
    assert_eq!(
        story.owners(),
        [
            owner("a/Update", json!({"f:data": {".": {}, "f:y": {}}})),
            owner("b/Update", json!({"f:data": {"f:x": {}}})),
        ]
    );
    let before = story.live.clone();
    story.updates("c", json!({"data": {"x": "2", "y": "1"}}));
    assert!(same_ignoring_timestamps(
        before.as_ref().expect("written"),
        story.live.as_ref().expect("written")
    ));
    story.updates("c", json!({"data": {"y": "1"}}));
    assert_eq!(story.owners(), [owner("a/Update", json!({"f:data": {".": {}, "f:y": {}}}))]);
}

#[test]
fn managed_fields_are_reset_by_an_empty_list_and_kept_by_none() {
    let mut story = Story::new();
    story.updates("a", json!({"data": {"x": "1"}}));
    story.updates(
        "a",
        json!({"metadata": {"name": "t", "managedFields": null}, "data": {"x": "1"}}),
    );
    assert_eq!(story.owners().len(), 1);
    story.updates(
        "a",
        json!({"metadata": {"name": "t", "managedFields": [{}]}, "data": {"x": "1"}}),
    );
    assert_eq!(story.owners(), []);
}

#[test]
fn the_wish_to_reset_survives_decoding() {
    let request = json!({"metadata": {"name": "t", "managedFields": []}});
    let mut decoded = json!({"metadata": {"name": "t"}});
    assert!(asks_for_reset(&request));
    carry_reset(&mut decoded);
    assert_eq!(decoded, request);
    assert!(!asks_for_reset(&json!({"metadata": {"managedFields": null}})));
}

#[test]
fn eleven_updaters_leave_ten_entries_and_the_oldest_are_merged() {
    let mut story = Story::new();
    let mut data = crate::Map::new();
    for index in 0..11 {
        data.insert(format!("k{index:02}"), "1".into());
        story.updates(&format!("m{index:02}"), json!({"data": data}));
    }
    let owners = story.owners();
    assert_eq!(owners.len(), 10);
    assert!(owners.contains(&owner(
        "ancient-changes/Update",
        json!({"f:data": {".": {}, "f:k00": {}, "f:k01": {}}})
    )));
}

#[test]
fn applying_owns_what_is_stated_and_drops_what_is_no_longer() {
    let mut story = Story::new();
    story
        .applies("a", json!({"spec": {"replicas": 1, "mode": "m"}, "data": {"x": "1"}}), false)
        .expect("created");
    assert_eq!(
        story.owners(),
        [owner(
            "a/Apply",
            json!({"f:spec": {"f:replicas": {}, "f:mode": {}}, "f:data": {"f:x": {}}})
        )]
    );
    story.applies("a", json!({"spec": {"replicas": 1}}), false).expect("no conflict");
    assert_eq!(story.spec(), json!({"replicas": 1}));
    assert_eq!(story.owners(), [owner("a/Apply", json!({"f:spec": {"f:replicas": {}}}))]);
    assert!(story.live.as_ref().expect("written").get("data").is_none_or(Value::is_null));
}

#[test]
fn the_same_statement_again_changes_nothing() {
    let mut story = Story::new();
    story.applies("a", json!({"spec": {"replicas": 1}}), false).expect("created");
    let before = story.live.clone();
    story.applies("a", json!({"spec": {"replicas": 1}}), false).expect("no conflict");
    assert_eq!(story.live, before);
}

#[test]
fn disagreement_is_a_conflict_and_agreement_shares() {
    let mut story = Story::new();
    story.applies("a", json!({"spec": {"replicas": 1}}), false).expect("created");
    let status = story.applies("b", json!({"spec": {"replicas": 2}}), false).expect_err("conflict");
    assert_eq!(status.code, 409);
    assert_eq!(
        status.message,
        r#"Apply failed with 1 conflict: conflict with "a": .spec.replicas"#
    );
    story.applies("b", json!({"spec": {"replicas": 1}}), false).expect("shared");
    assert_eq!(story.owners().len(), 2);
    // A shared field survives one owner letting go.
    story.applies("a", json!({"spec": {}}), false).expect("no conflict");
    assert_eq!(story.spec(), json!({"replicas": 1}));
}

#[test]
fn force_moves_ownership() {
    let mut story = Story::new();
    story.applies("a", json!({"spec": {"replicas": 1, "mode": "m"}}), false).expect("created");
    story.applies("b", json!({"spec": {"replicas": 2}}), true).expect("forced");
    assert_eq!(
        story.owners(),
        [
            owner("a/Apply", json!({"f:spec": {"f:mode": {}}})),
            owner("b/Apply", json!({"f:spec": {"f:replicas": {}}})),
        ]
    );
}

#[test]
fn conflicts_with_several_managers_are_listed_by_manager() {
    let mut story = Story::new();
    story.applies("a", json!({"data": {"x": "1"}}), false).expect("created");
    let mut data = story.live.clone().expect("written");
    data["data"]["y"] = json!("1");
    story.updates("g", json!({"data": data["data"], "metadata": data["metadata"]}));
    let status =
        story.applies("b", json!({"data": {"x": "2", "y": "2"}}), false).expect_err("conflict");
    assert_eq!(
        status.message,
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .data.x\nconflicts with \"g\" using example.com/v1:\n- .data.y"
    );
}

#[test]
fn lists_merge_by_their_keys_with_defaults_filled_in() {
    let mut story = Story::new();
    let ports = |number: i64| json!([{"number": number}]);
    story
        .applies(
            "a",
            json!({"spec": {"containers": [{"name": "x", "image": "1", "ports": ports(80)}]}}),
            false,
        )
        .expect("created");
    story.applies("b", json!({"spec": {"containers": [{"name": "y", "image": "1"}, {"name": "x", "ports": ports(81)}]}}), false).expect("no conflict");
    assert_eq!(
        story.spec(),
        json!({"containers": [
            {"name": "y", "image": "1"},
            {"name": "x", "image": "1", "ports": [{"number": 80}, {"number": 81}]},
        ]})
    );
    let port = r#"k:{"number":81,"protocol":"TCP"}"#;
    assert_eq!(
        story.owners()[1],
        owner(
            "b/Apply",
            json!({"f:spec": {"f:containers": {
                r#"k:{"name":"x"}"#: {".": {}, "f:name": {}, "f:ports": {port: {".": {}, "f:number": {}}}},
                r#"k:{"name":"y"}"#: {".": {}, "f:name": {}, "f:image": {}},
            }}})
        )
    );
    story.applies("b", json!({"spec": {}}), false).expect("no conflict");
    assert_eq!(
        story.spec(),
        json!({"containers": [{"name": "x", "image": "1", "ports": [{"number": 80}]}]})
    );
}

#[test]
fn atomic_values_are_owned_whole_and_sets_by_element() {
    let mut story = Story::new();
    story
        .applies(
            "a",
            json!({"spec": {"selector": {"x": "1"}, "command": ["a"], "modes": ["r"]}}),
            false,
        )
        .expect("created");
    assert_eq!(
        story.owners(),
        [owner(
            "a/Apply",
            json!({"f:spec": {"f:selector": {}, "f:command": {}, "f:modes": {"v:\"r\"": {}}}})
        )]
    );
    story.applies("b", json!({"spec": {"modes": ["w"]}}), false).expect("sets grow");
    assert_eq!(story.spec()["modes"], json!(["r", "w"]));
    let status =
        story.applies("b", json!({"spec": {"command": ["a", "b"]}}), false).expect_err("atomic");
    assert_eq!(status.message, r#"Apply failed with 1 conflict: conflict with "a": .spec.command"#);
}

#[test]
fn patches_that_do_not_fit_are_refused_with_their_path() {
    let cases = [
        (
            json!({"spec": {"foo": 1}}),
            500,
            "failed to create typed patch object (/t; example.com/v1, Kind=Thing): .spec.foo: field not declared in schema",
        ),
        (
            json!({"spec": {"replicas": "x"}}),
            500,
            "failed to create typed patch object (/t; example.com/v1, Kind=Thing): .spec.replicas: expected numeric (int or float), got string",
        ),
        (
            json!({"spec": {"containers": [{"name": "x"}, {"name": "x"}]}}),
            500,
            r#"failed to create typed patch object (/t; example.com/v1, Kind=Thing): .spec.containers: duplicate entries for key [name="x"]"#,
        ),
        (
            json!({"metadata": {"name": "t", "managedFields": []}}),
            400,
            "metadata.managedFields must be nil",
        ),
    ];
    for (fields, code, message) in cases {
        let status = Story::new().applies("a", fields, false).expect_err(message);
        assert_eq!((status.code, &*status.message), (code, message));
    }
    let mut story = Story::new();
    story.gvk.kind = "Other".into();
    let status = story.applies("a", json!({}), false).expect_err("kind");
    assert_eq!(status.message, "invalid object type: example.com/v1, Kind=Thing");
}

#[test]
fn kubectl_takes_over_from_client_side_apply() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let stated = Story::object(json!({"data": {"x": "1"}}));
    let mut story = Story::new();
    story.updates(
        "kubectl-client-side-apply",
        json!({"metadata": {"name": "t", "annotations": {annotation: stated.to_string()}}, "data": {"x": "1"}}),
    );
    let wanted = json!({"data": {"x": "2"}});
    story.clone_story().applies("other", wanted.clone(), false).expect_err("conflict");
    let live = story.applies("kubectl", wanted.clone(), false).expect("takes over");
    assert_eq!(live["data"], json!({"x": "2"}));
    let refreshed = live.annotation(annotation).expect("kept");
    assert_eq!(refreshed, format!("{}\n", Story::object(wanted)));
}

impl Story {
    fn clone_story(&self) -> Self {
        Self {
            schema: self.schema.clone(),
            gvk: self.gvk.clone(),
            live: self.live.clone(),
            second: self.second,
        }
    }
}

#[test]
fn owners_of_the_replicas_show_through_the_scale_and_back() {
    let mut story = Story::new();
    story.applies("a", json!({"spec": {"replicas": 1, "mode": "m"}}), false).expect("created");
    let live = story.live.clone().expect("written");
    let scale = scale_from_parent(&live, &["spec", "replicas"]);
    assert_eq!(scale.len(), 1);
    assert_eq!(scale[0]["apiVersion"], "autoscaling/v1");
    // Another manager took the replicas through the scale.
    let taken = json!([{"manager": "s", "operation": "Apply", "apiVersion": "autoscaling/v1", "subresource": "scale",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    let entries = scale_to_parent(
        &live,
        taken.as_array().expect("a list"),
        &["spec", "replicas"],
        "example.com/v1",
    );
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0]["manager"], "s");
    assert_eq!(entries[1]["fieldsV1"], json!({"f:spec": {"f:mode": {}}}));
}

#[test]
fn owners_follow_a_schema_that_made_their_list_atomic() {
    let mut story = Story::new();
    story.applies("a", json!({"spec": {"modes": ["r"]}}), false).expect("created");
    let changed = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "modes": {"type": "array", "items": {"type": "string"}}}}}});
    story.schema = Schema::parse(&changed).expect("a schema");
    let status =
        story.applies("b", json!({"spec": {"modes": ["r", "w"]}}), false).expect_err("atomic");
    assert_eq!(status.message, r#"Apply failed with 1 conflict: conflict with "a": .spec.modes"#);
}

/// Two versions that differ in one field; `v0` is not served any more.
struct TwoVersions {
    old: Schema,
}

impl Versions for TwoVersions {
    fn convert(&self, object: &Value, api_version: &str) -> Result<Option<Value>, String> {
        let mut object = object.clone();
        object["apiVersion"] = api_version.into();
        Ok((api_version != "example.com/v0").then_some(object))
    }

    fn schema(&self, _: &str) -> Option<Cursor<'_>> {
        Some(Cursor::alone(&self.old))
    }
}

#[test]
fn owners_are_judged_in_the_version_they_wrote_in() {
    let schema = schema();
    let gvk = Gvk::new("example.com", "v1", "Thing");
    let old = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "replicas": {"type": "integer"}}}}});
    let versions = TwoVersions { old: Schema::parse(&old).expect("a schema") };
    let mut ctx = Story::context(&gvk, "a", 1);
    ctx.versions = Some(&versions);
    let owned_in = |version: &str, spec: Value| {
        let mut object = Story::object(json!({"spec": spec}));
        object["metadata"] = json!({"name": "t", "uid": "u", "managedFields": [{
            "manager": "o", "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}}]});
        object
    };
    let managers = |version: &str, before: Value, after: Value| -> Vec<String> {
        let live = owned_in(version, before);
        let mut new = live.clone();
        new["spec"] = after;
        update(Some(&live), &mut new, &ctx, Some(Cursor::alone(&schema)));
        let entries = new.list_at(&["metadata", "managedFields"]).iter();
        entries.filter_map(|entry| entry.str_at(&["manager"]).map(str::to_owned)).collect()
    };
    let (one, two) = (json!({"replicas": 1}), json!({"replicas": 2}));
    assert_eq!(managers("example.com/v1beta1", one.clone(), two.clone()), ["a"]);
    assert_eq!(managers("example.com/v0", one.clone(), one.clone()), Vec::<String>::new());
    // The older version does not know `mode`, so nobody can say what its owners own.
    let with_mode = json!({"replicas": 1, "mode": "m"});
    assert_eq!(managers("example.com/v1beta1", one, with_mode), Vec::<String>::new());
}

#[test]
fn without_a_schema_maps_merge_and_lists_are_atomic() {
    let gvk = Gvk::new("example.com", "v1", "Thing");
    let ctx = Story::context(&gvk, "a", 1);
    let object = Story::object(json!({"spec": {"l": [1], "m": {"x": {}}}}));
    let result = apply(None, &object, &ctx, false, None).expect("created");
    assert_eq!(
        result["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {".": {}, "f:l": {}, "f:m": {".": {}, "f:x": {}}}})
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let names = "spec|containers|name|ports|modes|data|metadata|managedFields|labels|[a-c]";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_set() -> impl Strategy<Value = FieldSet> {
    let step = prop_oneof![
        "[a-c.:]{1,2}".prop_map(Step::Field),
        ("[a-b]", any::<i8>())
            .prop_map(|(name, value)| Step::key([(name.as_str(), &Value::from(value))])),
        "[a-c\"]{0,2}".prop_map(|text| Step::value(&text.into())),
        (0u64..3).prop_map(Step::Index),
    ];
    let path = prop::collection::vec(step, 1..4);
    prop::collection::vec(path, 0..6).prop_map(|paths| {
        let mut set = FieldSet::default();
        paths.iter().for_each(|path| set.insert(path));
        set
    })
}

/// Schemas with every way of merging; names and types are often those of [`any_json`].
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!({"type": "string"})),
        Just(json!({"type": "integer"})),
        Just(json!({"type": "string", "default": "d"})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "object", "x-kubernetes-embedded-resource": true})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let names = "spec|containers|name|ports|modes|data|labels|[a-c]";
        let properties = prop::collection::btree_map(names, inner.clone(), 0..5);
        let map_type = prop_oneof![Just("granular"), Just("atomic")];
        let list_type = prop_oneof![Just("atomic"), Just("set"), Just("map")];
        let keys = prop::collection::vec("name|a|b", 1..3);
        prop_oneof![
            (properties, map_type, any::<bool>()).prop_map(|(properties, map_type, open)| json!({
                "type": "object", "properties": properties, "x-kubernetes-map-type": map_type,
                "x-kubernetes-preserve-unknown-fields": open})),
            inner
                .clone()
                .prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            (inner, list_type, keys).prop_map(|(items, list_type, keys)| json!({
                "type": "array", "items": items, "x-kubernetes-list-type": list_type,
                "x-kubernetes-list-map-keys": keys})),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_gained_at_once_is_what_comparing_finds(
        schema in prop::option::of(any_schema()),
        old in prop_oneof![Just(json!({})), any_json()],
        new in any_json(),
        patch in prop::option::of(any_json()),
    ) {
        // Most pairs of objects have much in common.
        let changed = patch.and_then(|patch| crate::patch::merge::apply(&new, &patch).ok());
        let old = changed.unwrap_or(old);
        let schema = schema.map(|schema| Schema::parse(&schema).expect("a schema"));
        let place = Place::root(schema.as_ref().map(Cursor::alone));
        let resets: [&[&[&str]]; 3] =
            [&[], &[&["spec"]], &[&["data"], &["metadata", "labels"], &["metadata", "name"]]];
        for reset in resets {
            let mut found = compare::compare(&old, &new, place, &[]);
            for part in [&mut found.added, &mut found.modified, &mut found.removed] {
                part.take_away_below(&FieldSet::of_fields(reset));
            }
            prop_assert_eq!(&compare::compare(&old, &new, place, reset), &found);
            let (mut expected, _) = found.into_parts();
            expected.take_away(&FieldSet::of_fields(STRIPPED));
            prop_assert_eq!(gained::gained(&old, &new, place, reset), expected.encode());
        }
    }

    #[test]
    fn decoding_what_was_encoded_gives_the_same_set(set in any_set()) {
        prop_assert_eq!(FieldSet::decode(&set.encode()).expect("encoded"), set);
    }

    #[test]
    fn encoded_sets_obey_the_same_algebra(a in any_set(), b in any_set()) {
        let changed = |change: &dyn Fn(&mut crate::Map)| {
            let mut encoded = a.encode();
            change(encoded.as_object_mut().expect("a map"));
            encoded
        };
        prop_assert_eq!(changed(&|encoded| b.add_to(encoded)), a.union(&b).encode());
        prop_assert_eq!(changed(&|encoded| b.take_from(encoded)), a.difference(&b).encode());
        let encoded = a.encode();
        let encoded = encoded.as_object().expect("a map");
        prop_assert_eq!(b.meets(encoded), !a.intersection(&b).is_empty());
        prop_assert_eq!(b.is_within(encoded), b.difference(&a).is_empty());
    }

    #[test]
    fn sets_obey_their_algebra(a in any_set(), b in any_set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
    }

    #[test]
    fn arbitrary_objects_never_panic(live in any_json(), new in any_json(), force: bool) {
        let schema = schema();
        let gvk = Gvk::default();
        let ctx = Story::context(&gvk, "a", 1);
        for cursor in [None, Some(Cursor::alone(&schema))] {
            let mut written = new.clone();
            update(Some(&live), &mut written, &ctx, cursor);
            let _ = apply(Some(&live), &new, &ctx, force, cursor);
            let _ = apply(None, &new, &ctx, force, cursor);
            let _ = same_ignoring_timestamps(&live, &written);
        }
    }
}
