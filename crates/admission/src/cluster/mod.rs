//! `Cluster` as the API server handles it: prepared, validated, brought into canonical form, shown in tables.
//! Writes of the status subresource go through none of this, as in the original.

mod rules;
mod table;

use jiff::Timestamp;
use karmada_api::cluster::{Cluster, ClusterStatus, ResourceModel, ResourceModelRange};
use karmada_api::core::{Quantity, TaintEffect};
use karmada_api::features::{Gate, Gates};
use karmada_api::meta::Kind as _;
use karmada_api::wire::{Time, Uint};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectMutExt;
use karmada_apimachinery::quantity::Format;

pub use rules::{validate_create, validate_update};
pub use table::{cells, column_definitions};

const GIB: i64 = 1 << 30;
/// Bounds of the default classes: CPUs, and memory in GiB; the last class has no upper bound.
const DEFAULT_MODELS: [(i64, i64); 9] =
    [(0, 0), (1, 4), (2, 16), (4, 32), (8, 64), (16, 128), (32, 256), (64, 512), (128, 1024)];
/// Reads a Cluster; what does not fit the type is named.
pub fn decode(object: &Value) -> Result<Cluster, String> {
    crate::decode::decode(object).map_err(|denial| denial.message)
}

/// Clears what the client may not set and fills in what it left out.
pub fn prepare_create(cluster: &mut Cluster, gates: &Gates) {
    cluster.status = ClusterStatus::default();
    cluster.metadata.generation = 1;
    if !gates.is_on(Gate::CustomizedClusterResourceModeling) {
        return;
    }
    if cluster.spec.resource_models.is_empty() {
        cluster.spec.resource_models = default_models();
    } else {
        close_models(&mut cluster.spec.resource_models);
    }
}

/// Keeps the stored status and counts changes of the spec.
pub fn prepare_update(cluster: &mut Cluster, old: &Cluster, gates: &Gates) {
    cluster.status = old.status.clone();
    if cluster.spec != old.spec {
        cluster.metadata.generation = old.metadata.generation + 1;
    }
    if gates.is_on(Gate::CustomizedClusterResourceModeling) {
        close_models(&mut cluster.spec.resource_models);
    }
}

/// Brings a valid object into the form in which it is stored.
pub fn canonicalize(cluster: &mut Cluster, now: Timestamp) {
    for taint in &mut cluster.spec.taints {
        if taint.effect == TaintEffect::NoExecute {
            taint.time_added.get_or_insert(Time::from(now));
        }
    }
    let spec = &mut cluster.spec;
    if !spec.zone.is_empty() && spec.zones.is_empty() {
        spec.zones.push(std::mem::take(&mut spec.zone));
    }
}

/// The classes of node sizes of a cluster that says nothing about them.
pub fn default_models() -> Vec<ResourceModel> {
    let bound = |index: usize, memory: bool| match DEFAULT_MODELS.get(index) {
        Some((_, gib)) if memory => gib * GIB,
        Some((cpus, _)) => *cpus,
        None => i64::MAX,
    };
    let range = |name: &str, format, index, memory| ResourceModelRange {
        name: name.to_owned(),
        min: Quantity::new(bound(index, memory), format),
        max: Quantity::new(bound(index + 1, memory), format),
    };
    (0..DEFAULT_MODELS.len())
        .map(|index| ResourceModel {
            grade: Uint(index as u64),
            ranges: vec![
                range("cpu", Format::DecimalSi, index, false),
                range("memory", Format::BinarySi, index, true),
            ],
        })
        .collect()
}

/// Sorts the classes; the first starts at nothing, the last has no end.
fn close_models(models: &mut [ResourceModel]) {
    models.sort_by_key(|model| model.grade);
    if let Some(first) = models.first_mut() {
        for range in &mut first.ranges {
            range.min = Quantity::new(0, range.min.format());
        }
    }
    if let Some(last) = models.last_mut() {
        for range in &mut last.ranges {
            range.max = Quantity::new(i64::MAX, range.max.format());
        }
    }
}

/// The object as it is stored.
pub fn encode(cluster: &Cluster) -> Value {
    let mut object = cluster.to_value().unwrap_or_default();
    object.set(&["apiVersion"], "cluster.karmada.io/v1alpha1");
    object.set(&["kind"], "Cluster");
    object
}
