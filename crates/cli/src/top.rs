//! `top`: what pods and nodes of members use, from each member's own metrics.

use std::cmp::Reverse;

use futures::future::join_all;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::quantity::Quantity;
use karmada_client::ListOptions;

use crate::columns;
use crate::context::{Context, Server};
use crate::error::{Error, Result};
use crate::output;
use crate::scope::{Scope, servers};

pub(crate) const EXAMPLES: &str = "  # What pods use, in all clusters and namespaces
  karmadactl top pods -A

  # The busiest nodes of member1
  karmadactl top nodes --clusters member1 --sort-by cpu
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum What {
    /// What pods use
    #[command(alias = "pods", alias = "po")]
    Pod(Pods),
    /// What nodes use
    #[command(alias = "nodes", alias = "no")]
    Node(Nodes),
}

#[derive(Debug, Clone, clap::Args)]
struct Which {
    /// Only this one
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The member clusters; all of them unless given
    #[arg(long, short = 'C', value_name = "NAMES", value_delimiter = ',')]
    clusters: Vec<String>,
    /// Selector (label query) to filter on
    #[arg(
        long,
        short = 'l',
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    /// Print no headers
    #[arg(long)]
    no_headers: bool,
    /// Sort by cpu or memory, the most first
    #[arg(long, value_name = "FIELD", default_value = "", hide_default_value = true, value_parser = sort_field)]
    sort_by: String,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    use_protocol_buffers: Option<Option<String>>,
}

fn sort_field(text: &str) -> Result<String, String> {
    match text {
        "" | "cpu" | "memory" => Ok(text.to_owned()),
        _ => Err("--sort-by accepts only cpu or memory".to_owned()),
    }
}

#[derive(Debug, Clone, clap::Args)]
struct Pods {
    #[command(flatten)]
    which: Which,
    /// Look in all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Selector (field query) to filter on
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    field_selector: String,
    /// Each container on a line of its own
    #[arg(long)]
    containers: bool,
    /// The sum of all lines
    #[arg(long)]
    sum: bool,
}

#[derive(Debug, Clone, clap::Args)]
struct Nodes {
    #[command(flatten)]
    which: Which,
    /// Compare with what nodes have instead of what they can give
    #[arg(long)]
    show_capacity: bool,
}

/// One line: names, and what is used.
#[derive(Debug, Clone, PartialEq)]
struct Usage {
    cluster: String,
    namespace: String,
    pod: String,
    name: String,
    cpu_millis: i64,
    memory: i64,
    /// What there is of both, for nodes.
    of: Option<(i64, i64)>,
    /// Whether there are numbers at all.
    known: bool,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let which = match &args.what {
        What::Pod(pods) => &pods.which,
        What::Node(nodes) => &nodes.which,
    };
    if which.name.is_some() && !which.selector.is_empty() {
        return Err(Error::from("only one of NAME or --selector can be provided"));
    }
    let members = servers(ctx, Scope::Members, &which.clusters).await?;
    let namespace = ctx.namespace().await?;
    let asked = join_all(members.iter().map(|member| ask(member, &args.what, &namespace))).await;
    let (mut lines, mut errors) = (Vec::new(), Vec::new());
    for (member, answer) in members.iter().zip(asked) {
        match answer {
            Ok(found) => lines.extend(found),
            Err(error) => {
                errors.push(Error::Message(format!("cluster({}): {error}", member.label())))
            }
        }
    }
    if lines.is_empty() {
        if errors.is_empty() {
            output::note("No resources found");
        }
        return Error::combine(errors);
    }
    sort(&mut lines, &which.sort_by);
    let text = match &args.what {
        What::Pod(pods) => render_pods(&lines, pods),
        What::Node(nodes) => render_nodes(&lines, nodes.which.no_headers),
    };
    output::print(&text)?;
    Error::combine(errors)
}

