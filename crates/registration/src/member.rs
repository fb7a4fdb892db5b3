//! The member's side of a registration: the accounts that the control plane uses there, and their tokens.

use std::time::Duration;

use karmada_api::names;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Api, Client};

use crate::{Error, Join, attempting, core, objects, rbac};

/// How long the member may take to issue a token, and how often it is asked.
const TOKEN_PATIENCE: Duration = Duration::from_secs(30);
const TOKEN_POLL: Duration = Duration::from_millis(100);
/// How long the namespace of an earlier registration may take to go, and how often it is looked at.
const NAMESPACE_PATIENCE: Duration = Duration::from_secs(60);
const NAMESPACE_POLL: Duration = Duration::from_millis(50);

/// Which credentials of a member the control plane is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// Those that may do everything.
    pub credentials: bool,
    /// Those that may act as others.
    pub impersonator: bool,
}

impl Reported {
    pub const ALL: Self = Self { credentials: true, impersonator: true };
    pub const NONE: Self = Self { credentials: false, impersonator: false };
}

/// What a token Secret holds, still encoded.
pub(crate) struct Token {
    pub(crate) token: String,
    pub(crate) authority: String,
}

/// The tokens that were asked for.
pub(crate) struct Issued {
    pub(crate) own: Option<Token>,
    pub(crate) impersonator: Option<Token>,
}

/// The uid of `kube-system` stands for the cluster, whatever it is called.
pub async fn cluster_id(member: &Client) -> Result<String, Error> {
    let namespace = member.api(&core("namespaces")).get("kube-system").await;
    let namespace = namespace.map_err(attempting("get the ID of the joining cluster"))?;
    Ok(namespace.uid().to_owned())
}

/// Makes the accounts in the member and returns their tokens.
pub(crate) async fn prepare(
    member: &Client,
    join: &Join,
    reported: Reported,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Issued, Error> {
    let namespace = join.namespace.as_str();
    let account = names::service_account(&join.name);
    ensure_namespace(member, namespace, progress).await?;
    let impersonator = reported.impersonator.then_some(names::IMPERSONATOR);
    let own = reported.credentials.then_some(account.as_str());
    for name in [impersonator, own].into_iter().flatten() {
        let accounts = member.api(&core("serviceaccounts")).namespaced(namespace);
        ensure(&accounts, objects::service_account(namespace, name)).await?;
        let secrets = member.api(&core("secrets")).namespaced(namespace);
        ensure(&secrets, objects::token_secret(namespace, name)).await?;
    }
    let mut issued = Issued { own: None, impersonator: None };
    if let Some(account) = own {
        ensure(&member.api(&rbac("clusterroles")), objects::cluster_role(account)).await?;
        let binding = objects::cluster_role_binding(namespace, account);
        ensure(&member.api(&rbac("clusterrolebindings")), binding).await?;
        progress(&format!("the token of {namespace}/{account}"));
        issued.own = Some(await_token(member, namespace, account).await?);
    }
    if let Some(account) = impersonator {
        issued.impersonator = Some(await_token(member, namespace, account).await?);
    }
    Ok(issued)
}

/// Makes an object unless it is there.
pub(crate) async fn ensure(api: &Api, object: Value) -> Result<(), Error> {
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
