//! The flag `-o` and those that go with it.

use crate::error::{Error, Result};
use crate::suggest::did_you_mean;

/// A format for programs; what is for people is not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Kyaml,
    Name,
    JsonPath(String),
    JsonPathAsJson(String),
    GoTemplate(String),
    CustomColumns(String),
}

const KNOWN: &[&str] = &[
    "json",
    "yaml",
    "kyaml",
    "name",
    "wide",
    "jsonpath",
    "jsonpath-as-json",
    "jsonpath-file",
    "go-template",
    "go-template-file",
    "template",
    "templatefile",
    "custom-columns",
    "custom-columns-file",
];

/// Flags about printing that most commands share.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PrintFlags {
    /// Output format: json, yaml, kyaml, name, wide, jsonpath=…, jsonpath-as-json=…, jsonpath-file=…,
    /// go-template=…, go-template-file=…, custom-columns=…, custom-columns-file=…
    #[arg(long, short, value_name = "FORMAT", default_value = "", hide_default_value = true)]
    pub(crate) output: String,
    /// The template (or its file) to use with -o jsonpath or -o go-template, where it is not given with the format
    #[arg(long, value_name = "TEMPLATE", default_value = "", hide_default_value = true)]
    pub(crate) template: String,
    /// Ignore fields that a template names and an object does not have
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", hide_default_value = true, action = clap::ArgAction::Set)]
    allow_missing_template_keys: bool,
    /// Keep managedFields when printing objects in JSON or YAML
    #[arg(long)]
    pub(crate) show_managed_fields: bool,
    #[arg(skip)]
    pub(crate) no_headers: bool,
}

impl PrintFlags {
    pub(crate) fn allow_missing_template_keys(&self) -> bool {
        self.allow_missing_template_keys
    }

    pub(crate) fn wide(&self) -> bool {
        self.output == "wide"
    }

    /// The format for programs that was asked for; nothing if the output is for people.
    pub(crate) fn format(&self) -> Result<Option<Format>> {
        let (name, argument) = match self.output.split_once('=') {
            Some((name, argument)) => (name, argument.to_owned()),
            None => (self.output.as_str(), self.template.clone()),
        };
        let needed = |what: &str| {
            if argument.is_empty() {
                return Err(Error::Message(format!("{name} format specified but no {what} given")));
            }
            Ok(argument.clone())
        };
        let read = |what: &str| {
            let path = needed(what)?;
            std::fs::read_to_string(&path).map_err(|error| {
                Error::Message(format!("error reading --template {path}, {error}"))
            })
        };
        Ok(Some(match name {
            "" | "wide" => return Ok(None),
            "json" => Format::Json,
            "yaml" => Format::Yaml,
            "kyaml" => Format::Kyaml,
            "name" => Format::Name,
            "jsonpath" => Format::JsonPath(needed("template")?),
            "jsonpath-file" => Format::JsonPath(read("template")?),
            "jsonpath-as-json" => Format::JsonPathAsJson(needed("template")?),
            "go-template" | "template" => Format::GoTemplate(needed("template")?),
            "go-template-file" | "templatefile" => Format::GoTemplate(read("template")?),
            "custom-columns" => Format::CustomColumns(needed("custom columns")?),
            "custom-columns-file" => {
                Format::CustomColumns(columns_of_file(&read("custom columns")?))
            }
            other => {
                let hint = did_you_mean(other, KNOWN.iter().copied());
                return Err(Error::Message(format!(
                    "unable to match a printer suitable for the output format \"{other}\", allowed formats are: \
                     {}{hint}",
                    KNOWN.join(",")
                )));
            }
        }))
    }
}

/// A file of custom columns has the headers in one line and the paths in the next.
fn columns_of_file(text: &str) -> String {
    let mut lines = text.lines();
    let (headers, paths) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let pairs = headers.split_whitespace().zip(paths.split_whitespace());
    pairs.map(|(header, path)| format!("{header}:{path}")).collect::<Vec<_>>().join(",")
}
