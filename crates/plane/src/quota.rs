//! Writes what quotas count when a binding is admitted, so that the next one finds less room.

use karmada_admission::{self as admission, QuotaUse};
use karmada_api::Kind;
use karmada_api::features::{Gate, Gates};
use karmada_api::policy::FederatedResourceQuota;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::status::Status;
use karmada_apiserver::Handle;
use karmada_apiserver::admission::{Attributes, Operation};
use karmada_apiserver::auth::Identity;
use karmada_client::{Api, Client, Error};

/// How often a quota that others change is counted anew before the binding is refused.
const MAX_ATTEMPTS: usize = 20;

/// Whether admitting the write may change what quotas count.
pub(crate) fn counts(attributes: &Attributes, gates: &Gates) -> bool {
    gates.is_on(Gate::FederatedQuotaEnforcement)
        && attributes.gvk.group == "work.karmada.io"
        && attributes.resource == "resourcebindings"
        && attributes.subresource.is_empty()
        && matches!(attributes.operation, Operation::Create | Operation::Update)
}

/// Writes the use of every quota the binding concerns. A quota that changed meanwhile is read and counted
/// anew; if it has no room left the binding is refused. What other quotas count by then is set right by
/// their controller.
pub(crate) async fn charge(
    server: &Handle,
    request: &admission::Request<'_>,
    gates: &Gates,
    uses: Vec<QuotaUse>,
    known: Vec<FederatedResourceQuota>,
) -> Result<(), Status> {
    let identity = Identity::new("system:karmada", ["system:masters"]);
    let client = Client::beside(server.acting_as(identity)).with_user_agent("karmada-webhook");
    let quotas = client
        .api(&Gvr::new(
            FederatedResourceQuota::GROUP,
            FederatedResourceQuota::VERSION,
            FederatedResourceQuota::PLURAL,
        ))
        .namespaced(&request.namespace);
    for used in uses {
        let quota = known.iter().find(|quota| quota.metadata.name == used.name).cloned();
        charge_one(&quotas, request, gates, used, quota).await?;
    }
    Ok(())
}

async fn charge_one(
    quotas: &Api,
    request: &admission::Request<'_>,
    gates: &Gates,
    mut used: QuotaUse,
    mut quota: Option<FederatedResourceQuota>,
) -> Result<(), Status> {
    for _ in 0..MAX_ATTEMPTS {
        // A quota that is gone limits nothing.
        let Some(mut found) = quota else { return Ok(()) };
        found.status.overall_used.clone_from(&used.overall_used);
        match write(quotas, &found).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if !error.is_conflict() => return Err(Status::internal(error)),
            Err(_) => {}
        }
        quota = read(quotas, &used.name).await?;
        let settings = admission::Settings {
            gates: gates.clone(),
            quotas: quota.clone().into_iter().collect(),
            ..admission::Settings::default()
        };
        match admission::validate(request, &settings)?.quota_uses.into_iter().next() {
            Some(next) => used = next,
            None => return Ok(()),
        }
    }
    Err(Status::internal(format!(
        "quota {}/{} changes faster than it can be written",
        used.namespace, used.name
    )))
}

async fn write(quotas: &Api, quota: &FederatedResourceQuota) -> Result<(), Error> {
    let object = quota.to_value().unwrap_or(Value::Null);
    quotas.update_subresource(&object, "status").await.map(drop)
}

async fn read(quotas: &Api, name: &str) -> Result<Option<FederatedResourceQuota>, Status> {
    let found = quotas.find(name).await.map_err(Status::internal)?;
    found
        .map(|object| FederatedResourceQuota::from_value(&object).map_err(Status::internal))
        .transpose()
}
