//! `interpret`: checks the scripts of ResourceInterpreterCustomizations, runs one on an object without a cluster, and
//! opens them in an editor.

mod edit;

use karmada_api::config::ResourceInterpreterCustomization;
use karmada_api::work::AggregatedStatusItem;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_interpreter::lua::Script;
use karmada_interpreter::{Gates, Interpreter, Operation};

use crate::context::Context;
use crate::draft::{CANCELLED, Draft};
use crate::error::{Error, Result};
use crate::files::{self, FileFlags};
use crate::output::{self, PrintFlags};
use crate::subjects::Selection;
use crate::suggest::did_you_mean;

pub(crate) const EXAMPLES: &str = "  # Do the scripts compile
  karmadactl interpret -f customization.yaml --check

  # How many replicas does a script see in an object
  karmadactl interpret -f customization.yaml --operation InterpretReplica --observed-file object.yaml

  # Edit the scripts of a file as Lua, with a word on what each is asked
  karmadactl interpret -f customization.yaml --edit --show-doc
";

/// The rules in the order they are listed in.
const RULES: [Operation; 8] = [
    Operation::Retain,
    Operation::InterpretReplica,
    Operation::InterpretComponent,
    Operation::ReviseReplica,
    Operation::InterpretStatus,
    Operation::AggregateStatus,
    Operation::InterpretHealth,
    Operation::InterpretDependency,
];

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Customizations of the control plane by TYPE NAME or TYPE/NAME
    #[arg(value_name = "TYPE NAME")]
    what: Vec<String>,
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    print: PrintFlags,
    /// Edit the scripts, in the file or in the control plane
    #[arg(long)]
    edit: bool,
    /// With --edit, say what each rule is asked
    #[arg(long)]
    show_doc: bool,
    /// Only check that the scripts compile
    #[arg(long)]
    check: bool,
    /// The rule to run, such as InterpretReplica or Retain
    #[arg(long, value_name = "RULE", default_value = "", hide_default_value = true)]
    operation: String,
    /// A file with the desired object
    #[arg(long, value_name = "FILE")]
    desired_file: Option<String>,
    /// A file with the observed object
    #[arg(long, value_name = "FILE")]
    observed_file: Option<String>,
    /// A file with the statuses of members
    #[arg(long, value_name = "FILE")]
    status_file: Option<String>,
    /// The replicas to revise to
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    desired_replica: i64,
}

/// A customization, and where it is from.
struct Source {
    object: Value,
    customization: ResourceInterpreterCustomization,
    /// Nothing for one of the control plane.
    file: Option<String>,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    if args.check && args.edit {
        return Err(Error::from("you can't set both --check and --edit options"));
    }
    let sources = sources(ctx, &args).await?;
    if args.edit {
        return edit_all(ctx, sources, &args).await;
    }
    let customizations: Vec<ResourceInterpreterCustomization> =
        sources.into_iter().map(|source| source.customization).collect();
    if args.check {
        let (text, passed) = check(&customizations);
        output::print(&text)?;
        return if passed { Ok(()) } else { Err(Error::Exit(1)) };
    }
    if args.operation.is_empty() {
        return Err(Error::from("operation is not set for executing"));
    }
    let operation = Operation::parse(&args.operation).ok_or_else(|| {
        let hint = did_you_mean(&args.operation, RULES.iter().map(|rule| rule.name()));
        format!("operation {} is not supported{hint}", args.operation)
    })?;
    let results = execute(&customizations, operation, &args)
        .map_err(|error| Error::Plain(format!("Execute {} error: {error}", operation.name())))?;
    match args.print.format()? {
        Some(format) => {
            let all = results.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            output::print(&output::render(&format, &args.print, &Value::Object(all))?)
        }
        None => output::print(&show(&results)),
    }
}

/// The customizations that are meant: of files, or of the control plane.
async fn sources(ctx: &Context, args: &Args) -> Result<Vec<Source>> {
    let found: Vec<(Value, Option<String>)> = if args.files.is_given() {
        let documents = args.files.read().await?.into_iter();
        documents.map(|document| (document.object, Some(document.source))).collect()
    } else if args.what.is_empty() {
        return Err(Error::from(
            "You must provide one or more resources by argument or filename.\n\
             Example resource specifications include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   \
             '<resource> <name>'\n   '<resource>'",
        ));
    } else {
        let server = ctx.karmada().await?;
        let selection =
            Selection { what: &args.what, all: args.what.len() == 1, ..Selection::default() };
        let mut found = Vec::new();
        for subject in selection.subjects(ctx, &server).await? {
            found.push((subject.live(&server).await?, None));
        }
        found
    };
    let read = |(object, file): (Value, Option<String>)| {
        let customization = karmada_apimachinery::from_value(object.clone()).map_err(|error| {
            let source = file.as_deref().unwrap_or(object.name());
            Error::Message(format!("{source} is no ResourceInterpreterCustomization: {error}"))
        })?;
        Ok(Source { object, customization, file })
    };
    found.into_iter().map(read).collect()
}

