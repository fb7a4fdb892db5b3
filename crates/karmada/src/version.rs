//! `karmada version`: what the program is made from, which Kubernetes it stands for, which features are on;
//! and the same as metrics.

use std::fmt::Write as _;

use karmada_api::features::Gates;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::http::respond::to_yaml;
use karmada_runtime::Metrics;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::stdout;

/// The Kubernetes whose API and behaviour the program has.
const KUBERNETES: &str = "v1.36";
const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
const UNKNOWN: &str = "unknown";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Prints YAML, JSON or the version alone; unless given, a text for people.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    /// Shows what these settings lead to, as in `Failover=true,AllAlpha=false`.
    #[arg(long, default_value = "", hide_default_value = true, value_parser = Gates::parse)]
    feature_gates: Gates,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Output {
    Yaml,
    Json,
    Short,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let document = document(&args.feature_gates);
    let text = match args.output {
        None => for_people(&args.feature_gates),
        Some(Output::Short) => format!("{VERSION}\n"),
        Some(Output::Yaml) => to_yaml(&document),
        Some(Output::Json) => format!("{}\n", serde_json::to_string_pretty(&document)?),
    };
    Ok(stdout::print(&text)?)
}

/// Adds the build and the state of every feature to the metrics, under the names Kubernetes and Karmada use.
pub(crate) fn register(metrics: &Metrics, gates: &Gates) {
    type Labels = Vec<(&'static str, String)>;
    let features = Family::<Labels, Gauge>::default();
    for (gate, on) in gates.iter() {
        let labels = vec![("name", gate.name().to_owned()), ("stage", gate.stage().to_string())];
        features.get_or_create(&labels).set(on.into());
    }
    let build = Family::<Labels, Gauge>::default();
    let labels = vec![
        ("git_version", VERSION.to_owned()),
        ("git_commit", commit().to_owned()),
        ("git_short_commit", commit().chars().take(9).collect()),
        // Nobody asks for these when it is built, and no Go is involved.
        ("git_tree_state", UNKNOWN.to_owned()),
        ("build_date", UNKNOWN.to_owned()),
        ("go_version", String::new()),
        ("compiler", rust().to_owned()),
        ("platform", platform()),
    ];
    build.get_or_create(&labels).set(1);
    metrics.register(|registry| {
        let help = "Whether a feature is on, by its name and stage";
        registry.register("kubernetes_feature_enabled", help, features);
        registry.register("karmada_build_info", "What the program is made from", build);
    });
}

fn document(gates: &Gates) -> Value {
    let features = gates.iter().map(|(gate, on)| {
        json!({
            "name": gate.name(),
            "enabled": on,
            "default": gate.default_value(),
            "stage": gate.stage().to_string(),
            "description": gate.description(),
        })
    });
    json!({
        "version": VERSION,
        "gitCommit": commit(),
        "rustVersion": rust(),
        "platform": platform(),
        "kubernetesVersion": KUBERNETES,
        "featureGates": features.collect::<Vec<_>>(),
    })
}

fn for_people(gates: &Gates) -> String {
    let mut text = format!(
        "karmada {VERSION} for Kubernetes {KUBERNETES}\ncommit   {}\nbuilt by {}\nplatform {}\nfeatures\n",
        commit(),
        rust(),
        platform()
    );
    for (gate, on) in gates.iter() {
        let (name, state) = (gate.name(), if on { "on" } else { "off" });
        writeln!(text, "  {name:<34}{state:<5}{}", gate.stage())
            .expect("a string takes everything");
    }
    text
}

fn commit() -> &'static str {
    option_env!("KARMADA_GIT_COMMIT").unwrap_or(UNKNOWN)
}

fn rust() -> &'static str {
    option_env!("KARMADA_RUST_VERSION").unwrap_or(UNKNOWN)
}

/// Operating system and processor, as Kubernetes spells them.
fn platform() -> String {
    let processor = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{processor}", std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_api::features::Gate;

    #[test]
    fn every_feature_is_shown_with_its_state() {
        let gates = Gates::default().with(Gate::Failover, true);
        let document = document(&gates);
        let shown = document["featureGates"].as_array().unwrap();
        assert_eq!(shown.len(), Gate::ALL.len());
        assert_eq!((&shown[0]["name"], &shown[0]["enabled"]), (&json!("Failover"), &json!(true)));
        assert_eq!((&shown[0]["default"], &shown[0]["stage"]), (&json!(false), &json!("BETA")));
    }

    #[test]
    fn features_are_metrics_as_kubernetes_has_them() {
        let metrics = Metrics::default();
        register(&metrics, &Gates::default());
        let text = metrics.encode();
        for line in [
            "kubernetes_feature_enabled{name=\"Failover\",stage=\"BETA\"} 0",
            "kubernetes_feature_enabled{name=\"PropagateDeps\",stage=\"BETA\"} 1",
            "kubernetes_feature_enabled{name=\"WorkloadAffinity\",stage=\"ALPHA\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn the_build_is_a_metric_with_the_labels_of_karmada() {
        let metrics = Metrics::default();
        register(&metrics, &Gates::default());
        let text = metrics.encode();
        let rows = text.lines().find_map(|line| line.strip_prefix("karmada_build_info{"));
        let (labels, value) = rows.unwrap().rsplit_once("} ").unwrap();
        let names: Vec<&str> =
            labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|l| l.0).collect();
        let expected = [
            "git_version",
            "git_commit",
            "git_short_commit",
            "git_tree_state",
            "build_date",
            "go_version",
            "compiler",
            "platform",
        ];
        assert_eq!((names.as_slice(), value), (&expected[..], "1"));
    }
}
