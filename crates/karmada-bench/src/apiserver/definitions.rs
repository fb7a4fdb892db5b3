//! Very many custom resource definitions: how long until all of them are served, and what that costs.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use karmada_apimachinery::json;

use super::figures::Figures;
use super::servers::Running;
use super::wire::Ask;

const GROUP: &str = "bench.example.org";
const WRITERS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(1800);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

fn definition(number: usize) -> String {
    let fields: karmada_apimachinery::Map = (0..20)
        .map(|field| {
            (format!("field{field}"), json!({"type": "string", "description": "A field."}))
        })
        .collect();
    let spec = json!({"type": "object", "properties": fields, "required": ["field0"]});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things{number}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": format!("things{number}"), "kind": format!("Thing{number}")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": spec, "status": status},
                }},
            }],
        },
    })
    .to_string()
}

pub(super) async fn measure(
    server: &Running,
    count: usize,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let mut wire = server.address.connect().await?;
    let (cpu, began) = (server.cpu(), Instant::now());
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = (0..count).map(|number| {
        let mut wire = wire.clone();
        async move { wire.ask(Ask::post(path, definition(number))).await.map(drop) }
    });
    let made: Vec<_> = futures::stream::iter(made).buffer_unordered(WRITERS).collect().await;
    made.into_iter().collect::<anyhow::Result<()>>()?;
    for number in 0..count {
        let path = format!("/apis/{GROUP}/v1/things{number}");
        while wire.ask(Ask::get(path.clone())).await.is_err() {
            anyhow::ensure!(began.elapsed() < PATIENCE, "things{number} are not served");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
    let elapsed = began.elapsed().as_secs_f64();
    figures.less(format!("{count} CRDs until all are served, s"), elapsed, "");
    figures.less("- CPU of the server, s", server.cpu() - cpu, "");
    Ok(())
}
