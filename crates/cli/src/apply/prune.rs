//! `apply --prune`: deletes what an earlier apply made and the files no longer have.

use std::collections::BTreeSet;

use karmada_apimachinery::gvk::Gvk;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{ApiResource, DeleteOptions, ListOptions, Propagation};

use super::LAST_APPLIED;
use crate::context::Server;
use crate::error::{Error, Result};
use crate::output;
use crate::resources::line_name;
use crate::subjects::DryRun;

/// Kinds that are looked at unless others are named.
const USUAL: &[(&str, &str, &str)] = &[
    ("", "v1", "ConfigMap"),
    ("", "v1", "Endpoints"),
    ("", "v1", "Namespace"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "PersistentVolume"),
    ("", "v1", "Pod"),
    ("", "v1", "ReplicationController"),
    ("", "v1", "Secret"),
    ("", "v1", "Service"),
    ("batch", "v1", "Job"),
    ("batch", "v1", "CronJob"),
    ("networking.k8s.io", "v1", "Ingress"),
    ("apps", "v1", "DaemonSet"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ReplicaSet"),
    ("apps", "v1", "StatefulSet"),
];

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Flags {
    /// Delete what an earlier apply made and the files no longer have; needs -l or --all
    #[arg(long)]
    prune: bool,
    /// With --prune, the kinds to look at, as group/version/kind (core/v1/ConfigMap)
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    prune_allowlist: Vec<String>,
    /// With --prune, look at all objects of those kinds
    #[arg(long)]
    all: bool,
    /// With --prune, what becomes of what the deleted own: background, foreground or orphan
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_value = "background",
        default_missing_value = "background", hide_default_value = true)]
    cascade: String,
    /// With --prune, seconds given for an orderly end
    #[arg(long, value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true, hide_default_value = true)]
    grace_period: i64,
}

/// What was applied in this run.
#[derive(Debug, Default)]
pub(super) struct Applied {
    pub(super) uids: BTreeSet<String>,
    pub(super) namespaces: BTreeSet<String>,
}

impl Flags {
    pub(super) fn is_on(&self) -> bool {
        self.prune
    }

    /// Refuses to prune everything by accident.
    pub(super) fn check(&self, selector: &str) -> Result<()> {
        if self.prune && !self.all && selector.is_empty() {
            return Err(Error::from(
                "all resources selected for prune without explicitly passing --all. To prune all resources, pass the \
                 --all flag. If you did not mean to prune all resources, specify a label selector",
            ));
        }
        Ok(())
    }

    fn kinds(&self) -> Result<Vec<Gvk>> {
        if self.prune_allowlist.is_empty() {
            return Ok(USUAL
                .iter()
                .map(|(group, version, kind)| Gvk::new(*group, *version, *kind))
                .collect());
        }
        let parse = |text: &String| match text.split('/').collect::<Vec<_>>().as_slice() {
            [group, version, kind] => {
                Ok(Gvk::new(if *group == "core" { "" } else { *group }, *version, *kind))
            }
            _ => Err(Error::Message(format!(
                "invalid GroupVersionKind format: {text}, please follow <group/version/kind>"
            ))),
        };
        self.prune_allowlist.iter().map(parse).collect()
    }

    /// Deletes what is left over.
    pub(super) async fn run(
        &self,
        server: &Server,
        applied: &Applied,
        selector: &str,
        dry_run: DryRun,
    ) -> Result<()> {
        for gvk in self.kinds()? {
            let resource = server.resources.of_kind(&gvk).await?;
            match resource.namespaced {
                true => {
                    for namespace in &applied.namespaces {
                        self.kind(server, &resource, namespace, applied, selector, dry_run).await?;
                    }
                }
                false => self.kind(server, &resource, "", applied, selector, dry_run).await?,
            }
        }
        Ok(())
    }

    async fn kind(
        &self,
        server: &Server,
        resource: &ApiResource,
        namespace: &str,
        applied: &Applied,
        selector: &str,
        dry_run: DryRun,
    ) -> Result<()> {
        let api = server.client.api(&resource.gvr).namespaced(namespace);
        let options = ListOptions { label_selector: selector.to_owned(), ..ListOptions::default() };
        for item in &api.list_all(&options).await?.items {
            let is_ours = item.value().annotation(LAST_APPLIED).is_some();
            if !is_ours || applied.uids.contains(item.uid()) || item.is_being_deleted() {
                continue;
            }
            if dry_run == DryRun::None {
                let options = DeleteOptions {
                    propagation: Some(match self.cascade.as_str() {
                        "orphan" | "false" => Propagation::Orphan,
                        "foreground" => Propagation::Foreground,
                        _ => Propagation::Background,
                    }),
                    grace_period_seconds: u64::try_from(self.grace_period).ok(),
                    ..DeleteOptions::default()
                };
                api.delete(item.name(), &options).await?;
            }
            output::print(&format!(
                "{} pruned{}\n",
                line_name(resource, item.name()),
                dry_run.suffix()
            ))?;
        }
        Ok(())
    }
}
