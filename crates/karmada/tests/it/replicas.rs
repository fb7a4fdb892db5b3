//! Several control planes on one etcd: one API, one leader, and nothing lost whoever is killed.

mod history;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, DeleteOptions, Error, ListOptions, WatchEvent, WatchOptions};
use karmada_store::{Etcd, EtcdOptions, Store as _, Update};

use self::history::{Change, Operation, Outcome};
use crate::etcd_servers::Servers;
use crate::server::{Server, eventually_awaited as eventually};

/// How many writes clients are acknowledged in all while servers come and go; more by
/// `KARMADA_HISTORY_WRITES`.
const WRITES: usize = 240;
const WRITERS: usize = 6;
const KEYS: usize = 3;

fn flags(etcd: &Servers) -> Vec<String> {
    vec!["--etcd-servers".to_owned(), etcd.addresses().join(",")]
}

/// Starts replicas at the same time, as a machine that boots would.
async fn start(etcd: &Servers, count: usize) -> Vec<Server> {
    let start = || {
        let flags = flags(etcd);
        tokio::task::spawn_blocking(move || {
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            Server::up_with(&flags)
        })
    };
    let starting: Vec<_> = (0..count).map(|_| start()).collect();
    let started = futures::future::join_all(starting).await;
    started.into_iter().map(|server| server.expect("a replica starts")).collect()
}

async fn client(server: &Server) -> Client {
    Client::from_kubeconfig(&server.kubeconfig(), None).await.expect("make a client")
}

fn config_maps(client: &Client) -> Api {
    client.api(&Gvr::new("", "v1", "configmaps")).namespaced("default")
}

fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value},
    })
}

/// The address of whoever leads.
async fn leader(client: &Client) -> Option<String> {
    let leases = client.api(&Gvr::new("coordination.k8s.io", "v1", "leases"));
    let lease = leases.namespaced("kube-system").get("karmada-control-plane").await.ok()?;
    let holder = lease.str_at(&["spec", "holderIdentity"])?;
    Some(holder.split_once('_')?.0.trim_start_matches("https://").to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_on_one_etcd_are_one_control_plane() {
    let Some(mut etcd) = Servers::start(3) else { return };
    let mut replicas = start(&etcd, 2).await;
    what_one_writes_the_other_reads(&replicas).await;
    one_set_of_credentials_opens_both(&replicas).await;
    services_never_get_the_same_thing(&replicas).await;
    nothing_is_lost_whoever_is_killed(&mut etcd, &mut replicas).await;
    another_takes_the_lead(&mut replicas).await;
}

async fn what_one_writes_the_other_reads(replicas: &[Server]) {
    let clients = [client(&replicas[0]).await, client(&replicas[1]).await];
    for turn in 0..20 {
        let (writer, reader) = (&clients[turn % 2], &clients[(turn + 1) % 2]);
        let (writes, reads) = (config_maps(writer), config_maps(reader));
        let name = format!("at-once-{turn}");
        let made = writes.create(&config_map(&name, "1")).await.expect("create");
        let read = reads.get(&name).await.expect("the other reads it at once");
        assert_eq!(read.resource_version(), made.resource_version());
        let listed = reads.list(&ListOptions::default()).await.expect("list");
        assert!(listed.items.iter().any(|item| item.name() == name), "{name} is not listed");
        reads.delete(&name, &DeleteOptions::default()).await.expect("delete");
        let listed = writes.list(&ListOptions::default()).await.expect("list");
        assert!(!listed.items.iter().any(|item| item.name() == name), "{name} is still listed");
        assert!(writes.get(&name).await.expect_err("it is gone").is_not_found());
        // What is made in a namespace needs the other to know the namespace.
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("ns-{turn}")},
        });
        writer.api(&Gvr::new("", "v1", "namespaces")).create(&namespace).await.expect("create");
        let inside = reader.api(&Gvr::new("", "v1", "configmaps"));
        let inside = inside.namespaced(&format!("ns-{turn}"));
        inside.create(&config_map("a", "1")).await.expect("create in the new namespace");
    }
}

async fn one_set_of_credentials_opens_both(replicas: &[Server]) {
    let kubeconfig = std::fs::read_to_string(replicas[0].kubeconfig()).expect("read");
    let moved = kubeconfig.replace(&replicas[0].address(), &replicas[1].address());
    assert_ne!(moved, kubeconfig);
    let path = replicas[0].scratch().join("other.config");
    std::fs::write(&path, moved).expect("write a kubeconfig");
    let client = Client::from_kubeconfig(&path, None).await.expect("make a client");
    config_maps(&client).list(&ListOptions::default()).await.expect("the other trusts it too");
}