/// Opens the scripts of each customization, and writes them back where they are from.
async fn edit_all(ctx: &Context, mut sources: Vec<Source>, args: &Args) -> Result<()> {
    for place in 0..sources.len() {
        let source = &mut sources[place];
        let text = edit::write(&source.customization, args.show_doc);
        let edited = Draft::new("lua", false).edit(&text)?;
        let before = source.object.clone();
        edit::set(&mut source.object, &edit::read(&edited)?);
        if source.object == before {
            output::note(CANCELLED);
            continue;
        }
        let name = source.object.name().to_owned();
        match source.file.clone() {
            Some(file) => write_file(&file, &sources)?,
            None => {
                let patch = json!({
                    "metadata": {"resourceVersion": source.object.resource_version()},
                    "spec": {"customizations": replaced(&before, &source.object)},
                });
                ctx.karmada()
                    .await?
                    .client
                    .api(&customizations())
                    .merge_patch(&name, patch)
                    .await?;
            }
        }
        let kind = "resourceinterpretercustomization.config.karmada.io";
        output::print(&format!("{kind}/{name} edited\n"))?;
    }
    Ok(())
}

fn customizations() -> Gvr {
    Gvr::new("config.karmada.io", "v1alpha1", "resourceinterpretercustomizations")
}

/// The new rules, with those that went named as gone.
fn replaced(before: &Value, after: &Value) -> Value {
    let rules =
        |object: &Value| object.at(&["spec", "customizations"]).cloned().unwrap_or_default();
    let mut rules_after = rules(after);
    for (rule, _) in rules(before).as_object().into_iter().flatten() {
        if rules_after.get(rule).is_none() {
            rules_after[rule.as_str()] = Value::Null;
        }
    }
    rules_after
}

/// Writes all objects of a file, in the form it has.
fn write_file(file: &str, sources: &[Source]) -> Result<()> {
    let text = std::fs::read_to_string(file)?;
    let own = sources.iter().filter(|source| source.file.as_deref() == Some(file));
    let texts: Vec<String> = match text.trim_start().starts_with('{') {
        true => own.map(|source| output::json_text(&source.object)).collect(),
        false => own.map(|source| output::yaml_text(&source.object)).collect(),
    };
    let between = if text.trim_start().starts_with('{') { "" } else { "---\n" };
    Ok(std::fs::write(file, texts.join(between))?)
}

/// The report, and whether nothing failed.
fn check(customizations: &[ResourceInterpreterCustomization]) -> (String, bool) {
    let mut text = String::new();
    let mut passed = true;
    for customization in customizations {
        let target = &customization.spec.target;
        // Compat: three blanks stand behind the kind, left by the original's columns.
        text.push_str(&format!(
            "-----------------------------------\nSOURCE: {}\nTARGET: {} {}   \nRULERS:\n",
            customization.metadata.name, target.api_version, target.kind
        ));
        let scripts = customization.spec.customizations.scripts();
        for rule in RULES {
            let script =
                scripts.iter().find(|(operation, _)| Operation::from_api(operation) == Some(rule));
            let verdict = match script.map(|(_, source)| Script::new(source).compile()) {
                None => "UNSET".to_owned(),
                Some(Ok(())) => "PASS".to_owned(),
                Some(Err(error)) => {
                    passed = false;
                    format!("ERROR: {error}")
                }
            };
            text.push_str(&format!("    {:<25}{verdict}\n", format!("{}:", rule.name())));
        }
    }
    (text, passed)
}

fn object(path: Option<&String>, flag: &str) -> Result<Value> {
    let path = path.ok_or_else(|| format!("{flag} is not set"))?;
    let text = std::fs::read_to_string(path).map_err(|error| format!("read {path}: {error}"))?;
    let documents = files::parse(&text, path)?;
    documents
        .into_iter()
        .next()
        .map(|document| document.object)
        .ok_or_else(|| Error::Message(format!("{path} is empty")))
}

