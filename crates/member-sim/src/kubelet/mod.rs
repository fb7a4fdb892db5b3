//! What the kubelets of simulated nodes answer: logs, commands, ports, usage. Nothing runs, so logs tell of
//! the life of the container and commands meet a very small shell.

mod exec;
mod forward;
mod log;
mod metrics;
mod shell;
mod spdy;
mod terminal;
mod websocket;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use karmada_apimachinery::status::Status;
use karmada_apiserver::Handle;
use karmada_apiserver::connect::{Connected, Connection};
use karmada_runtime::{Clock, Informer, Manager};

use crate::faults::Faults;
use crate::nodes;

/// What all answers are made from.
#[derive(Clone)]
pub(super) struct Kubelets {
    clock: Clock,
    pods: Arc<Informer>,
    nodes: Arc<Informer>,
    faults: Faults,
    /// Which address stands for a port of pods.
    forwards: Arc<BTreeMap<u16, String>>,
}

/// Serves the subresources of pods that lead to their nodes, and `metrics.k8s.io`.
pub(crate) fn serve(
    handle: &Handle,
    manager: &Manager,
    faults: &Faults,
    forwards: &BTreeMap<u16, String>,
) {
    let kubelets = Kubelets {
        clock: manager.clock.clone(),
        pods: manager.informers.all(&crate::pods::gvr()),
        nodes: manager.informers.all(&nodes::gvr()),
        faults: faults.clone(),
        forwards: Arc::new(forwards.clone()),
    };
    type Answer = fn(Kubelets, Connection) -> Connected;
    let answers: [(&str, Answer); 4] = [
        ("log", |kubelets, connection| log::answer(kubelets, connection).boxed()),
        ("exec", |kubelets, connection| exec::run(kubelets, connection).boxed()),
        ("attach", |kubelets, connection| exec::attach(kubelets, connection).boxed()),
        ("portforward", |kubelets, connection| forward::open(kubelets, connection).boxed()),
    ];
    for (subresource, answer) in answers {
        let own = kubelets.clone();
        let connect = move |connection: Connection| -> Connected {
            match own.unreachable(&connection) {
                Some(status) => futures::future::ready(Err(status)).boxed(),
                None => answer(own.clone(), connection),
            }
        };
        handle.connect(("", "pods", subresource), Arc::new(connect));
    }
    metrics::serve(handle, &kubelets);
}

impl Kubelets {
    /// The kubelet of a node that is down answers nobody.
    fn unreachable(&self, connection: &Connection) -> Option<Status> {
        use karmada_apimachinery::object::ObjectExt as _;
        let pod = connection.object.as_ref()?;
        let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
        let address = pod.str_at(&["status", "hostIP"]).unwrap_or_default();
        self.faults.current().nodes_down.contains(node).then(|| {
            Status::internal(format!(
                "Get \"https://{address}:10250/{}\": dial tcp {address}:10250: connect: no route to host",
                connection.subresource
            ))
        })
    }
}