async fn ask(member: &Server, what: &What, namespace: &str) -> Result<Vec<Usage>> {
    let (which, resource, namespace, field_selector) = match what {
        What::Pod(pods) => {
            let namespace = if pods.all_namespaces { "" } else { namespace };
            (&pods.which, "pods", namespace, pods.field_selector.as_str())
        }
        What::Node(nodes) => (&nodes.which, "nodes", "", ""),
    };
    let options = ListOptions {
        label_selector: which.selector.clone(),
        field_selector: field_selector.to_owned(),
        ..ListOptions::default()
    };
    let metrics =
        member.client.api(&Gvr::new("metrics.k8s.io", "v1beta1", resource)).namespaced(namespace);
    let missing = |error: karmada_client::Error| match error.api() {
        Some(refusal) if refusal.code == 404 && which.name.is_none() => {
            Error::from("metrics API not available")
        }
        _ => error.into(),
    };
    let found: Vec<Value> = match &which.name {
        Some(name) => vec![metrics.get(name).await.map_err(missing)?],
        None => metrics
            .list_all(&options)
            .await
            .map_err(missing)?
            .items
            .iter()
            .map(|item| item.value())
            .collect(),
    };
    match what {
        What::Pod(pods) => Ok(found
            .iter()
            .flat_map(|pod| pod_usage(member.label(), pod, pods.containers))
            .collect()),
        What::Node(nodes) => {
            let objects =
                member.client.api(&Gvr::new("", "v1", "nodes")).list_all(&options).await?;
            let objects: Vec<Value> = objects
                .items
                .iter()
                .filter(|node| nodes.which.name.as_ref().is_none_or(|name| name == node.name()))
                .map(|node| node.value())
                .collect();
            Ok(node_usage(member.label(), &objects, &found, nodes.show_capacity))
        }
    }
}

fn amount(value: Option<&Value>, millis: bool) -> i64 {
    let Some(quantity) = value.and_then(|value| Quantity::from_value(value).ok()) else { return 0 };
    if millis { quantity.milli_value() } else { quantity.value() }
}

fn pod_usage(cluster: &str, pod: &Value, per_container: bool) -> Vec<Usage> {
    let one = |name: &str, cpu_millis: i64, memory: i64| Usage {
        cluster: cluster.to_owned(),
        namespace: pod.namespace().to_owned(),
        pod: pod.name().to_owned(),
        name: name.to_owned(),
        cpu_millis,
        memory,
        of: None,
        known: true,
    };
    let containers = pod.list_at(&["containers"]).iter().map(|container| {
        let usage = |what: &str| container.at(&["usage", what]);
        one(
            container.str_at(&["name"]).unwrap_or_default(),
            amount(usage("cpu"), true),
            amount(usage("memory"), false),
        )
    });
    if per_container {
        return containers.collect();
    }
    let (cpu, memory) =
        containers.fold((0, 0), |(cpu, memory), one| (cpu + one.cpu_millis, memory + one.memory));
    vec![one(pod.name(), cpu, memory)]
}

fn node_usage(cluster: &str, nodes: &[Value], metrics: &[Value], capacity: bool) -> Vec<Usage> {
    let field = if capacity { "capacity" } else { "allocatable" };
    nodes
        .iter()
        .map(|node| {
            let found = metrics.iter().find(|one| one.name() == node.name());
            let usage = |what: &str| found.and_then(|one| one.at(&["usage", what]));
            let have = |what: &str, millis| amount(node.at(&["status", field, what]), millis);
            Usage {
                cluster: cluster.to_owned(),
                namespace: String::new(),
                pod: String::new(),
                name: node.name().to_owned(),
                cpu_millis: amount(usage("cpu"), true),
                memory: amount(usage("memory"), false),
                of: Some((have("cpu", true), have("memory", false))),
                known: found.is_some(),
            }
        })
        .collect()
}

