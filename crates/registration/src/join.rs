//! Joins a cluster: accounts and tokens in the member, credentials and the Cluster in the control
//! plane. What is there already is used, so that a join that broke off can be repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use karmada_api::{cluster, names};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, DeleteOptions, ListOptions};

use crate::{Error, attempting, check_name, clusters, core, objects, rbac};

/// How long the member may take to issue a token, and how often it is asked.
const TOKEN_PATIENCE: Duration = Duration::from_secs(30);
const TOKEN_POLL: Duration = Duration::from_millis(100);
/// How long the namespace of an earlier registration may take to go, and how often it is looked at.
const NAMESPACE_PATIENCE: Duration = Duration::from_secs(60);
const NAMESPACE_POLL: Duration = Duration::from_millis(50);
/// How often a Secret of an earlier registration is tried to be replaced, and the pause in between.
const SECRET_ATTEMPTS: usize = 40;
const SECRET_PAUSE: Duration = Duration::from_millis(50);

/// What is joined, and as what.
#[derive(Debug, Clone, Default)]
pub struct Join {
    pub name: String,
    /// Where credentials are kept, on both sides.
    pub namespace: String,
    pub provider: String,
    pub region: String,
    pub zones: Vec<String>,
    /// What the Cluster is annotated with.
    pub annotations: BTreeMap<String, String>,
    /// Checks everything and changes nothing.
    pub dry_run: bool,
}

impl Join {
    /// A join with the usual namespace.
    pub fn named(name: impl Into<String>) -> Self {
        let namespace = names::NAMESPACE_CLUSTER.to_owned();
        Self { name: name.into(), namespace, ..Self::default() }
    }
}

/// How the control plane reaches the member.
#[derive(Debug, Clone, Default)]
pub struct Access {
    pub endpoint: String,
    pub insecure: bool,
    pub proxy_url: String,
}

