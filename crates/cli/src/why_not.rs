//! `why-not`: why an object does not run in one cluster.

use karmada_api::explain::{ClusterVerdict, Explanation, Requirement};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::output;
use crate::why::{self, assess::Report};

pub(crate) use crate::why::Args;

pub(crate) const EXAMPLES: &str = "  # Why does nginx not run in member2
  karmadactl why-not deployment/nginx -C member2
";

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let Some(cluster) = args.cluster.clone() else {
        return Err(Error::from("must specify a cluster with -C"));
    };
    let (mut report, evidence) = why::report(ctx, &args).await?;
    if !args.output.is_empty() {
        report.keep_cluster(&cluster);
        return output::print(&why::show(&report, &args.output)?);
    }
    let lines = answer(&report, evidence.binding.as_ref(), &cluster);
    output::print(&format!("{}\n", lines.join("\n")))
}

/// The answer in a few lines.
fn answer(report: &Report, binding: Option<&Value>, cluster: &str) -> Vec<String> {
    let Explanation { subject, policies, required_by, .. } = &report.explanation;
    let Some(binding) = binding else {
        if let Some(note) = report.notes.first() {
            return vec![format!("{subject}: {note}")];
        }
        let reason = report.waiting_for.first().cloned().unwrap_or_default();
        return vec![format!("{subject} runs nowhere yet: it waits for {reason}")];
    };
    let targets = binding.list_at(&["spec", "clusters"]);
    if let Some(target) = targets.iter().find(|target| target.str_at(&["name"]) == Some(cluster)) {
        let replicas = target.i64_at(&["replicas"]).unwrap_or_default();
        let mut lines = vec![format!("{subject} is placed in {cluster} with {replicas} replicas")];
        lines.extend(there(report, cluster));
        return lines;
    }
    let leads = |by: &&Requirement| by.clusters.iter().any(|one| one == cluster);
    if let Some(by) = required_by.iter().find(leads) {
        let mut lines =
            vec![format!("{subject} is in {cluster}: {} requires it there", by.binding)];
        lines.extend(there(report, cluster));
        return lines;
    }
    let mut lines = vec![format!("{subject} is not placed in {cluster}:")];
    lines.extend(required_by.iter().map(|by| format!("  - it is required by {by}")));
    let attempts = report.explanation.scheduling.iter().flat_map(|scheduling| &scheduling.attempts);
    for attempt in attempts {
        let group = attempt
            .affinity
            .as_ref()
            .map_or_else(String::new, |name| format!("affinity group {name}: "));
        let verdict = attempt.clusters.iter().find(|verdict| verdict.cluster == cluster);
        lines.extend(verdict_lines(verdict).into_iter().map(|line| format!("  - {group}{line}")));
    }
    if let Some(winner) = policies.first() {
        lines.push(format!("  the placement is that of {}", winner.policy));
    }
    lines.extend(report.notes.iter().map(|note| format!("  {note}")));
    lines
}

/// What the member answered.
fn there(report: &Report, cluster: &str) -> Vec<String> {
    let here = report.delivery.iter().filter(|one| one.cluster == cluster);
    here.map(|one| format!("  there: {}", one.answer)).collect()
}

fn verdict_lines(verdict: Option<&ClusterVerdict>) -> Vec<String> {
    match verdict {
        None => vec!["it was no candidate".to_owned()],
        Some(verdict) if !verdict.rejected_by.is_empty() => {
            let line = |refusal: &karmada_api::explain::Refusal| {
                format!("{} ({})", refusal.reason, refusal.rule)
            };
            verdict.rejected_by.iter().map(line).collect()
        }
        Some(verdict) if verdict.selected && verdict.replicas.unwrap_or_default() > 0 => {
            vec!["nothing speaks against it now; the next decision would place it there".to_owned()]
        }
        Some(verdict) if verdict.selected => {
            let room = verdict
                .allocatable
                .map_or_else(String::new, |room| format!(", it has room for {room}"));
            vec![format!("it may take replicas and none were left for it{room}")]
        }
        Some(verdict) => vec![format!("others were preferred; its score is {}", verdict.score)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_api::explain::{AffinityAttempt, Refusal, Scheduling};
    use karmada_apimachinery::json;

    #[test]
    fn the_rule_that_refused_is_named() {
        let refusal = Refusal { rule: "ClusterAffinity".into(), reason: "not in the list".into() };
        let verdict = ClusterVerdict {
            cluster: "m2".into(),
            rejected_by: vec![refusal],
            ..Default::default()
        };
        let attempt = AffinityAttempt { clusters: vec![verdict], ..Default::default() };
        let scheduling = Scheduling { attempts: vec![attempt], ..Default::default() };
        let explanation = Explanation {
            subject: "Deployment a/b".into(),
            scheduling: Some(scheduling),
            ..Default::default()
        };
        let report = Report { explanation, ..Report::default() };
        let binding = json!({"spec": {"clusters": [{"name": "m1", "replicas": 2}]}});
        assert_eq!(
            answer(&report, Some(&binding), "m2"),
            ["Deployment a/b is not placed in m2:", "  - not in the list (ClusterAffinity)"]
        );
        assert_eq!(
            answer(&report, Some(&binding), "m1"),
            ["Deployment a/b is placed in m1 with 2 replicas"]
        );
    }

    #[test]
    fn a_dependency_is_where_it_is_required_and_nowhere_else() {
        let by = Requirement {
            binding: "ResourceBinding a/web-deployment".into(),
            clusters: vec!["m1".into()],
        };
        let explanation = Explanation {
            subject: "ConfigMap a/conf".into(),
            required_by: vec![by],
            ..Default::default()
        };
        let report = Report { explanation, ..Report::default() };
        assert_eq!(
            answer(&report, Some(&json!({"spec": {}})), "m1"),
            ["ConfigMap a/conf is in m1: ResourceBinding a/web-deployment requires it there"]
        );
        assert_eq!(
            answer(&report, Some(&json!({"spec": {}})), "m2"),
            [
                "ConfigMap a/conf is not placed in m2:",
                "  - it is required by ResourceBinding a/web-deployment, which goes to m1"
            ]
        );
    }
}
