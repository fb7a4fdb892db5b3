//! The simulated members of `karmada up --members N`: clusters in the same process, each with its
//! own port, certificates, objects and kubeconfig below the data directory, joined in Push mode.
//! A restart finds them as they were.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use futures::FutureExt as _;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apiserver::pki::write_private;
use karmada_client::Client;
use karmada_controllers::members::{self, Dial};
use karmada_member_sim::{AddressPool, Config, Nodes, Sim, Timeline};
use karmada_registration::{self as registration, Access, Join};
use karmada_store::Embedded;

use crate::cluster_proxy::Shortcut;
use crate::member::Files;

/// Where the members are said to be.
const REGIONS: [&str; 3] = ["us-east-1", "eu-west-1", "ap-south-1"];
const ZONES: [&str; 3] = ["a", "b", "c"];
const PROVIDER: &str = "simulated";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MemberArgs {
    /// Simulated member clusters to start and join: member1, member2, …
    #[arg(long, value_name = "N", default_value_t = 0)]
    members: usize,
    /// Nodes of each simulated member when it is first started
    #[arg(long, value_name = "N", default_value_t = 3)]
    member_nodes: usize,
    /// Where addresses of load balancers of the simulated members come from, each its own part of it
    #[arg(long, value_name = "CIDR")]
    member_load_balancers: Option<AddressPool>,
    /// How pods of the simulated members live; see `karmada member --scripted`
    #[arg(long, value_name = "NAME=VALUE,…", default_value = "", hide_default_value = true)]
    member_scripted: Timeline,
}

impl MemberArgs {
    fn load_balancers_of(&self, place: usize) -> anyhow::Result<Option<AddressPool>> {
        let Some(pool) = self.member_load_balancers else { return Ok(None) };
        let part = pool.part(u32::try_from(place)?, u32::try_from(self.members)?);
        Ok(Some(part.context("--member-load-balancers is too small for so many members")?))
    }
}

/// The members that run in this process.
#[derive(Default)]
pub(crate) struct Members {
    sims: BTreeMap<String, Arc<Sim>>,
    data_dir: PathBuf,
}

impl Members {
    /// Starts the members, those of an earlier run as they were.
    pub(crate) async fn start(args: &MemberArgs, data_dir: &Path) -> anyhow::Result<Self> {
        let mut members = Self { sims: BTreeMap::new(), data_dir: data_dir.to_owned() };
        let names: Vec<String> =
            (1..=args.members).map(|number| format!("member{number}")).collect();
        let starts = names.iter().enumerate().map(|(place, name)| {
            let started = members.start_one(name, place, args);
            started.map(move |sim| sim.with_context(|| format!("start the member {name}")))
        });
        let sims = futures::future::try_join_all(starts).await?;
        members.sims = names.into_iter().zip(sims.into_iter().map(Arc::new)).collect();
        Ok(members)
    }

    async fn start_one(&self, name: &str, place: usize, args: &MemberArgs) -> anyhow::Result<Sim> {
        let files = Files::prepare(&self.data_dir, name)?;
        let dir = self.data_dir.join("members");
        let store = Embedded::open(dir.join(format!("{name}.store")))?;
        let (region, zone) = location(place);
        let nodes = Nodes { count: args.member_nodes, region, zone, ..Nodes::default() };
        let load_balancers = args.load_balancers_of(place)?;
        let config = Config {
            nodes,
            pki_dir: Some(files.pki),
            control: Some(files.control),
            store: Some(Arc::new(store)),
            timeline: args.member_scripted.clone(),
            load_balancers,
            ..Config::named(name)
        };
        let at = |port| Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        let port_file = dir.join(format!("{name}.port"));
        let known =
            std::fs::read_to_string(&port_file).ok().and_then(|text| text.trim().parse().ok());
        let before = Config { listen: at(known.unwrap_or(0)), ..config.clone() };
        let sim = match Sim::start(before).await {
            // Somebody else took the port while this process was away.
            Err(karmada_member_sim::Error::Listen { .. }) if known.is_some() => {
                Sim::start(Config { listen: at(0), ..config }).await?
            }
            started => started?,
        };
        let port = sim.endpoint().rsplit(':').next().unwrap_or_default().to_owned();
        std::fs::write(&port_file, port)
            .with_context(|| format!("write {}", port_file.display()))?;
        write_private(&files.kubeconfig, &sim.kubeconfig())?;
        Ok(sim)
    }

    pub(crate) fn kubeconfig(&self, name: &str) -> PathBuf {
        Files::of(&self.data_dir, name).kubeconfig
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.sims.keys().map(String::as_str)
    }

    /// The way to members: these are called in process, all others over HTTPS.
    pub(crate) fn dial(&self) -> Arc<dyn Dial> {
        let sims = self.sims.clone();
        Arc::new(members::Shortcut::new(move |endpoint, token| {
            // The network with its faults is in the way all the same.
            let sim = sims.values().find(|sim| sim.endpoint() == endpoint)?;
            Some(sim.remote_client_with_token(token))
        }))
    }

    /// The way into the members of this process for requests that others pass on.
    pub(crate) fn shortcut(&self) -> Shortcut {
        let sims = self.sims.clone();
        Arc::new(move |endpoint| {
            sims.values().find(|sim| sim.endpoint() == endpoint).map(|sim| sim.network())
        })
    }

    /// Joins the members that are not joined yet, and tells the control plane where the others
    /// are now.
    pub(crate) async fn join(&self, plane: &Client) -> anyhow::Result<()> {
        let joins = self.sims.values().enumerate().map(|(place, sim)| join(plane, sim, place));
        for joined in futures::future::join_all(joins).await {
            joined?;
        }
        Ok(())
    }

    pub(crate) async fn stop(self) {
        for sim in self.sims.into_values() {
            // Connections of the control plane, which has stopped, may still hold it.
            if let Some(sim) = Arc::into_inner(sim) {
                sim.stop().await;
            }
        }
    }
}

fn location(place: usize) -> (String, String) {
    let region = REGIONS.iter().cycle().nth(place).copied().unwrap_or_default();
    let zone = ZONES.iter().cycle().nth(place / REGIONS.len()).copied().unwrap_or_default();
    (region.to_owned(), format!("{region}{zone}"))
}

async fn join(plane: &Client, sim: &Sim, place: usize) -> anyhow::Result<()> {
    let name = sim.name();
    let clusters = plane.api(&Gvr::new("cluster.karmada.io", "v1alpha1", "clusters"));
    if let Some(cluster) = clusters.find(name).await? {
        if cluster.str_at(&["spec", "apiEndpoint"]) != Some(sim.endpoint()) {
            let moved = json!({"spec": {"apiEndpoint": sim.endpoint()}});
            clusters.merge_patch(name, moved).await.with_context(|| format!("move {name}"))?;
        }
        return Ok(());
    }
    let (region, zone) = location(place);
    let join =
        Join { provider: PROVIDER.to_owned(), region, zones: vec![zone], ..Join::named(name) };
    let access = Access { endpoint: sim.endpoint().to_owned(), ..Access::default() };
    let joined = registration::join(plane, &sim.client(), &access, &join, &|_| {}).await;
    joined.with_context(|| format!("join {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_spread_over_regions_and_then_zones() {
        let places: Vec<String> = (0..5).map(|place| location(place).1).collect();
        assert_eq!(places, ["us-east-1a", "eu-west-1a", "ap-south-1a", "us-east-1b", "eu-west-1b"]);
    }
}