fn execute(
    customizations: &[ResourceInterpreterCustomization],
    operation: Operation,
    args: &Args,
) -> Result<Vec<(&'static str, Value)>> {
    let has_rule = customizations.iter().any(|customization| {
        let scripts = customization.spec.customizations.scripts();
        scripts.iter().any(|(known, _)| Operation::from_api(known) == Some(operation))
    });
    if !has_rule {
        return Err(Error::from("rule is not enabled"));
    }
    let interpreter = Interpreter::new(Gates::default(), std::sync::Arc::new(jiff::Timestamp::now));
    interpreter.set_customizations(customizations);
    let observed = || object(args.observed_file.as_ref(), "--observed-file");
    let desired = || object(args.desired_file.as_ref(), "--desired-file");
    let one = |name: &'static str, value: Value| Ok(vec![(name, value)]);
    let failed = |error: karmada_interpreter::Error| Error::Message(error.to_string());
    match operation {
        Operation::Retain => {
            one("retained", interpreter.retain(desired()?, &observed()?).map_err(failed)?)
        }
        Operation::InterpretReplica => {
            let replicas = interpreter.interpret_replica(&observed()?).map_err(failed)?;
            let requires = replicas.requirements.as_ref().map_or_else(|| Ok(json!({})), tree)?;
            Ok(vec![("replica", replicas.replicas.into()), ("requires", requires)])
        }
        Operation::InterpretComponent => one(
            "components",
            tree(&interpreter.interpret_component(&observed()?).map_err(failed)?)?,
        ),
        Operation::ReviseReplica => {
            let revised =
                interpreter.revise_replica(observed()?, args.desired_replica).map_err(failed)?;
            one("revised", revised)
        }
        Operation::InterpretStatus => one(
            "status",
            interpreter.interpret_status(&observed()?).map_err(failed)?.unwrap_or_default(),
        ),
        Operation::AggregateStatus => {
            let items = statuses(args.status_file.as_ref())?;
            let aggregated = interpreter.aggregate_status(observed()?, &items).map_err(failed)?;
            one("aggregatedStatus", aggregated)
        }
        Operation::InterpretHealth => {
            one("healthy", interpreter.interpret_health(&observed()?).map_err(failed)?.into())
        }
        Operation::InterpretDependency => one(
            "dependencies",
            tree(&interpreter.interpret_dependency(&observed()?).map_err(failed)?)?,
        ),
    }
}

fn tree(value: &impl serde::Serialize) -> Result<Value> {
    karmada_apimachinery::to_value(value).map_err(|error| Error::Message(error.to_string()))
}

/// Statuses of members, one document each, or a list of them.
fn statuses(path: Option<&String>) -> Result<Vec<AggregatedStatusItem>> {
    let path = path.ok_or("--status-file is not set")?;
    let text = std::fs::read_to_string(path).map_err(|error| format!("read {path}: {error}"))?;
    let mut items = Vec::new();
    for part in text.split("\n---").map(|part| part.trim_start_matches("---")) {
        let value = karmada_apimachinery::decode::yaml_untyped(part.as_bytes())
            .map_err(|error| format!("parse {path}: {error}"))?
            .value;
        let values = match value {
            Value::Array(values) => values,
            Value::Null => continue,
            value if value.get("items").is_some() => value.list_at(&["items"]).to_vec().into(),
            value => vec![value].into(),
        };
        for value in values {
            items.push(
                karmada_apimachinery::from_value(value)
                    .map_err(|error| format!("understand {path}: {error}"))?,
            );
        }
    }
    Ok(items)
}

fn show(results: &[(&str, Value)]) -> String {
    let count = results.len();
    let one = |(place, (name, value)): (usize, &(&str, Value))| {
        format!("---\n# [{}/{count}] {name}:\n{}", place + 1, output::yaml_text(value))
    };
    results.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn customization(script: &str) -> ResourceInterpreterCustomization {
        karmada_apimachinery::from_value(json!({
            "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": "deploy-customization"},
            "spec": {
                "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
                "customizations": {"healthInterpretation": {"luaScript": script}}},
        }))
        .unwrap()
    }

    #[test]
    fn scripts_are_checked_rule_by_rule() {
        let (text, passed) = check(&[customization("function InterpretHealth(o) return true end")]);
        assert!(passed);
        assert!(text.starts_with(
            "-----------------------------------\nSOURCE: deploy-customization\nTARGET: apps/v1 Deployment   \nRULERS:\n    Retain:                  UNSET\n"
        ), "{text}");
        assert!(text.contains("    InterpretHealth:         PASS\n"), "{text}");
        let (text, passed) = check(&[customization("function (")]);
        assert!(!passed && text.contains("InterpretHealth:         ERROR: "), "{text}");
    }

    #[test]
    fn results_are_numbered_documents() {
        let text = show(&[("replica", json!(6)), ("requires", json!({}))]);
        assert_eq!(text, "---\n# [1/2] replica:\n6\n---\n# [2/2] requires:\n{}\n");
    }
}
