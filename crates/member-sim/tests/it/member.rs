//! A member under test, and what tests ask of it.

use std::time::Duration;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_client::Api;
use karmada_member_sim::{Config, Nodes, Sim};
use karmada_runtime::Clock;

pub(crate) fn config(nodes: usize) -> Config {
    Config {
        nodes: Nodes { count: nodes, ..Nodes::default() },
        clock: Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap()),
        ..Config::named("m1")
    }
}

pub(crate) async fn start(nodes: usize) -> Sim {
    Sim::start(config(nodes)).await.unwrap()
}

/// Requests about a resource: `pods`, `deployments.apps`.
pub(crate) fn api(sim: &Sim, resource: &str) -> Api {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let api = sim.client().api(&Gvr::new(group, "v1", resource));
    if matches!(resource, "nodes" | "namespaces") { api } else { api.namespaced("default") }
}

pub(crate) async fn eventually<T>(what: &str, check: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(found) = check().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("ten minutes later it is still not so that {what}");
}

/// Waits until the object is there and as the function wants it.
pub(crate) async fn eventually_is(
    sim: &Sim,
    resource: &str,
    name: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Value {
    let what = format!("{resource} {name} is as expected");
    eventually(&what, async || {
        api(sim, resource).find(name).await.unwrap().filter(|object| is_so(object))
    })
    .await
}
