//! `explain`: what the fields of a kind mean, from the server's OpenAPI.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::output;
use crate::scope::OneServer;
use crate::suggest::did_you_mean;

pub(crate) const EXAMPLES: &str = "  # What a policy consists of
  karmadactl explain propagationpolicy

  # One of its fields, with everything below
  karmadactl explain propagationpolicy.spec.placement --recursive
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// TYPE[.FIELD…]
    #[arg(value_name = "TYPE.FIELD")]
    what: Vec<String>,
    #[command(flatten)]
    server: OneServer,
    /// The group/version to explain
    #[arg(long, value_name = "VERSION", default_value = "", hide_default_value = true)]
    api_version: String,
    /// Names of all fields below
    #[arg(long, short = 'R')]
    recursive: bool,
    /// plaintext
    #[arg(long, short, value_name = "FORMAT", default_value = "plaintext", value_parser = ["plaintext", "plaintext-openapiv2"])]
    output: String,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let [what] = args.what.as_slice() else {
        return Err(Error::from("You must specify the type of resource to explain."));
    };
    let server = args.server.server(ctx).await?;
    let mut words = what.split('.');
    let kind = words.next().unwrap_or_default();
    let fields: Vec<&str> = words.collect();
    let mut resource = server.resources.find(kind).await?;
    if !args.api_version.is_empty() {
        let all = server.resources.all().await?;
        let wanted = |one: &&karmada_client::ApiResource| {
            one.gvr.resource == resource.gvr.resource
                && one.gvr.group_version().to_string() == args.api_version
        };
        resource = all.iter().find(wanted).cloned().ok_or_else(|| {
            format!("couldn't find resource for \"{}, Kind={}\"", args.api_version, resource.kind)
        })?;
    }
    let version = resource.gvr.group_version().to_string();
    let root = if resource.gvr.group.is_empty() { "api" } else { "apis" };
    let document = server
        .client
        .get_path(&format!("/openapi/v3/{root}/{version}"), "application/json")
        .await?;
    let gvk = resource.gvk();
    let schema = find_schema(&document, &gvk.group, &gvk.version, &gvk.kind)
        .ok_or_else(|| format!("the server does not describe {}", resource.kind))?;
    let head = match gvk.group.as_str() {
        "" => format!("KIND:       {}\nVERSION:    {}\n\n", gvk.kind, gvk.version),
        group => format!(
            "GROUP:      {group}\nKIND:       {}\nVERSION:    {}\n\n",
            gvk.kind, gvk.version
        ),
    };
    output::print(&format!("{head}{}", render(&document, schema, &fields, args.recursive)?))
}

fn find_schema<'a>(
    document: &'a Value,
    group: &str,
    version: &str,
    kind: &str,
) -> Option<&'a Value> {
    document.map_at(&["components", "schemas"])?.values().find(|schema| {
        schema.list_at(&["x-kubernetes-group-version-kind"]).iter().any(|gvk| {
            let is = |field: &str, value: &str| gvk.str_at(&[field]).unwrap_or_default() == value;
            is("group", group) && is("version", version) && is("kind", kind)
        })
    })
}

/// The schema behind references, with the description nearest to the field.
fn follow<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema
        .str_at(&["$ref"])
        .or_else(|| schema.list_at(&["allOf"]).first().and_then(|first| first.str_at(&["$ref"])));
    let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) else {
        return schema;
    };
    document.at(&["components", "schemas", name]).map_or(schema, |found| follow(document, found))
}

/// What holds the fields: the object itself, or the elements of a list or map of objects.
fn inner<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let schema = follow(document, schema);
    match schema
        .get("items")
        .or_else(|| schema.get("additionalProperties").filter(|value| value.is_object()))
    {
        Some(items) => inner(document, items),
        None => schema,
    }
}

