//! Ways to print objects: for people as a table, for programs as JSON, YAML, names, paths and templates.

mod custom_columns;
mod format;
mod go_template;
pub(crate) mod table;
mod tree;

use std::io::Write as _;

use karmada_apimachinery::{Value, json};

use crate::error::{Error, Result};
use crate::progress;

pub(crate) use format::{Format, PrintFlags};
pub(crate) use tree::{json_text, yaml_text};

/// Writes to stdout.
pub(crate) fn print(text: &str) -> Result<()> {
    progress::clear();
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a line for the user that is no result, to stderr.
pub(crate) fn note(text: &str) {
    progress::clear();
    // Nothing can be told to someone whose stderr is gone.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Several objects as one document.
pub(crate) fn list_of(items: Vec<Value>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "List", "items": items,
        "metadata": {"resourceVersion": "", "selfLink": ""},
    })
}

/// Prints objects in a format for programs. `all` is the one object, or the list of them.
pub(crate) fn render(format: &Format, flags: &PrintFlags, all: &Value) -> Result<String> {
    let shown =
        if flags.show_managed_fields { all.clone() } else { tree::without_managed_fields(all) };
    match format {
        Format::Json => Ok(json_text(&shown)),
        Format::Yaml => Ok(yaml_text(&shown)),
        Format::Kyaml => Ok(tree::kyaml_text(&shown)),
        Format::Name => Ok(tree::names(&shown)),
        Format::JsonPath(template) => {
            let template = parse_path(template)?;
            let template = if flags.allow_missing_template_keys() {
                template.allowing_missing()
            } else {
                template
            };
            template
                .render(all)
                .map_err(|error| Error::Message(format!("error executing jsonpath: {error}")))
        }
        Format::JsonPathAsJson(template) => {
            let template = parse_path(template)?.allowing_missing();
            let found = template.find(all).map_err(|error| error.to_string())?;
            let found: Vec<Value> = found
                .into_iter()
                .flat_map(|found| found.iter().map(|v| v.clone().into_owned()).collect::<Vec<_>>())
                .collect();
            Ok(json_text(&Value::Array(found.into())))
        }
        Format::GoTemplate(text) => {
            let missing = match flags.allow_missing_template_keys() {
                true => go_template::Missing::Shown,
                false => go_template::Missing::Refused,
            };
            go_template::Template::parse(text)
                .map_err(|error| Error::Message(format!("error parsing template {text}, {error}")))?
                .render(all, missing)
                .map_err(|error| {
                    Error::Message(format!("error executing template {text:?}: {error}"))
                })
        }
        Format::CustomColumns(spec) => custom_columns::render(spec, all, flags.no_headers),
    }
}

fn parse_path(text: &str) -> Result<karmada_apimachinery::jsonpath::Template> {
    karmada_apimachinery::jsonpath::Template::parse(text)
        .map_err(|error| Error::Message(format!("error parsing jsonpath {text}, {error}")))
}
