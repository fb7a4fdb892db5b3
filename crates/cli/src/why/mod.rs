//! `why`: on one screen, why an object runs where it runs: the policy that claimed it, the clusters and the rules
//! that refused them, the division of replicas, the overrides, the members' answers, what is being waited for.
//!
//! Those who decided are asked: a control plane of ours serves its reasons beside every binding. Where nobody serves
//! them, as on the original, they are worked out here with the functions the controllers use.

pub(crate) mod assess;
mod unknown;

const POLICY: &str = "policy.karmada.io";

use karmada_api::explain::Explanation;
use karmada_api::work::ResourceBindingSpec;
use karmada_api::{labels, names};
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::ListOptions;

use crate::context::{Context, Server, check_clusters, clusters};
use crate::error::{Error, Result};
use crate::output;
use crate::subjects::Selection;
use assess::{Evidence, Report};

pub(crate) const EXAMPLES: &str = "  # Why does nginx run where it runs
  karmadactl why deployment/nginx

  # What happens to it in one cluster
  karmadactl why deployment/nginx -C member1

  # For programs
  karmadactl why deployment/nginx -o json
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// TYPE NAME or TYPE/NAME
    #[arg(value_name = "TYPE/NAME")]
    pub(crate) what: Vec<String>,
    /// Only this cluster
    #[arg(long, short = 'C', value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Output format: json or yaml
    #[arg(long, short, value_name = "FORMAT", default_value = "", hide_default_value = true, value_parser = ["", "json", "yaml"])]
    pub(crate) output: String,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let (mut report, _) = report(ctx, &args).await?;
    if let Some(cluster) = &args.cluster {
        report.keep_cluster(cluster);
    }
    output::print(&show(&report, &args.output)?)
}

/// The report in the format asked for.
pub(crate) fn show(report: &Report, format: &str) -> Result<String> {
    let tree = karmada_apimachinery::to_value(report).map_err(|error| error.to_string())?;
    Ok(match format {
        "json" => output::json_text(&tree),
        "yaml" => output::yaml_text(&tree),
        _ => format!("{report}\n"),
    })
}

/// Gathers the evidence and judges it.
pub(crate) async fn report(ctx: &Context, args: &Args) -> Result<(Report, Evidence)> {
    let karmada = ctx.karmada().await?;
    let selection = Selection { what: &args.what, ..Selection::default() };
    let subjects = selection.subjects(ctx, &karmada).await?;
    let [subject] = subjects.as_slice() else {
        return Err(Error::from("name exactly one object, as TYPE/NAME"));
    };
    let object = subject.live(&karmada).await?;
    if subject.resource.gvr.group == POLICY && object.kind().ends_with("PropagationPolicy") {
        return Err(Error::Message(claims_of(&karmada, &object).await?));
    }
    let evidence = gather(&karmada, object).await?;
    if let Some(cluster) = &args.cluster {
        let known: Vec<String> =
            evidence.clusters.iter().map(|one| one.name().to_owned()).collect();
        check_clusters(std::slice::from_ref(cluster), &known)?;
    }
    Ok((assess::assess(&evidence)?, evidence))
}

/// Policies decide and are not decided on: what one has claimed can be asked about instead.
async fn claims_of(karmada: &Server, policy: &Value) -> Result<String> {
    let (label, lists) = match policy.kind() {
        "PropagationPolicy" => (labels::PROPAGATION_POLICY_PERMANENT_ID, &BINDINGS[..1]),
        _ => (labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID, &BINDINGS[..]),
    };
    let id = policy.label(label).unwrap_or_default();
    let options = ListOptions { label_selector: format!("{label}={id}"), ..ListOptions::default() };
    let mut claimed = Vec::new();
    for resource in lists.iter().filter(|_| !id.is_empty()) {
        let api = karmada.client.api(&Gvr::new("work.karmada.io", "v1alpha2", *resource));
        let found = api.namespaced(policy.namespace()).list_all(&options).await?;
        claimed.extend(found.items.iter().map(|binding| question(&binding.value())));
    }
    Ok(judge_claims(policy, &claimed))
}

const BINDINGS: [&str; 2] = ["resourcebindings", "clusterresourcebindings"];

