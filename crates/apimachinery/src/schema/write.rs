//! Writes schema nodes back as OpenAPI JSON.

use crate::{Map, Value};

use super::{Additional, Limits, Schema, Type};

impl Schema {
    /// The node as OpenAPI JSON; `prefix` comes before the name in every reference.
    pub fn to_openapi(&self, prefix: &str) -> Value {
        let mut out = Map::new();
        self.write_shape(&mut out, prefix);
        self.write_extensions(&mut out);
        if let Some(limits) = &self.limits {
            write_limits(limits, &mut out, prefix);
        }
        Value::Object(out)
    }

    fn write_shape(&self, out: &mut Map, prefix: &str) {
        if let Some(name) = &self.reference {
            // OpenAPI v3.0 ignores what stands beside `$ref`, so the reference goes into `allOf`
            // wherever the place says something of its own.
            let reference = Value::from(format!("{prefix}{name}"));
            let bare = self.default.is_none() && self.description.is_none();
            if bare && self.extensions == super::Extensions::default() {
                out.insert("$ref", reference);
            } else {
                out.insert("allOf", crate::json!([{ "$ref": reference }]));
            }
        }
        put_text(out, "description", self.description.as_deref());
        if !matches!(self.kind, Type::Any | Type::Unknown) {
            out.insert("type", self.kind.name().into());
        }
        put_text(out, "format", self.format.as_deref());
        put_flag(out, "nullable", self.nullable);
        if let Some(default) = &self.default {
            out.insert("default", (**default).clone());
        }
        if !self.properties.is_empty() {
            let properties: Map = self
                .properties
                .iter()
                .map(|(name, node)| (name.to_string(), node.to_openapi(prefix)))
                .collect();
            out.insert("properties", properties.into());
        }
        match &self.additional {
            Additional::Unspecified => {}
            Additional::Allowed => put_flag(out, "additionalProperties", true),
            Additional::Forbidden => {
                out.insert("additionalProperties", false.into());
            }
            Additional::Schema(node) => {
                out.insert("additionalProperties", node.to_openapi(prefix));
            }
        }
        if let Some(items) = &self.items {
            out.insert("items", items.to_openapi(prefix));
        }
        if !self.required.is_empty() {
            let required: Vec<Value> = self.required.iter().map(|name| (&**name).into()).collect();
            out.insert("required", required.into());
        }
    }

    fn write_extensions(&self, out: &mut Map) {
        let extensions = &self.extensions;
        for (keyword, set) in [
            ("x-kubernetes-preserve-unknown-fields", extensions.preserve_unknown_fields),
            ("x-kubernetes-embedded-resource", extensions.embedded_resource),
            ("x-kubernetes-int-or-string", extensions.int_or_string),
        ] {
            put_flag(out, keyword, set);
        }
        for (keyword, text) in [
            ("x-kubernetes-list-type", &extensions.list_type),
            ("x-kubernetes-map-type", &extensions.map_type),
            ("x-kubernetes-patch-strategy", &extensions.patch_strategy),
            ("x-kubernetes-patch-merge-key", &extensions.patch_merge_key),
        ] {
            put_text(out, keyword, text.as_deref());
        }
        if !extensions.list_map_keys.is_empty() {
            out.insert("x-kubernetes-list-map-keys", extensions.list_map_keys.clone().into());
        }
        for (keyword, value) in [
            ("x-kubernetes-group-version-kind", &extensions.kinds),
            ("x-kubernetes-validations", &extensions.rules),
            ("x-kubernetes-unions", &extensions.unions),
        ] {
            if let Some(value) = value {
                out.insert(keyword, (**value).clone());
            }
        }
    }
}

fn write_limits(limits: &Limits, out: &mut Map, prefix: &str) {
    for (keyword, number) in [
        ("maximum", limits.maximum),
        ("minimum", limits.minimum),
        ("multipleOf", limits.multiple_of),
    ] {
        if let Some(number) = number {
            out.insert(keyword, whole_or_fraction(number));
        }
    }
    for (keyword, count) in [
        ("maxLength", limits.max_length),
        ("minLength", limits.min_length),
        ("maxItems", limits.max_items),
        ("minItems", limits.min_items),
        ("maxProperties", limits.max_properties),
        ("minProperties", limits.min_properties),
    ] {
        if let Some(count) = count {
            out.insert(keyword, count.into());
        }
    }
    put_flag(out, "exclusiveMaximum", limits.exclusive_maximum);
    put_flag(out, "exclusiveMinimum", limits.exclusive_minimum);
    put_flag(out, "uniqueItems", limits.unique_items);
    put_text(out, "pattern", limits.pattern.as_deref());
    put_text(out, "title", limits.title.as_deref());
    if let Some(values) = &limits.enumeration {
        out.insert("enum", values.clone().into());
    }
    for (keyword, nodes) in
        [("allOf", &limits.all_of), ("anyOf", &limits.any_of), ("oneOf", &limits.one_of)]
    {
        if !nodes.is_empty() {
            let nodes: Vec<Value> = nodes.iter().map(|node| node.to_openapi(prefix)).collect();
            out.insert(keyword, nodes.into());
        }
    }
    if let Some(not) = &limits.not {
        out.insert("not", not.to_openapi(prefix));
    }
    for (keyword, value) in [("externalDocs", &limits.external_docs), ("example", &limits.example)]
    {
        if let Some(value) = value {
            out.insert(keyword, (**value).clone());
        }
    }
}

fn whole_or_fraction(number: f64) -> Value {
    // Below 2^53 every whole number is exact, so the cast loses nothing.
    if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

fn put_text(out: &mut Map, keyword: &str, text: Option<&str>) {
    if let Some(text) = text {
        out.insert(keyword, text.into());
    }
}

fn put_flag(out: &mut Map, keyword: &str, set: bool) {
    if set {
        out.insert(keyword, true.into());
    }
}
