//! The control plane's side of the credentials: Secrets that hold what the member issues now, and go with
//! their Cluster.

use std::time::Duration;

use karmada_api::{cluster, names};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, DeleteOptions};

use crate::member::{Issued, ensure};
use crate::{Error, Join, attempting, core, objects};

/// How often a Secret of an earlier registration is tried to be replaced, and the pause in between.
const ATTEMPTS: usize = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// The Secrets as they are in the control plane.
pub(crate) struct Kept {
    pub(crate) own: Option<Value>,
    pub(crate) impersonator: Option<Value>,
}

impl Kept {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Value> {
        [&self.own, &self.impersonator].into_iter().flatten()
    }
}

/// Puts the tokens into the control plane. `owner` is the uid of the Cluster, if there is one.
pub(crate) async fn store(
    plane: &Client,
    join: &Join,
    issued: &Issued,
    owner: Option<&str>,
) -> Result<Kept, Error> {
    let namespace = join.namespace.as_str();
    let namespaces = plane.api(&core("namespaces"));
    let found = namespaces.find(namespace).await;
    // An agent may look for a namespace; nobody who finds it has to be allowed to make one.
    if found.map_err(attempting(format!("get the namespace {namespace}")))?.is_none() {
        ensure(&namespaces, objects::namespace(namespace)).await?;
    }
    let secrets = plane.api(&core("secrets")).namespaced(namespace);
    let is_left_over = |secret: &Value| goes_with_another(secret, &join.name, owner);
    let mut kept = Kept { own: None, impersonator: None };
    if let Some(token) = &issued.impersonator {
        let data = json!({cluster::SECRET_TOKEN_KEY: token.token});
        let name = names::impersonation_secret(&join.name);
        let wanted = objects::credentials(namespace, &name, data);
        kept.impersonator = Some(keep(&secrets, wanted, is_left_over).await?);
    }
    if let Some(token) = &issued.own {
        let data = json!({
            cluster::SECRET_CA_BUNDLE_KEY: token.authority,
            cluster::SECRET_TOKEN_KEY: token.token,
        });
        let wanted = objects::credentials(namespace, &join.name, data);
        kept.own = Some(keep(&secrets, wanted, is_left_over).await?);
    }
    Ok(kept)
}

/// Makes a Secret hold this data, and returns it. Nothing is built on one that is left over.
async fn keep(
    secrets: &Api,
    wanted: Value,
    is_left_over: impl Fn(&Value) -> bool,
) -> Result<Value, Error> {
    let (namespace, name) = (wanted.namespace(), wanted.name());
    let write = || format!("write the secret {namespace}/{name}");
    for _ in 0..ATTEMPTS {
        let found = secrets.find(name).await;
        let found = found.map_err(attempting(format!("get the secret {namespace}/{name}")))?;
        let (written, is_wanted) = match found {
            None => (secrets.create(&wanted).await, true),
            Some(found) if is_left_over(&found) => {
                let uid = Some(found.uid().to_owned());
                let options = DeleteOptions { uid, ..DeleteOptions::default() };
                (secrets.delete(name, &options).await, false)
            }
            Some(found) if holds(&found, &wanted) => return Ok(found),
            Some(found) => {
                let version = found.resource_version();
                let data = wanted["data"].clone();
                let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
                (secrets.merge_patch(name, patch).await, true)
            }
        };
        match written {
            Ok(secret) if is_wanted => return Ok(secret),
            Ok(_) => {}
            // Somebody else was there meanwhile.
            Err(error)
                if error.is_already_exists() || error.is_not_found() || error.is_conflict() => {}
            Err(source) => return Err(attempting(write())(source)),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Error::SecretInTheWay(format!("{namespace}/{name}")))
}

/// Whether the Secret belongs to an earlier Cluster of the name: the garbage collector takes it away.
fn goes_with_another(secret: &Value, cluster: &str, owner: Option<&str>) -> bool {
    let mut owners = secret.list_at(&["metadata", "ownerReferences"]).iter();
    owners.any(|known| {
        known["kind"] == "Cluster" && known["name"] == cluster && known.str_at(&["uid"]) != owner
    })
}

/// Whether one Secret holds everything that another one does.
fn holds(secret: &Value, other: &Value) -> bool {
    let mut wanted = other["data"].as_object().into_iter().flatten();
    wanted.all(|(key, value)| secret["data"].get(key) == Some(value))
}

/// Lets a Secret go with the Cluster it belongs to.
pub(crate) async fn adopt(plane: &Client, secret: &Value, cluster: &Value) -> Result<(), Error> {
    let mut owners = secret.list_at(&["metadata", "ownerReferences"]).iter();
    if owners.any(|owner| owner.str_at(&["uid"]) == Some(cluster.uid())) {
        return Ok(());
    }
    let owner = json!({"metadata": {"ownerReferences": [{
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "name": cluster.name(),
        "uid": cluster.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    }]}});
    let (namespace, name) = (secret.namespace(), secret.name());
    let patched = plane.api(&core("secrets")).namespaced(namespace).merge_patch(name, owner).await;
    patched.map(drop).map_err(attempting(format!("own the secret {namespace}/{name}")))
}