fn type_of(document: &Value, schema: &Value) -> String {
    let target = follow(document, schema);
    let name = schema
        .str_at(&["$ref"])
        .or_else(|| schema.list_at(&["allOf"]).first().and_then(|first| first.str_at(&["$ref"])))
        .and_then(|reference| reference.rsplit(['/', '.']).next());
    if let Some(items) = target.get("items") {
        return format!("[]{}", type_of(document, items));
    }
    if let Some(values) = target.get("additionalProperties").filter(|value| value.is_object()) {
        return format!("map[string]{}", type_of(document, values));
    }
    match (name, target.str_at(&["type"]).unwrap_or("Object")) {
        (Some(name), "object" | "Object") => name.to_owned(),
        (_, "object") => "Object".to_owned(),
        (_, other) => other.to_owned(),
    }
}

fn render(document: &Value, schema: &Value, fields: &[&str], recursive: bool) -> Result<String> {
    let mut at = schema;
    let mut head = String::new();
    for field in fields {
        let properties = inner(document, at).map_at(&["properties"]);
        let known = properties.into_iter().flatten().map(|(name, _)| name.as_str());
        let next = properties.and_then(|properties| properties.get(*field));
        let next = next.ok_or_else(|| {
            let hint = did_you_mean(field, known);
            Error::Message(format!("field \"{field}\" does not exist{hint}"))
        })?;
        at = next;
        head = format!("FIELD: {field} <{}>\n\n", type_of(document, at));
    }
    let mut text = head;
    text.push_str("DESCRIPTION:\n");
    let own = at.str_at(&["description"]).filter(|text| !text.is_empty());
    let target = inner(document, at);
    let description = own.or_else(|| target.str_at(&["description"])).unwrap_or("<empty>");
    text.push_str(&wrap(description, 4));
    let Some(properties) = target.map_at(&["properties"]) else {
        text.push_str("    \n");
        return Ok(text);
    };
    text.push_str("    \nFIELDS:\n");
    let required: Vec<&str> =
        target.list_at(&["required"]).iter().filter_map(Value::as_str).collect();
    for (name, field) in properties {
        let mark = if required.contains(&name.as_str()) { " -required-" } else { "" };
        text.push_str(&format!("  {name}\t<{}>{mark}\n", type_of(document, field)));
        if recursive {
            below(&mut text, document, field, 2);
        } else {
            let described = field
                .str_at(&["description"])
                .or_else(|| follow(document, field).str_at(&["description"]));
            text.push_str(&wrap(described.unwrap_or("<no description>"), 4));
            text.push('\n');
        }
    }
    Ok(text)
}

fn below(text: &mut String, document: &Value, schema: &Value, depth: usize) {
    // Schemas may hold themselves; nobody reads deeper than this.
    if depth > 12 {
        return;
    }
    for (name, field) in inner(document, schema).map_at(&["properties"]).into_iter().flatten() {
        text.push_str(&format!("{}{name}\t<{}>\n", "  ".repeat(depth), type_of(document, field)));
        below(text, document, field, depth + 1);
    }
}

/// Breaks lines at about eighty characters; paragraphs stay apart.
fn wrap(text: &str, indent: usize) -> String {
    let lead = " ".repeat(indent);
    let mut out = String::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && indent + line.len() + 1 + word.len() > 80 {
                out.push_str(&format!("{lead}{line}\n"));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        out.push_str(&format!("{lead}{line}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn fields_are_followed_through_references_and_lists() {
        let document = json!({"components": {"schemas": {
            "io.Policy": {"description": "A policy.", "properties": {
                "spec": {"allOf": [{"$ref": "#/components/schemas/io.Spec"}]}}},
            "io.Spec": {"description": "Wishes.", "type": "object", "required": ["names"], "properties": {
                "names": {"type": "array", "items": {"type": "string"}, "description": "Which."}}}}}});
        let policy = document.at(&["components", "schemas", "io.Policy"]).unwrap();
        let text = render(&document, policy, &["spec"], false).unwrap();
        assert_eq!(
            text,
            "FIELD: spec <Spec>\n\nDESCRIPTION:\n    Wishes.\n    \nFIELDS:\n  names\t<[]string> -required-\n    Which.\n\n"
        );
        let wrong = render(&document, policy, &["spec", "name"], false).unwrap_err().to_string();
        assert_eq!(wrong, "field \"name\" does not exist (did you mean \"names\"?)");
        assert!(render(&document, policy, &[], true).unwrap().contains("    names\t<[]string>\n"));
    }
}
