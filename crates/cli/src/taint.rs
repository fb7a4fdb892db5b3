//! `taint`: adds and removes taints of clusters.

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};

use crate::context::{Context, cluster, clusters};
use crate::error::{Error, Result};
use crate::output;

pub(crate) const EXAMPLES: &str = "  # Keep workloads off member1 unless they tolerate it
  karmadactl taint clusters member1 dedicated=special:NoSchedule

  # Remove that taint, with any effect
  karmadactl taint clusters member1 dedicated-
";

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// clusters NAME… KEY[=VALUE]:EFFECT… or KEY[:EFFECT]-
    #[arg(value_name = "clusters NAME TAINT")]
    what: Vec<String>,
    /// Replace a taint of the same key and effect
    #[arg(long)]
    overwrite: bool,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Taint {
    key: String,
    value: String,
    /// Empty where any effect is meant.
    effect: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    clusters: Vec<String>,
    add: Vec<Taint>,
    remove: Vec<Taint>,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let changes = parse(&args.what)?;
    let karmada = ctx.karmada().await?;
    for name in &changes.clusters {
        let stored = cluster(&karmada, name).await?;
        let taints = changed(name, &stored, &changes, args.overwrite)?;
        if !args.dry_run {
            let patch = json!({
                "metadata": {"resourceVersion": stored.resource_version()}, "spec": {"taints": taints},
            });
            karmada.client.api(&clusters()).merge_patch(name, patch).await?;
        }
        let word = match (changes.add.is_empty(), changes.remove.is_empty()) {
            (false, true) if !args.overwrite => "tainted",
            (true, false) => "untainted",
            _ => "modified",
        };
        output::print(&format!("cluster/{name} {word}\n"))?;
    }
    Ok(())
}

fn parse(words: &[String]) -> Result<Changes> {
    let missing = "one or more resources must be specified as <resource> <name>";
    let (kind, rest) = words.split_first().ok_or(missing)?;
    let mut changes = Changes::default();
    let is_taint = |word: &str| word.contains([':', '=']) || word.ends_with('-');
    for word in rest {
        if is_taint(word) {
            let (taint, removes) = parse_taint(word)?;
            if removes { &mut changes.remove } else { &mut changes.add }.push(taint);
        } else if changes.add.is_empty() && changes.remove.is_empty() {
            changes.clusters.push(word.clone());
        } else {
            return Err(Error::Message(format!(
                "all resources must be specified before taint changes: {word}"
            )));
        }
    }
    if changes.clusters.is_empty() {
        return Err(Error::from(missing));
    }
    if !["cluster", "clusters"].contains(&kind.to_lowercase().as_str()) {
        return Err(Error::Message(format!(
            "invalid resource type {kind}, only [\"cluster\" \"clusters\"] are supported"
        )));
    }
    if changes.add.is_empty() && changes.remove.is_empty() {
        return Err(Error::from("at least one taint update is required"));
    }
    let both: Vec<String> = changes
        .add
        .iter()
        .filter(|taint| changes.remove.iter().any(|removed| covers(removed, taint)))
        .map(|taint| format!("{{\"{}\":\"{}\"}}", taint.key, taint.effect))
        .collect();
    if !both.is_empty() {
        return Err(Error::Message(format!(
            "can not both modify and remove the following taint(s) in the same command: {}",
            both.join(", ")
        )));
    }
    Ok(changes)
}

/// `KEY[=VALUE]:EFFECT` to add, `KEY[=VALUE][:EFFECT]-` to remove.
fn parse_taint(word: &str) -> Result<(Taint, bool)> {
    let (text, removes) = word.strip_suffix('-').map_or((word, false), |text| (text, true));
    let (head, effect) = text.split_once(':').unwrap_or((text, ""));
    let (key, value) = head.split_once('=').unwrap_or((head, ""));
    let invalid = || Error::Message(format!("invalid taint spec: {word}"));
    if key.is_empty() || (effect.is_empty() && !removes) {
        return Err(invalid());
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        let hint = crate::suggest::did_you_mean(effect, EFFECTS.iter().copied());
        return Err(Error::Message(format!(
            "invalid taint effect: {effect}, unsupported taint effect{hint}"
        )));
    }
    Ok((Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() }, removes))
}

fn covers(removed: &Taint, taint: &Taint) -> bool {
    removed.key == taint.key && (removed.effect.is_empty() || removed.effect == taint.effect)
}

fn changed(name: &str, cluster: &Value, changes: &Changes, overwrite: bool) -> Result<Vec<Value>> {
    let read = |taint: &Value| Taint {
        key: taint.str_at(&["key"]).unwrap_or_default().to_owned(),
        value: taint.str_at(&["value"]).unwrap_or_default().to_owned(),
        effect: taint.str_at(&["effect"]).unwrap_or_default().to_owned(),
    };
    let mut taints: Vec<Value> = cluster.list_at(&["spec", "taints"]).to_vec();
    for removed in &changes.remove {
        let before = taints.len();
        taints.retain(|taint| !covers(removed, &read(taint)));
        if taints.len() == before {
            let shown = match removed.effect.as_str() {
                "" => removed.key.clone(),
                effect => format!("{}:{effect}", removed.key),
            };
            return Err(Error::Message(format!("taint \"{shown}\" not found")));
        }
    }
    for added in &changes.add {
        let same =
            |taint: &Value| read(taint).key == added.key && read(taint).effect == added.effect;
        if taints.iter().any(same) {
            if !overwrite {
                return Err(Error::Message(format!(
                    "cluster {name} already has {} taint(s) with same effect(s) and --overwrite is false",
                    added.key
                )));
            }
            taints.retain(|taint| !same(taint));
        }
        let mut taint = json!({"key": added.key, "effect": added.effect});
        if !added.value.is_empty() {
            taint["value"] = added.value.as_str().into();
        }
        taints.push(taint);
    }
    Ok(taints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn mistakes_are_named() {
        for (line, expected) in [
            ("", "one or more resources must be specified as <resource> <name>"),
            ("clusters m1", "at least one taint update is required"),
            (
                "nodes m1 a:NoSchedule",
                "invalid resource type nodes, only [\"cluster\" \"clusters\"] are supported",
            ),
            (
                "clusters m1 a:NoSchedule m2",
                "all resources must be specified before taint changes: m2",
            ),
            (
                "clusters m1 a=b:NoSchedule a:NoSchedule-",
                "can not both modify and remove the following taint(s) in the same command: {\"a\":\"NoSchedule\"}",
            ),
            (
                "clusters m1 a:NoSchedul",
                "invalid taint effect: NoSchedul, unsupported taint effect (did you mean \"NoSchedule\"?)",
            ),
        ] {
            assert_eq!(parse(&words(line)).unwrap_err().to_string(), expected, "{line}");
        }
    }

    #[test]
    fn taints_are_added_replaced_and_removed() {
        let cluster = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]}});
        let apply = |line: &str, overwrite| {
            changed("m1", &cluster, &parse(&words(line)).unwrap(), overwrite)
        };
        assert_eq!(apply("clusters m1 a-", false).unwrap().len(), 1);
        assert!(apply("clusters m1 c-", false).is_err());
        assert!(apply("clusters m1 a=x:NoSchedule", false).is_err());
        let replaced = apply("clusters m1 a=x:NoSchedule", true).unwrap();
        assert_eq!(replaced[1], json!({"key": "a", "value": "x", "effect": "NoSchedule"}));
    }
}
