//! Fills the Secrets of type service-account-token with a token, the certificate to verify the
//! server with and the namespace, and deletes them with their account.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_client::{Client, DeleteOptions, Object};
use karmada_runtime::{Action, Change, Controller, Informer, InformerSpec, ObjectKey};

use crate::{Account, Keys, Plane};

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The index of token Secrets by their account.
const BY_ACCOUNT: &str = "account";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("read the service account {account}")]
    ReadAccount { account: ObjectKey, source: karmada_client::Error },
    #[error("write the token {secret}")]
    WriteToken { secret: ObjectKey, source: karmada_client::Error },
    #[error("delete the token {secret}, whose account is gone")]
    DeleteToken { secret: ObjectKey, source: karmada_client::Error },
    #[error("take the deleted token {secret} off its account")]
    DropReference { secret: ObjectKey, source: karmada_client::Error },
    #[error("mint the token {secret}")]
    Mint { secret: ObjectKey },
}

struct Ctx {
    client: Client,
    keys: Arc<dyn Keys>,
    secrets: Gvr,
    accounts: Gvr,
    tokens: Arc<Informer>,
    known_accounts: Arc<Informer>,
}

pub(super) fn start(plane: &Plane) {
    let (secrets, accounts) =
        (Gvr::new("", "v1", "secrets"), Gvr::new("", "v1", "serviceaccounts"));
    let own = InformerSpec::all(secrets.clone()).with_fields(format!("type={TYPE}"));
    let tokens = plane.informers.get(own);
    let known_accounts = plane.informers.all(&accounts);
    tokens.cache().add_index(BY_ACCOUNT, |secret| {
        account_key(secret).map(|account| account.to_string()).into_iter().collect()
    });
    let controller = Controller::new("serviceaccount-token-controller", &plane.metrics).workers(5);
    plane.keep(tokens.feed(controller.queue()));
    let (queue, of_account) = (controller.queue().clone(), Arc::downgrade(&tokens));
    plane.keep(known_accounts.subscribe(move |change| {
        // A deleted account takes its tokens along; a new one may be waited for.
        let concerns = matches!(change, Change::Deleted(_) | Change::Applied { old: None, .. });
        let Some(tokens) = of_account.upgrade().filter(|_| concerns) else { return };
        let account = ObjectKey::of(change.object()).to_string();
        for token in tokens.cache().by_index(BY_ACCOUNT, &account) {
            queue.add(ObjectKey::of(&token));
        }
    }));
    let ctx = Arc::new(Ctx {
        client: plane.client.clone(),
        keys: plane.keys.clone(),
        secrets,
        accounts,
        tokens: tokens.clone(),
        known_accounts: known_accounts.clone(),
    });
    let dropped = ctx.clone();
    let removals = Controller::new("serviceaccount-token-references", &plane.metrics);
    plane.keep(tokens.subscribe({
        let queue = removals.queue().clone();
        move |change| {
            if let Change::Deleted(secret) = change
                && let Some(account) = account_key(secret)
            {
                queue.add(Removal { account, secret: secret.name().to_owned() });
            }
        }
    }));
    let inputs = vec![tokens, known_accounts];
    plane.start(controller, inputs.clone(), move |key| reconcile(key, ctx.clone()));
    plane.start(removals, inputs, move |removal| drop_reference(removal, dropped.clone()));
}

fn account_key(secret: &Object) -> Option<ObjectKey> {
    let name = secret.meta().annotations.get(ACCOUNT_NAME)?;
    Some(ObjectKey::new(secret.namespace(), name))
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(secret) = ctx.tokens.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let Some(account) = account_key(&secret) else { return Ok(Action::AwaitChange) };
    let uid = secret.meta().annotations.get(ACCOUNT_UID);
    let Some(account) = find_account(&ctx, account, uid).await? else {
        return delete_token(&ctx, &key, &secret).await;
    };
    let root_ca = ctx.keys.root_ca();
    let Some(mut wanted) = complete(secret.value(), &account, &root_ca) else {
        return Ok(Action::AwaitChange);
    };
    if wanted.str_at(&["data", "token"]).is_none_or(str::is_empty) {
        let account =
            Account { namespace: account.namespace(), name: account.name(), uid: account.uid() };
        let token = ctx.keys.legacy_token(account, &key.name);
        let token = token.ok_or_else(|| Error::Mint { secret: key.clone() })?;
        wanted.set(&["data", "token"], STANDARD.encode(token));
    }
    match ctx.client.api(&ctx.secrets).namespaced(&key.namespace).update(&wanted).await {
        Ok(_) => Ok(Action::AwaitChange),
        // The change that came between wakes us again.
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(Action::AwaitChange),
        Err(source) => Err(Error::WriteToken { secret: key, source }),
    }
}