impl Access {
    /// The way that a connection of this configuration takes.
    pub fn of(config: &kube::Config) -> Self {
        Self {
            endpoint: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            insecure: config.accept_invalid_certs,
            proxy_url: config.proxy_url.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// Joins the member that `member` administers. `progress` is told what takes time.
pub async fn join(
    plane: &Client,
    member: &Client,
    access: &Access,
    join: &Join,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), Error> {
    check_name(&join.name)?;
    let id = cluster_id(member).await?;
    refuse_duplicate(plane, &id, &join.name).await?;
    if join.dry_run {
        return Ok(());
    }
    let (own, impersonator) = prepare_member(member, join, progress).await?;
    let secrets = store_credentials(plane, join, &own, &impersonator).await?;
    progress(&format!("the cluster object {}", join.name));
    let cluster = create_cluster(plane, access, join, &id, &secrets).await?;
    for secret in secrets {
        adopt(plane, join, &secret, &cluster).await?;
    }
    Ok(())
}

/// The uid of `kube-system` stands for the cluster, whatever it is called.
pub async fn cluster_id(member: &Client) -> Result<String, Error> {
    let namespace = member.api(&core("namespaces")).get("kube-system").await;
    let namespace = namespace.map_err(attempting("get the ID of the joining cluster"))?;
    Ok(namespace.uid().to_owned())
}

async fn refuse_duplicate(plane: &Client, id: &str, name: &str) -> Result<(), Error> {
    let listed = plane.api(&clusters()).list_all(&ListOptions::default()).await;
    let listed = listed.map_err(attempting("list clusters"))?;
    let is_same =
        |cluster: &Value| cluster.name() == name || cluster.str_at(&["spec", "id"]) == Some(id);
    if listed.items.iter().any(|cluster| is_same(&cluster.value())) {
        return Err(Error::Registered { id: id.to_owned(), name: name.to_owned() });
    }
    Ok(())
}

/// What a token Secret holds, still encoded.
struct Token {
    token: String,
    authority: String,
}

/// Makes the accounts in the member; returns the tokens of the control plane and the impersonator.
async fn prepare_member(
    member: &Client,
    join: &Join,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(Token, Token), Error> {
    let namespace = join.namespace.as_str();
    let account = names::service_account(&join.name);
    ensure_namespace(member, namespace, progress).await?;
    for name in [names::IMPERSONATOR, account.as_str()] {
        let accounts = member.api(&core("serviceaccounts")).namespaced(namespace);
        ensure(&accounts, objects::service_account(namespace, name)).await?;
        let secrets = member.api(&core("secrets")).namespaced(namespace);
        ensure(&secrets, objects::token_secret(namespace, name)).await?;
    }
    ensure(&member.api(&rbac("clusterroles")), objects::cluster_role(&account)).await?;
    let binding = objects::cluster_role_binding(namespace, &account);
    ensure(&member.api(&rbac("clusterrolebindings")), binding).await?;
    progress(&format!("the token of {namespace}/{account}"));
    let own = await_token(member, namespace, &account).await?;
    let impersonator = await_token(member, namespace, names::IMPERSONATOR).await?;
    Ok((own, impersonator))
}

/// Makes an object unless it is there.
async fn ensure(api: &Api, object: Value) -> Result<(), Error> {
    match api.create(&object).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_already_exists() => Ok(()),
        Err(source) => {
            Err(attempting(format!("create the {} {}", object.kind(), object.name()))(source))
        }
    }
}

/// Makes the namespace. One that an earlier `unjoin` has deleted takes a moment to go; nothing can be
/// made in it until then.
async fn ensure_namespace(
    member: &Client,
    name: &str,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), Error> {
    let namespaces = member.api(&core("namespaces"));
    let made = async {
        let mut told = false;
        loop {
            ensure(&namespaces, objects::namespace(name)).await?;
            let found = namespaces.find(name).await;
            let found = found.map_err(attempting(format!("get the namespace {name}")))?;
            if found.is_some_and(|namespace| !namespace.is_being_deleted()) {
                return Ok(());
            }
            if !told {
                progress(&format!("the earlier namespace {name} of the member to be gone"));
                told = true;
            }
            tokio::time::sleep(NAMESPACE_POLL).await;
        }
    };
    match tokio::time::timeout(NAMESPACE_PATIENCE, made).await {
        Ok(made) => made,
        Err(_) => Err(Error::NamespaceTerminating(name.to_owned())),
    }
}

async fn await_token(member: &Client, namespace: &str, account: &str) -> Result<Token, Error> {
    let secrets = member.api(&core("secrets")).namespaced(namespace);
    let issued = async {
        loop {
            let secret = secrets.get(account).await;
            let secret = secret.map_err(attempting(format!("read the token of {account}")))?;
            let entry = |key: &str| secret.str_at(&["data", key]).map(str::to_owned);
            if let Some(token) = entry("token").filter(|token| !token.is_empty()) {
                let authority = entry("ca.crt").unwrap_or_default();
                return Ok(Token { token, authority });
            }
            tokio::time::sleep(TOKEN_POLL).await;
        }
    };
    match tokio::time::timeout(TOKEN_PATIENCE, issued).await {
        Ok(token) => token,
        Err(_) => Err(Error::NoToken(format!("{namespace}/{account}"))),
    }
}

/// Puts the tokens into the control plane; returns the names of both Secrets.
async fn store_credentials(
    plane: &Client,
    join: &Join,
    own: &Token,
    impersonator: &Token,
) -> Result<[String; 2], Error> {
    let namespace = join.namespace.as_str();
    ensure(&plane.api(&core("namespaces")), objects::namespace(namespace)).await?;
    let secrets = plane.api(&core("secrets")).namespaced(namespace);
    let impersonation = names::impersonation_secret(&join.name);
    let data = json!({cluster::SECRET_TOKEN_KEY: impersonator.token});
    keep_secret(&secrets, objects::credentials(namespace, &impersonation, data), &join.name)
        .await?;
    let data = json!({
        cluster::SECRET_CA_BUNDLE_KEY: own.authority,
        cluster::SECRET_TOKEN_KEY: own.token,
    });
    keep_secret(&secrets, objects::credentials(namespace, &join.name, data), &join.name).await?;
    Ok([join.name.clone(), impersonation])
}

/// Makes a Secret hold this data. Nothing is built on one that goes with an earlier Cluster of the name.
async fn keep_secret(secrets: &Api, wanted: Value, cluster: &str) -> Result<(), Error> {
    let (namespace, name) = (wanted.namespace(), wanted.name());
    let write = || format!("write the secret {namespace}/{name}");
    for _ in 0..SECRET_ATTEMPTS {
        let found = secrets.find(name).await;
        let found = found.map_err(attempting(format!("get the secret {namespace}/{name}")))?;
        let (written, is_left_over) = match found {
            None => (secrets.create(&wanted).await, false),
            Some(found) if goes_with(&found, cluster) => {
                let uid = Some(found.uid().to_owned());
                let options = DeleteOptions { uid, ..DeleteOptions::default() };
                (secrets.delete(name, &options).await, true)
            }
            Some(found) if holds(&found, &wanted) => return Ok(()),
            Some(found) => {
                let version = found.resource_version();
                let data = wanted["data"].clone();
                let patch = json!({"metadata": {"resourceVersion": version}, "data": data});
                (secrets.merge_patch(name, patch).await, false)
            }
        };
        match written {
            Ok(_) if is_left_over => {}
            Ok(_) => return Ok(()),
            // Somebody else was there meanwhile.
            Err(error)
                if error.is_already_exists() || error.is_not_found() || error.is_conflict() => {}
            Err(source) => return Err(attempting(write())(source)),
        }
        tokio::time::sleep(SECRET_PAUSE).await;
    }
    Err(Error::SecretInTheWay(format!("{namespace}/{name}")))
}

/// Whether the garbage collector takes the Secret away when the Cluster of this name goes.
fn goes_with(secret: &Value, cluster: &str) -> bool {
    let mut owners = secret.list_at(&["metadata", "ownerReferences"]).iter();
    owners.any(|owner| owner["kind"] == "Cluster" && owner["name"] == cluster)
}

/// Whether one Secret holds everything that another one does.
fn holds(secret: &Value, other: &Value) -> bool {
    let mut wanted = other["data"].as_object().into_iter().flatten();
    wanted.all(|(key, value)| secret["data"].get(key) == Some(value))
}

async fn create_cluster(
    plane: &Client,
    access: &Access,
    join: &Join,
    id: &str,
    [secret, impersonation]: &[String; 2],
) -> Result<Value, Error> {
    let mut spec = json!({
        "syncMode": "Push",
        "id": id,
        "apiEndpoint": access.endpoint,
        "secretRef": {"namespace": join.namespace, "name": secret},
        "impersonatorSecretRef": {"namespace": join.namespace, "name": impersonation},
    });
    for (field, text) in
        [("provider", &join.provider), ("region", &join.region), ("proxyURL", &access.proxy_url)]
    {
        if !text.is_empty() {
            spec[field] = text.as_str().into();
        }
    }
    if !join.zones.is_empty() {
        spec["zones"] = json!(join.zones);
    }
    if access.insecure {
        spec["insecureSkipTLSVerification"] = true.into();
    }
    let mut cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": join.name},
        "spec": spec,
    });
    if !join.annotations.is_empty() {
        cluster["metadata"]["annotations"] = json!(join.annotations);
    }
    match plane.api(&clusters()).create(&cluster).await {
        Err(error) if error.is_already_exists() => Err(Error::Exists(join.name.clone())),
        created => {
            created.map_err(attempting(format!("failed to create cluster({}) object", join.name)))
        }
    }
}

/// Lets a Secret go with the Cluster it belongs to.
async fn adopt(plane: &Client, join: &Join, secret: &str, cluster: &Value) -> Result<(), Error> {
    let owner = json!({"metadata": {"ownerReferences": [{
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "name": cluster.name(),
        "uid": cluster.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    }]}});
    let secrets = plane.api(&core("secrets")).namespaced(&join.namespace);
    let patched = secrets.merge_patch(secret, owner).await;
    patched.map(drop).map_err(attempting(format!("own the secret {}/{secret}", join.namespace)))
}
