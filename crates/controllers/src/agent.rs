//! The agent of a Pull cluster: those controllers of the table that are marked for it, confined to the one
//! cluster they run in. Registering that cluster comes before and is not done here.

use std::sync::Arc;

use karmada_api::Kind as _;
use karmada_api::cluster::Cluster;
use karmada_api::features::Gates;
use karmada_api::names::{self, component};
use karmada_api::work::Work;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_client::Client;
use karmada_runtime::{InformerSpec, Manager};

use crate::context::{Context, Options};
use crate::members::{Dial, DialError};
use crate::registry;

pub struct Agent {
    /// The name under which the cluster is registered.
    pub cluster: String,
    /// The cluster itself.
    pub member: Client,
    pub gates: Gates,
    pub options: Options,
    /// As `--controllers`.
    pub controllers: Vec<String>,
}

impl Agent {
    /// Starts the controllers. The manager is one of the control plane.
    pub fn start(self, mut manager: Manager) {
        let cluster = self.cluster.clone();
        manager.informers = manager.informers.narrowed(move |gvr| confine(gvr, &cluster));
        let options = Options { agent_of: Some(self.cluster), ..self.options };
        let context = Context::start(manager, Arc::new(Inside(self.member)), self.gates, options);
        registry::start(&context, &self.controllers);
    }
}

/// What an agent follows of a resource of the control plane: its own Cluster and its own Works.
fn confine(gvr: Gvr, cluster: &str) -> InformerSpec {
    let is_of = |group: &str, plural: &str| gvr.group == group && gvr.resource == plural;
    if is_of(Work::GROUP, Work::PLURAL) {
        return InformerSpec::all(gvr).namespaced(names::execution_space(cluster));
    }
    if is_of(Cluster::GROUP, Cluster::PLURAL) {
        return InformerSpec::all(gvr).with_fields(format!("metadata.name={cluster}"));
    }
    InformerSpec::all(gvr)
}

/// The cluster the agent runs in: there is no way to go.
struct Inside(Client);

impl Dial for Inside {
    fn dial(&self, _cluster: &Cluster, _secret: Option<&Value>) -> Result<Client, DialError> {
        Ok(self.0.clone())
    }

    fn needs_secrets(&self) -> bool {
        false
    }

    fn program(&self) -> &'static str {
        component::AGENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_sees_its_own_works_and_its_own_cluster() {
        let cases = [
            (Gvr::new("work.karmada.io", "v1alpha1", "works"), "karmada-es-edge", ""),
            (Gvr::new("cluster.karmada.io", "v1alpha1", "clusters"), "", "metadata.name=edge"),
            (
                Gvr::new("config.karmada.io", "v1alpha1", "resourceinterpretercustomizations"),
                "",
                "",
            ),
        ];
        for (gvr, namespace, fields) in cases {
            let spec = confine(gvr, "edge");
            assert_eq!(
                (spec.namespace.as_str(), spec.field_selector.as_str()),
                (namespace, fields)
            );
        }
    }
}