/// Looks for the account in the cache, then at the server: a token is not deleted because a cache
/// is behind.
async fn find_account(
    ctx: &Ctx,
    account: ObjectKey,
    uid: Option<&str>,
) -> Result<Option<Value>, Error> {
    let matches = |found: &Value| uid.is_none_or(|uid| uid.is_empty() || uid == found.uid());
    let cached = ctx.known_accounts.cache().get(&account).map(|found| found.value());
    if let Some(found) = cached.filter(matches) {
        return Ok(Some(found));
    }
    let api = ctx.client.api(&ctx.accounts).namespaced(&account.namespace);
    match api.find(&account.name).await {
        Ok(found) => Ok(found.filter(matches)),
        Err(source) => Err(Error::ReadAccount { account, source }),
    }
}

async fn delete_token(ctx: &Ctx, key: &ObjectKey, secret: &Object) -> Result<Action, Error> {
    let options = DeleteOptions { uid: Some(secret.uid().to_owned()), ..DeleteOptions::default() };
    let api = ctx.client.api(&ctx.secrets).namespaced(&key.namespace);
    match api.delete(&key.name, &options).await {
        Ok(_) => Ok(Action::AwaitChange),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(Action::AwaitChange),
        Err(source) => Err(Error::DeleteToken { secret: key.clone(), source }),
    }
}

/// Returns the Secret with everything but the token filled in; nothing if it is complete.
fn complete(mut secret: Value, account: &Value, root_ca: &str) -> Option<Value> {
    let filled = |secret: &Value, key: &str| {
        secret.str_at(&["data", key]).is_some_and(|value| !value.is_empty())
    };
    let root_ca = STANDARD.encode(root_ca);
    let has_ca = root_ca.is_empty() || secret.str_at(&["data", "ca.crt"]) == Some(&*root_ca);
    if has_ca && filled(&secret, "namespace") && filled(&secret, "token") {
        return None;
    }
    if !has_ca {
        secret.set(&["data", "ca.crt"], root_ca);
    }
    if !filled(&secret, "namespace") {
        let namespace = STANDARD.encode(secret.namespace());
        secret.set(&["data", "namespace"], namespace);
    }
    secret.set(&["metadata", "annotations", ACCOUNT_NAME], account.name());
    secret.set(&["metadata", "annotations", ACCOUNT_UID], account.uid());
    Some(secret)
}

/// A deleted token that its account may still list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Removal {
    account: ObjectKey,
    secret: String,
}

impl std::fmt::Display for Removal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.secret, self.account)
    }
}

async fn drop_reference(removal: Removal, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Removal { account, secret } = removal;
    let key = ObjectKey::new(account.namespace.as_str(), secret.as_str());
    let Some(cached) = ctx.known_accounts.cache().get(&account) else {
        return Ok(Action::AwaitChange);
    };
    let mut object = cached.value();
    let listed = object.list_at(&["secrets"]);
    let kept: Vec<Value> =
        listed.iter().filter(|entry| entry.str_at(&["name"]) != Some(&secret)).cloned().collect();
    if kept.len() == listed.len() || ctx.tokens.cache().get(&key).is_some() {
        return Ok(Action::AwaitChange);
    }
    object.set(&["secrets"], kept);
    let api = ctx.client.api(&ctx.accounts).namespaced(&account.namespace);
    match api.update(&object).await {
        Err(error) if !error.is_not_found() => {
            Err(Error::DropReference { secret: key, source: error })
        }
        _ => Ok(Action::AwaitChange),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn fills_in_what_is_missing_and_nothing_else() {
        let account = json!({"metadata": {"name": "robot", "uid": "u1"}});
        let secret = json!({"metadata": {"namespace": "a", "name": "s"}, "data": {"mine": "eA=="}});
        let mut filled = complete(secret, &account, "PEM").unwrap();
        assert_eq!(filled["data"], json!({"ca.crt": "UEVN", "mine": "eA==", "namespace": "YQ=="}));
        assert_eq!(
            filled["metadata"]["annotations"],
            json!({ACCOUNT_NAME: "robot", ACCOUNT_UID: "u1"})
        );
        filled.set(&["data", "token"], "dA==");
        assert_eq!(complete(filled.clone(), &account, "PEM"), None);
        let renewed = complete(filled, &account, "NEW").unwrap();
        assert_eq!(renewed["data"]["ca.crt"], "TkVX", "a new root certificate is passed on");
        assert_eq!(renewed["data"]["token"], "dA==", "the token stays");
    }
}