fn sort(lines: &mut [Usage], by: &str) {
    match by {
        "cpu" => lines.sort_by_key(|line| Reverse(line.cpu_millis)),
        "memory" => lines.sort_by_key(|line| Reverse(line.memory)),
        _ => lines.sort_by(|a, b| {
            (&a.cluster, &a.namespace, &a.pod, &a.name).cmp(&(
                &b.cluster,
                &b.namespace,
                &b.pod,
                &b.name,
            ))
        }),
    }
}

fn cpu(millis: i64) -> String {
    format!("{millis}m")
}

fn memory(bytes: i64) -> String {
    format!("{}Mi", bytes / (1024 * 1024))
}

fn render_pods(lines: &[Usage], pods: &Pods) -> String {
    let row = |namespace: &str,
               pod: &str,
               name: &str,
               cluster: &str,
               cpu: &str,
               memory: &str|
     -> Vec<String> {
        let mut row = Vec::new();
        if pods.all_namespaces {
            row.push(namespace.to_owned());
        }
        if pods.containers {
            row.push(pod.to_owned());
        }
        row.extend([name, cluster, cpu, memory].map(str::to_owned));
        row
    };
    let mut rows = Vec::new();
    if !pods.which.no_headers {
        rows.push(row("NAMESPACE", "POD", "NAME", "CLUSTER", "CPU(cores)", "MEMORY(bytes)"));
    }
    for line in lines {
        rows.push(row(
            &line.namespace,
            &line.pod,
            &line.name,
            &line.cluster,
            &cpu(line.cpu_millis),
            &memory(line.memory),
        ));
    }
    if pods.sum {
        let total =
            lines.iter().fold((0, 0), |sum, line| (sum.0 + line.cpu_millis, sum.1 + line.memory));
        rows.push(row("", "", "", "", "________", "________"));
        rows.push(row("", "", "", "", &cpu(total.0), &memory(total.1)));
    }
    columns::lay_out_padded(&rows)
}

fn render_nodes(lines: &[Usage], no_headers: bool) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    if !no_headers {
        rows.push(
            ["NAME", "CLUSTER", "CPU(cores)", "CPU%", "MEMORY(bytes)", "MEMORY%"]
                .map(str::to_owned)
                .to_vec(),
        );
    }
    for line in lines {
        let mut row = vec![line.name.clone(), line.cluster.clone()];
        if line.known {
            let (all_cpu, all_memory) = line.of.unwrap_or_default();
            let share = |part: i64, whole: i64| {
                format!("{}%", if whole > 0 { part * 100 / whole } else { 0 })
            };
            row.extend([
                cpu(line.cpu_millis),
                share(line.cpu_millis, all_cpu),
                memory(line.memory),
                share(line.memory, all_memory),
            ]);
        } else {
            row.extend(std::iter::repeat_n("<unknown>".to_owned(), 4));
        }
        rows.push(row);
    }
    columns::lay_out_padded(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn nodes_are_shown_with_their_shares() {
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "16Gi"}}});
        let silent = json!({"metadata": {"name": "o"}, "status": {}});
        let metrics = json!({"metadata": {"name": "n"}, "usage": {"cpu": "250m", "memory": "1Gi"}});
        let text = render_nodes(&node_usage("member1", &[node, silent], &[metrics], false), false);
        let expected = "\
NAME   CLUSTER   CPU(cores)   CPU%        MEMORY(bytes)   MEMORY%     
n      member1   250m         3%          1024Mi          6%          
o      member1   <unknown>    <unknown>   <unknown>       <unknown>   
";
        assert_eq!(text, expected);
    }

    #[test]
    fn pods_add_up_their_containers() {
        let pod = json!({"metadata": {"name": "p", "namespace": "d"}, "containers": [
            {"name": "a", "usage": {"cpu": "1m", "memory": "4Mi"}}, {"name": "b", "usage": {"cpu": "2m", "memory": "4Mi"}}]});
        let whole = pod_usage("m", &pod, false);
        assert_eq!((whole[0].cpu_millis, whole[0].memory), (3, 8 << 20));
        assert_eq!(pod_usage("m", &pod, true).len(), 2);
    }
}