/// Services made through both at once: every cluster address and every node port is given away once.
async fn services_never_get_the_same_thing(replicas: &[Server]) {
    const COUNT: usize = 40;
    let clients = [client(replicas.first().unwrap()).await, client(&replicas[1]).await];
    let services = |place: usize| {
        clients[place % 2].api(&Gvr::new("", "v1", "services")).namespaced("default")
    };
    let made = (0..COUNT).map(|number| {
        let api = services(number);
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("both-{number}")},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]},
        });
        async move { api.create(&service).await.expect("create a Service") }
    });
    let made = futures::future::join_all(made).await;
    let addresses: HashSet<&str> =
        made.iter().filter_map(|service| service.str_at(&["spec", "clusterIP"])).collect();
    let port = |service: &Value| service.list_at(&["spec", "ports"])[0].i64_at(&["nodePort"]);
    let ports: HashSet<i64> = made.iter().filter_map(port).collect();
    assert_eq!((addresses.len(), ports.len()), (COUNT, COUNT), "{made:#?}");
    // What one gave away the other refuses, and may give away again once it was given back.
    let same = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "same"},
        "spec": {"type": "NodePort", "clusterIP": made[0]["spec"]["clusterIP"],
            "ports": [{"port": 80, "nodePort": made[0]["spec"]["ports"][0]["nodePort"]}]},
    });
    let refused = services(1).create(&same).await.expect_err("it is taken").to_string();
    assert!(refused.contains("provided IP is already allocated"), "{refused}");
    services(1).delete("both-0", &DeleteOptions::default()).await.expect("delete");
    let again = services(0).create(&same).await.expect("what was given back can be had");
    assert_eq!(again["spec"]["clusterIP"], made[0]["spec"]["clusterIP"]);
}

/// What the clients of the history share.
struct Lab {
    /// A way to each replica.
    ways: Vec<Api>,
    operations: Mutex<Vec<Operation>>,
    acknowledged: AtomicUsize,
    over: AtomicBool,
}

impl Lab {
    async fn until_acknowledged(&self, count: usize) {
        eventually("writes go on", || async {
            (self.acknowledged.load(Ordering::Relaxed) >= count).then_some(())
        })
        .await;
    }

    fn note(&self, key: &str, invoked: Instant, outcome: Outcome) {
        let returned = Instant::now();
        let key = key.to_owned();
        self.operations.lock().unwrap().push(Operation { key, invoked, returned, outcome });
    }
}

async fn nothing_is_lost_whoever_is_killed(etcd: &mut Servers, replicas: &mut [Server]) {
    let wanted = std::env::var("KARMADA_HISTORY_WRITES").ok();
    let wanted = wanted.and_then(|text| text.parse().ok()).unwrap_or(WRITES);
    let options = EtcdOptions { servers: etcd.addresses(), ..EtcdOptions::default() };
    let store = Etcd::open(&options).await.expect("open etcd");
    let ways =
        vec![config_maps(&client(&replicas[0]).await), config_maps(&client(&replicas[1]).await)];
    let began_at = store.current().await.expect("ask etcd");
    let truth = store.watch("/registry/configmaps/default/", began_at).await.expect("watch etcd");
    for key in 0..KEYS {
        ways[0].create(&config_map(&format!("h-{key}"), "0")).await.expect("create");
    }
    let lab = Arc::new(Lab {
        ways,
        operations: Mutex::default(),
        acknowledged: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    });
    let writers: Vec<_> = (0..WRITERS).map(|n| tokio::spawn(write(lab.clone(), n))).collect();
    let watchers: Vec<_> =
        (0..2).map(|way| tokio::spawn(watch(lab.clone(), way, began_at))).collect();
    let rounds = wanted.div_ceil(WRITES);
    for round in 0..rounds {
        let upto = |part| round * WRITES + WRITES * part / 4;
        let victim = (round % 3) as u16;
        lab.until_acknowledged(upto(1)).await;
        etcd.kill(victim);
        lab.until_acknowledged(upto(2)).await;
        etcd.start_again(victim);
        lab.until_acknowledged(upto(3)).await;
        let replica = &mut replicas[round % 2];
        replica.kill();
        lab.until_acknowledged(upto(4)).await;
        replica.start_again();
    }
    lab.over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("a writer ends");
    }
    let last = sentinel(&lab).await;
    let truth = collect(truth, last).await;
    let operations = lab.operations.lock().unwrap().clone();
    let unknown =
        operations.iter().filter(|op| matches!(op.outcome, Outcome::Unknown { .. })).count();
    eprintln!("{} operations, {unknown} of unknown outcome", operations.len());
    if let Err(why) = history::check(&operations, &truth) {
        panic!("{why}");
    }
    for watcher in watchers {
        let heard = watcher.await.expect("a watcher ends");
        if let Err(why) = history::check_watch(&heard, &truth, began_at) {
            panic!("a watch is not complete or not in order: {why}");
        }
    }
}

/// Writes the last change of all, which ends the watches, and returns its version.
async fn sentinel(lab: &Lab) -> i64 {
    eventually("the end is written", || async {
        for way in &lab.ways {
            match way.create(&config_map("h-end", "end")).await {
                Ok(made) => return version(&made),
                Err(error) if error.is_already_exists() => {
                    return version(&way.get("h-end").await.ok()?);
                }
                Err(_) => {}
            }
        }
        None
    })
    .await
}

