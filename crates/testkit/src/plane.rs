//! The control plane of a world: API server, the controllers every API needs, Karmada's own, and
//! the scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::token::TokenIssuer;
use karmada_apiserver::{Chance, Config, Role, Server};
use karmada_client::Client;
use karmada_controllers::context::Context;
use karmada_controllers::members::Dial;
use karmada_controllers::registry;
use karmada_kube_controllers::{Plane as Basics, registry as basics};
use karmada_member_sim::Keyring;
use karmada_runtime::{Clock, Manager, Metrics, Shutdown};
use karmada_store::Store;

use crate::base;
use crate::world::Options;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// A server with the controllers every API needs, and Karmada's definitions. `life` tells one start
/// from the next, so that none gives out the ids of another.
pub(crate) async fn start_server(
    options: &Options,
    life: u64,
    store: Arc<dyn Store>,
    clock: &Clock,
    shutdown: &Shutdown,
) -> Server {
    let pki = base::pki("karmada");
    let key = pki.service_account_key().expect("the key was just made");
    let tokens = Arc::new(TokenIssuer::new(ISSUER, key, Vec::new()));
    let trust = pki.trust(tokens.clone()).expect("certificates that were just made");
    let own = clock.clone();
    let time: karmada_apiserver::auth::Clock = Arc::new(move || own.now());
    let seed = options.seed.wrapping_mul(1000).wrapping_add(life);
    let chance = Chance::seeded(seed);
    // Events stay: their end would be a write nobody asked for.
    let event_ttl = Duration::ZERO;
    let config = Config { role: Role::Plane, chance, event_ttl, ..Config::default() };
    let builder = Server::builder(config, store, trust).clock(time);
    let ids = AtomicU64::new(seed << 32);
    let new_id = move || {
        let id = ids.fetch_add(1, Ordering::Relaxed);
        format!("{:08x}-0000-4000-8000-{:012x}", id >> 32, id & 0xffff_ffff)
    };
    let karmada = karmada_plane::Settings {
        gates: options.gates.clone(),
        allow_no_execute_taints: true,
        new_id: Arc::new(new_id),
    };
    let (builder, hooks) = karmada_plane::extend(builder, karmada);
    let server = builder.start().await.expect("a server in memory");
    hooks.attach(&server.handle());
    karmada_plane::install(&client(&server, "system:karmada")).await.expect("our own definitions");
    let authorizer = server.handle().authorizer();
    let keys = Keyring { pki, tokens, authorizer, clock: clock.clone() };
    let manager = manager(&server, "kube-controller-manager", clock, shutdown);
    basics::start(&Basics::new(manager, Arc::new(keys)), basics::Role::Plane, &[]);
    server
}

/// Somebody who may do everything.
pub(crate) fn client(server: &Server, name: &str) -> Client {
    let identity = Identity::new(name, ["system:masters", "system:authenticated"]);
    Client::beside(server.handle().acting_as(identity))
}

pub(crate) fn manager(
    server: &Server,
    program: &str,
    clock: &Clock,
    shutdown: &Shutdown,
) -> Manager {
    let client = client(server, &format!("system:{program}")).with_user_agent(program);
    Manager::new(client, clock.clone(), Metrics::default(), shutdown.clone())
}

/// Starts Karmada's controllers and the scheduler.
pub(crate) fn start_controllers(
    server: &Server,
    options: &Options,
    dial: Arc<dyn Dial>,
    clock: &Clock,
    shutdown: &Shutdown,
) {
    let own = manager(server, "karmada-controller-manager", clock, shutdown);
    let context = Context::start(own, dial, options.gates.clone(), options.controllers.clone());
    let context = if options.scheduler {
        let scheduling = manager(server, "karmada-scheduler", clock, shutdown);
        let scheduler = karmada_scheduler::Options::default();
        let scheduler = karmada_scheduler::start(&scheduling, scheduler, &options.gates);
        context.with_placer(Arc::new(scheduler))
    } else {
        context
    };
    registry::start(&context, &options.controller_list);
}