/// What to type to learn about the object of a binding.
fn question(binding: &Value) -> String {
    let part = |field: &str| binding.str_at(&["spec", "resource", field]).unwrap_or_default();
    let space = match part("namespace") {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    format!("karmadactl why {}/{}{space}", part("kind").to_lowercase(), part("name"))
}

fn judge_claims(policy: &Value, claimed: &[String]) -> String {
    let place = match policy.namespace() {
        "" => policy.name().to_owned(),
        namespace => format!("{namespace}/{}", policy.name()),
    };
    let whose = format!("{} {place}", policy.kind());
    if claimed.is_empty() {
        return format!(
            "{whose} has claimed nothing: no object fits its resourceSelectors, or other policies have claimed them all"
        );
    }
    format!("ask about what {whose} has claimed:\n  {}", claimed.join("\n  "))
}

/// The reasons the control plane itself gives.
enum Told {
    Reasons(Box<Explanation>),
    /// Nobody gives any, or not to this user.
    Nothing,
    LeaderIsAway,
}

async fn explanation(karmada: &Server, bindings: &str, binding: &Value) -> Result<Told> {
    let namespace = Some(binding.namespace()).filter(|namespace| !namespace.is_empty());
    let gvr = Gvr::new("work.karmada.io", "v1alpha2", bindings);
    let path = karmada_client::request::path(&gvr, namespace, binding.name(), "explanation");
    match karmada.client.get_path(&path, "application/json").await {
        Ok(told) => karmada_apimachinery::from_value(told)
            .map(|told| Told::Reasons(Box::new(told)))
            .map_err(|error| Error::Message(format!("understand the explanation: {error}"))),
        Err(error) if error.is_not_found() || error.is_method_not_allowed() => Ok(Told::Nothing),
        // Whoever may read the objects but not the reasons gets those that follow from the objects.
        Err(error) if error.is_forbidden() => Ok(Told::Nothing),
        Err(error) if error.api().is_some_and(|error| error.code == 503) => Ok(Told::LeaderIsAway),
        Err(error) => Err(error.into()),
    }
}

async fn gather(karmada: &Server, object: Value) -> Result<Evidence> {
    let namespace = object.namespace().to_owned();
    let list =
        async |group: &str, version: &str, resource: &str, namespace: &str| -> Result<Vec<Value>> {
            let api = karmada.client.api(&Gvr::new(group, version, resource)).namespaced(namespace);
            let list = api.list_all(&ListOptions::default()).await?;
            Ok(list.items.iter().map(|item| item.value()).collect())
        };
    let in_namespace = async |resource: &str| match namespace.as_str() {
        "" => Ok(Vec::new()),
        namespace => list(POLICY, "v1alpha1", resource, namespace).await,
    };
    let bindings =
        if namespace.is_empty() { "clusterresourcebindings" } else { "resourcebindings" };
    let binding_name = names::binding(object.kind(), object.name());
    let binding = karmada
        .client
        .api(&Gvr::new("work.karmada.io", "v1alpha2", bindings))
        .namespaced(&namespace)
        .find(&binding_name)
        .await?;
    let told = match &binding {
        Some(binding) => explanation(karmada, bindings, binding).await?,
        None => Told::Nothing,
    };
    let clusters: Vec<Value> = karmada
        .client
        .api(&clusters())
        .list_all(&ListOptions::default())
        .await?
        .items
        .iter()
        .map(|item| item.value())
        .collect();
    let mut works = Vec::new();
    if let Some(binding) = &binding {
        let work_name = names::work(object.kind(), object.name(), &namespace);
        for cluster in &targets(binding)? {
            let space = names::execution_space(cluster);
            let api = karmada
                .client
                .api(&Gvr::new("work.karmada.io", "v1alpha1", "works"))
                .namespaced(&space);
            works.push((cluster.to_owned(), api.find(&work_name).await?));
        }
    }
    let leader_is_away = matches!(told, Told::LeaderIsAway);
    let told = match told {
        Told::Reasons(told) => Some(*told),
        Told::Nothing | Told::LeaderIsAway => None,
    };
    Ok(Evidence {
        policies: in_namespace("propagationpolicies").await?,
        cluster_policies: list(POLICY, "v1alpha1", "clusterpropagationpolicies", "").await?,
        overrides: in_namespace("overridepolicies").await?,
        cluster_overrides: list(POLICY, "v1alpha1", "clusteroverridepolicies", "").await?,
        binding,
        told,
        leader_is_away,
        clusters,
        works,
        object,
    })
}

/// The clusters a binding sends its object to, for whatever reason.
fn targets(binding: &Value) -> Result<Vec<String>> {
    let spec: ResourceBindingSpec = assess::read_part(binding, "spec")?;
    let targets = karmada_propagation::work::targets(&spec);
    Ok(targets.into_iter().map(|target| target.name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_policy_is_told_by_what_it_claimed() {
        let policy = json!({
            "kind": "PropagationPolicy", "metadata": {"name": "p", "namespace": "shop"}});
        let nothing = judge_claims(&policy, &[]);
        assert!(nothing.starts_with("PropagationPolicy shop/p has claimed nothing: "), "{nothing}");
        let binding = json!({"spec": {"resource": {
            "kind": "Deployment", "name": "web", "namespace": "shop"}}});
        assert_eq!(
            judge_claims(&policy, &[question(&binding)]),
            "ask about what PropagationPolicy shop/p has claimed:\n  karmadactl why deployment/web -n shop"
        );
    }
}