fn version(object: &Value) -> Option<i64> {
    object.resource_version().parse().ok()
}

fn value(object: &Value) -> String {
    object.str_at(&["data", "v"]).unwrap_or_default().to_owned()
}

/// Reads and writes keys in turn, through one replica after the other.
async fn write(lab: Arc<Lab>, writer: usize) {
    for turn in 0.. {
        if lab.over.load(Ordering::Relaxed) {
            return;
        }
        let (key, way) = (format!("h-{}", (writer + turn) % KEYS), &lab.ways[(writer + turn) % 2]);
        let invoked = Instant::now();
        let Ok(mut object) = way.get(&key).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let Some(over) = version(&object) else { panic!("no version in {object}") };
        lab.note(&key, invoked, Outcome::Read { value: value(&object), version: over });
        let fresh = format!("{writer}-{turn}");
        object["data"]["v"] = fresh.as_str().into();
        let invoked = Instant::now();
        let outcome = match way.update(&object).await {
            Ok(stored) => {
                lab.acknowledged.fetch_add(1, Ordering::Relaxed);
                let version = version(&stored).expect("a version");
                Outcome::Written { value: fresh, over, version }
            }
            Err(error) if is_refused(&error) => {
                Outcome::Refused { value: fresh, why: error.to_string() }
            }
            Err(_) => Outcome::Unknown { value: fresh, over },
        };
        lab.note(&key, invoked, outcome);
    }
}

/// Whether a server said that nothing was done. Anything else leaves it open.
fn is_refused(error: &Error) -> bool {
    error.is_conflict() || error.api().is_some_and(|error| error.code == 503)
}

/// Follows the objects of the history through whichever replica has them, from version to version.
async fn watch(lab: Arc<Lab>, first: usize, after: i64) -> Vec<Change> {
    let (mut heard, mut last) = (Vec::new(), after);
    for turn in first.. {
        let options =
            WatchOptions { resource_version: last.to_string(), ..WatchOptions::default() };
        let Ok(mut events) = lab.ways[turn % 2].watch(&options).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while let Some(event) = events.next().await {
            let object = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => object,
                Ok(WatchEvent::Bookmark { .. } | WatchEvent::Deleted(_)) => continue,
                // Broken off, or this replica began later: the other one knows.
                Err(_) => break,
            };
            let object = object.value();
            let Some(version) = version(&object) else { panic!("no version in {object}") };
            last = version;
            if object.name().starts_with("h-") {
                let key = object.name().to_owned();
                heard.push(Change { key, value: value(&object), version });
                if object.name() == "h-end" {
                    return heard;
                }
            }
        }
        assert!(heard.len() < 1_000_000, "this never ends");
    }
    heard
}

/// What the store went through up to a version, as it says itself.
async fn collect(mut updates: karmada_store::WatchStream, last: i64) -> Vec<Change> {
    let mut truth = Vec::new();
    while let Some(update) = updates.next().await {
        let Update::Event(event) = update.expect("the store's history is whole") else { continue };
        let key = event.kv.key.rsplit('/').next().unwrap_or_default().to_owned();
        if key.starts_with("h-") {
            let object: Value =
                event.kv.value.with(|text| serde_json::from_slice(text)).expect("an object");
            truth.push(Change { key, value: value(&object), version: event.revision() });
        }
        if event.revision() >= last {
            break;
        }
    }
    truth
}

async fn another_takes_the_lead(replicas: &mut [Server]) {
    let clients = [client(&replicas[0]).await, client(&replicas[1]).await];
    let addresses = [replicas[0].address(), replicas[1].address()];
    let leads = |client: &Client| {
        let (client, addresses) = (client.clone(), addresses.clone());
        async move {
            let leader = leader(&client).await?;
            addresses.iter().position(|address| *address == leader)
        }
    };
    let first = eventually("one leads", || leads(&clients[0])).await;
    let other = 1 - first;
    both_agree(&clients).await;
    let began = Instant::now();
    replicas[first].kill();
    eventually("the other leads", || async {
        (leads(&clients[other]).await == Some(other)).then_some(())
    })
    .await;
    eprintln!("the lead moved after {:.1} s", began.elapsed().as_secs_f64());
    // Its controllers work: a namespace goes away with what is in it.
    let namespaces = clients[other].api(&Gvr::new("", "v1", "namespaces"));
    namespaces.delete("ns-0", &DeleteOptions::default()).await.expect("delete");
    eventually("the namespace is gone", || async {
        namespaces.get("ns-0").await.err().filter(Error::is_not_found)
    })
    .await;
    replicas[first].start_again();
    both_agree(&clients).await;
}

async fn both_agree(clients: &[Client; 2]) {
    eventually("both know who leads", || async {
        let told = [leader(&clients[0]).await?, leader(&clients[1]).await?];
        (told[0] == told[1]).then_some(())
    })
    .await;
}
