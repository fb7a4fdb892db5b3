//! An API server with its controllers, and what tests ask of it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::csr;
use karmada_apiserver::auth::token::{self, SigningKey, TokenIssuer, TokenSigner};
use karmada_apiserver::pki::certificate::Authority;
use karmada_apiserver::{Config, Handle, Role, Server, Trust};
use karmada_client::{Api, Client, DeleteOptions, Propagation};
use karmada_kube_controllers::{Account, Keys, Plane, Signing, registry};
use karmada_runtime::{Clock, Manager, Metrics, Shutdown};
use karmada_store::Memory;

/// Keys of a test: those of the server.
struct TestKeys {
    authority: Authority,
    tokens: Arc<TokenIssuer>,
    clock: Clock,
    handle: Handle,
}

impl Keys for TestKeys {
    fn root_ca(&self) -> String {
        self.authority.certificate_pem()
    }

    fn legacy_token(&self, account: Account<'_>, secret: &str) -> Option<String> {
        let Account { namespace, name, uid } = account;
        self.tokens.legacy_token(&token::Account { namespace, name, uid }, secret)
    }

    fn sign(&self, csr: &Value) -> Result<Signing, Box<dyn std::error::Error + Send + Sync>> {
        let year = SignedDuration::from_hours(8760);
        Ok(match csr::sign(csr, &self.authority, year, self.clock.now())? {
            csr::Signing::NotDue => Signing::NotDue,
            csr::Signing::Issued(pem) => Signing::Issued(pem),
            csr::Signing::Refused { reason, message } => {
                Signing::Refused { reason: reason.to_owned(), message }
            }
        })
    }

    fn auto_approval(&self, csr: &Value) -> Option<String> {
        csr::auto_approval(csr, &*self.handle.authorizer()).map(str::to_owned)
    }
}

/// Key and certificate of the authority; making them is slow, so all tests share them.
fn authority_pem() -> &'static (String, String) {
    static PEM: OnceLock<(String, String)> = OnceLock::new();
    PEM.get_or_init(|| {
        let key = Authority::generate_key().unwrap();
        let (begin, end) = ("2025-01-01T00:00:00Z".parse(), "2036-01-01T00:00:00Z".parse());
        let authority = Authority::self_signed("test", &key, begin.unwrap(), end.unwrap()).unwrap();
        (key, authority.certificate_pem())
    })
}

pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    server: Server,
    shutdown: Shutdown,
}

impl Cluster {
    pub(crate) async fn plane() -> Self {
        Self::start(Role::Plane, Memory::new()).await
    }

    pub(crate) async fn member() -> Self {
        Self::start(Role::Member, Memory::new()).await
    }

    /// A cluster on a store that may have been used before; clones of a store are the same one.
    pub(crate) async fn start(role: Role, store: Memory) -> Self {
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let (key, certificate) = authority_pem();
        let authority = Authority::from_pem(certificate, key).unwrap();
        let signing = SigningKey::from_pem(key.as_bytes()).unwrap();
        let tokens = Arc::new(TokenIssuer::new(token::DEFAULT_ISSUER, signing, Vec::new()));
        let trust = Trust {
            client_certs: None,
            front_proxy: None,
            tokens: tokens.clone(),
            allow_anonymous: false,
            client_ca_pem: authority.certificate_pem(),
            front_proxy_ca_pem: authority.certificate_pem(),
        };
        let own = clock.clone();
        let time: karmada_apiserver::auth::Clock = Arc::new(move || -> Timestamp { own.now() });
        let config = Config { role, ..Config::default() };
        let builder = Server::builder(config, Arc::new(store), trust).clock(time);
        let server = builder.start().await.unwrap();
        let admin = Identity::new("admin", ["system:masters", "system:authenticated"]);
        let client = Client::beside(server.handle().acting_as(admin));
        let shutdown = Shutdown::new();
        let keys = TestKeys { authority, tokens, clock: clock.clone(), handle: server.handle() };
        let manager =
            Manager::new(client.clone(), clock.clone(), Metrics::default(), shutdown.clone());
        let plane = Plane::new(manager, Arc::new(keys));
        let role = match role {
            Role::Plane => registry::Role::Plane,
            Role::Member => registry::Role::Member,
        };
        registry::start(&plane, role, &[]);
        Self { client, clock, server, shutdown }
    }

    /// The same administrator, whose requests and answers become text.
    pub(crate) fn over_text(&self) -> Client {
        let admin = Identity::new("admin", ["system:masters", "system:authenticated"]);
        Client::in_process(self.server.handle().acting_as(admin))
    }

    /// Requests about a resource: `configmaps`, `jobs.batch`, `certificatesigningrequests.certificates.k8s.io`.
    pub(crate) fn api(&self, resource: &str) -> Api {
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        self.client.api(&Gvr::new(group, "v1", resource))
    }

    pub(crate) async fn create(&self, resource: &str, namespace: &str, object: Value) -> Value {
        let created = self.api(resource).namespaced(namespace).create(&object).await;
        created.unwrap_or_else(|error| panic!("create {object}: {error}"))
    }

    pub(crate) async fn namespace(&self, name: &str) {
        self.create("namespaces", "", json!({"metadata": {"name": name}})).await;
    }

    /// A ConfigMap with the owners given.
    pub(crate) async fn config_map(&self, namespace: &str, name: &str, owners: &[Value]) -> Value {
        let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
        self.create("configmaps", namespace, object).await
    }

    pub(crate) async fn delete(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        how: Propagation,
    ) {
        let options = DeleteOptions { propagation: Some(how), ..DeleteOptions::default() };
        self.api(resource).namespaced(namespace).delete(name, &options).await.unwrap();
    }

    pub(crate) async fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.api(resource).namespaced(namespace).find(name).await.unwrap()
    }

    pub(crate) async fn eventually_gone(&self, resource: &str, namespace: &str, name: &str) {
        let what = format!("{resource} {namespace}/{name} is gone");
        eventually(&what, async || self.find(resource, namespace, name).await.is_none()).await;
    }

    /// Waits until the object is there and as the function wants it.
    pub(crate) async fn eventually(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let what = format!("{resource} {namespace}/{name} is as expected");
        let check = async || {
            self.find(resource, namespace, name).await.is_some_and(|object| is_so(&object))
        };
        eventually(&what, check).await;
        self.find(resource, namespace, name).await.unwrap()
    }

    /// Lets the controllers do whatever they have in mind.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }

    pub(crate) async fn stop(self) {
        self.shutdown.finish(Duration::from_secs(5)).await;
        self.server.stop();
    }
}

pub(crate) async fn eventually(what: &str, check: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("two minutes later it is still not so that {what}");
}

/// A reference to an owner, as a dependent carries it.
pub(crate) fn owned_by(owner: &Value, block: bool) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block,
    })
}
