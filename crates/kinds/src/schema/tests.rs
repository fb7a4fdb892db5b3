use karmada_apimachinery::schema::{ListType, Type};
use karmada_apimachinery::{Map, json};
use proptest::prelude::*;

use super::*;

#[test]
fn kinds_are_found_and_their_fields_reached() {
    let deployment = of("apps", "v1", "Deployment").expect("is built in");
    let containers = ["spec", "template", "spec", "containers"]
        .iter()
        .try_fold(deployment, |cursor, field| cursor.field(field))
        .expect("pods have containers");
    assert_eq!(containers.list_type(), ListType::Map(&["name".to_owned()]));
    assert_eq!(containers.patch_merge_key(), Some("name"));
    assert!(of("apps", "v1", "Nope").is_none());
    assert!(object_meta().field("labels").is_some());
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(cursor: Cursor<'_>, depth: usize) {
        if let Some(name) = &cursor.site().reference {
            assert!(cursor.definitions().get(name).is_some(), "{name} is missing");
            if depth > 0 {
                return;
            }
        }
        cursor.properties().for_each(|(_, field)| walk(field, depth + 1));
        cursor.items().into_iter().for_each(|items| walk(items, depth + 1));
        cursor.values().into_iter().for_each(|values| walk(values, depth + 1));
    }
    for name in definitions().names() {
        walk(definitions().cursor(name).expect("is listed"), 0);
    }
}

#[test]
fn bodies_of_meta_kinds_decode_under_any_version() {
    let options = json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"}, "propagationPolicy": "Foreground"});
    let name = message_of("", "v1", "DeleteOptions").expect("has a message");
    let raw = messages().encode(definitions(), name, &options).expect("fits");
    let body = protobuf::encode_envelope("apps/v1", "DeleteOptions", &raw);
    assert_eq!(decode_protobuf(&body), Ok(options));
}

#[test]
fn unknown_kinds_are_named() {
    let body = protobuf::encode_envelope("apps/v1", "Nope", b"");
    let error = decode_protobuf(&body).expect_err("is unknown");
    assert_eq!(error.to_string(), r#"no kind "Nope" is registered for version "apps/v1""#);
}

/// Draws values from a seed; enough variety for shapes, no more.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn value(&mut self, cursor: Cursor<'_>, depth: usize) -> Value {
        let special = cursor.definition().and_then(|name| name.rsplit('.').next());
        match special {
            Some("Time") => return "2020-01-02T03:04:05Z".into(),
            Some("MicroTime") => return "2020-01-02T03:04:05.000006Z".into(),
            Some("Quantity") => return ["0", "1Gi", "250m", "3"][self.next(4) as usize].into(),
            Some("IntOrString") => return [json!(5), json!("25%")][self.next(2) as usize].clone(),
            Some("RawExtension" | "FieldsV1" | "JSON") => return json!({"a": [1, "b", null, 1.5]}),
            Some("JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray") => {
                return json!({"type": "string"});
            }
            Some("JSONSchemaPropsOrBool") => {
                return [json!(true), json!(false)][self.next(2) as usize].clone();
            }
            _ => {}
        }
        match cursor.schema().kind {
            Type::String if cursor.schema().format.as_deref() == Some("byte") => "AAEC".into(),
            Type::String => ["", "a", "text"][self.next(3) as usize].into(),
            Type::Integer => [json!(0), json!(-1), json!(42)][self.next(3) as usize].clone(),
            Type::Number => json!(0.5),
            Type::Boolean => (self.next(2) == 1).into(),
            Type::Array => {
                let items = cursor.items().expect("lists have items");
                (0..self.next(3)).map(|_| self.value(items, depth + 1)).collect()
            }
            _ => self.object(cursor, depth),
        }
    }

    fn object(&mut self, cursor: Cursor<'_>, depth: usize) -> Value {
        let mut fields = Map::new();
        if let Some(values) = cursor.values() {
            fields.insert("k", self.value(values, depth + 1));
        }
        for (name, field) in cursor.properties() {
            // Deep down fields become rare, so that recursive kinds end.
            let odds = if depth < 4 { 2 } else { 6 + depth as u64 };
            // The kind is part of the envelope only, so objects inside objects have none.
            let is_type = matches!(name, "apiVersion" | "kind")
                && cursor.definition().is_some_and(|message| !MESSAGES.has_field(message, name));
            if depth < 12 && !is_type && self.next(odds) == 0 {
                fields.insert(name.to_owned(), self.value(field, depth + 1));
            }
        }
        Value::Object(fields)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn every_kind_survives_the_way_through_protobuf(seed in any::<u64>()) {
        let mut draw = Draw(seed);
        for ((group, version, kind), name) in BY_KIND.iter() {
            if !MESSAGES.contains(name) {
                continue;
            }
            let cursor = DEFINITIONS.cursor(name).expect("is listed");
            let drawn = draw.object(cursor, 0);
            let mut object = normalise(drawn, cursor).expect("is drawn from the schema");
            object["apiVersion"] = GroupVersion::new(*group, *version).to_string().into();
            object["kind"] = (*kind).into();
            let body = encode_protobuf(&object).expect("has a message").expect("fits");
            prop_assert_eq!(decode_protobuf(&body), Ok(object));
        }
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for kind in ["Pod", "Node", "Service"] {
            let _ = decode_protobuf(&protobuf::encode_envelope("v1", kind, &bytes));
        }
    }
}

#[test]
fn every_resource_is_documented_with_existing_definitions() {
    let docs = docs();
    assert_eq!(docs.len(), crate::resources().len());
    for doc in &docs {
        for subresource in &doc.subresources {
            let known = subresource.definition.is_some() || doc.gvk.kind.ends_with("Proxy");
            let is_options = subresource.gvk.kind.ends_with("Options");
            assert!(known || is_options, "{} {}", doc.plural, subresource.name);
        }
    }
    let apps = GroupVersion::new("apps", "v1");
    let of_group: Vec<_> = docs.into_iter().filter(|doc| doc.gvk.group_version() == apps).collect();
    let document = karmada_apimachinery::openapi::document_v3(&apps, &of_group, definitions());
    let text = document.to_string();
    // Whatever is referred to is there.
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap_or_default();
        assert!(document["components"]["schemas"].get(name).is_some(), "{name} is missing");
    }
}
