//! One story: who does what, drawn from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::SignedDuration;
use karmada_api::features::Gates;
use karmada_api::policy::PurgeMode;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::DeleteOptions;
use karmada_testkit::{Member, Options, World};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, IteratorRandom as _};
use rand::{Rng as _, SeedableRng as _};

use super::check;
use super::model::{
    DEFINITION, DEFINITIONS, Kind, LOST, REPAIR, Taints, Template, definition, taint_policy,
};

/// How long everything may take to be right once nothing fails any more.
const HEALING: u64 = 20 * 60;
/// How long a member must have been well before a change has to reach it at once.
const WELL: u64 = 90_000;
/// How long "at once" is.
const AT_ONCE: Duration = Duration::from_secs(10);
/// How long nothing may be written once everything is right.
const QUIET: Duration = Duration::from_secs(300);

struct Story {
    world: World,
    random: StdRng,
    templates: Vec<Template>,
    payloads: u64,
    /// Since when a member has been well; those that are not are absent.
    well: BTreeMap<String, u64>,
    /// Since when the control plane has been.
    plane_well: u64,
    contended: bool,
    backups: BTreeMap<String, karmada_store::Memory>,
    zombies: Vec<(String, String)>,
    /// What the test itself took from members: when, where, what.
    taken: Vec<(u64, String, String)>,
    /// Whether taints expel workloads.
    expels: bool,
    taints: Taints,
    /// Clusters that let nothing new in, whatever it tolerates, and those that did until then.
    closed: BTreeMap<String, u64>,
    /// Since when everything that happened to bindings was seen.
    seen_since: u64,
}

pub(super) async fn tell(seed: u64) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let members = random.random_range(2..=4);
    let expels = random.random_bool(0.5);
    let world = World::start(options(seed, expels, &mut random), members).await;
    let mut story = Story::begin(world, random, expels).await;
    let told = story.go().await;
    let told = told.map_err(|why| {
        let trace = story.world.trace();
        let lines: Vec<&str> = trace.lines().collect();
        let end = lines.len().saturating_sub(super::SHOWN);
        format!("{why}\n{}", lines[end..].join("\n"))
    });
    story.world.stop().await;
    told
}

/// How the control plane is started where taints expel workloads, and where they do not.
fn options(seed: u64, expels: bool, random: &mut StdRng) -> Options {
    let mut options = Options::seeded(seed);
    if expels {
        options.gates = Gates::parse("Failover=true").expect("a gate");
        options.controllers.enable_no_execute_taint_eviction = true;
        if random.random_bool(0.3) {
            options.controllers.no_execute_taint_eviction_purge_mode = PurgeMode::Directly;
        }
        options.controllers.graceful_eviction_timeout =
            Duration::from_secs(random.random_range(60..600));
    }
    options
}

impl Story {
    async fn begin(world: World, mut random: StdRng, expels: bool) -> Self {
        let members = world.members();
        let kinds =
            [Kind::ConfigMap, Kind::ConfigMap, Kind::Deployment, Kind::ClusterRole, Kind::Boat];
        let count = random.random_range(2..=4);
        let mut templates = Vec::new();
        for number in 0..count {
            let kind = kinds.choose(&mut random).copied().unwrap_or(Kind::ConfigMap);
            let clusters = some_of(&members, &mut random);
            let mut template = Template::new(kind, format!("t{number}"), clusters);
            template.divided = kind == Kind::Deployment && random.random_bool(0.5);
            template.fails_over = template.divided && random.random_bool(0.5);
            template.wide |= random.random_bool(0.3);
            for key in [REPAIR, LOST] {
                match random.random_range(0..4) {
                    0 => drop(template.tolerates.insert(key, None)),
                    1 => {
                        let seconds = random.random_range(30..300);
                        template.tolerates.insert(key, Some(seconds));
                    }
                    _ => {}
                }
            }
            template.replicas = random.random_range(1..=4);
            templates.push(template);
        }
        let well = members.iter().map(|member| (member.clone(), 0)).collect();
        let mut story = Self {
            world,
            random,
            templates,
            payloads: 0,
            well,
            plane_well: 0,
            contended: false,
            backups: BTreeMap::new(),
            zombies: Vec::new(),
            taken: Vec::new(),
            expels,
            taints: Taints::new(expels),
            closed: BTreeMap::new(),
            seen_since: 0,
        };
        if story.expels && story.random.random_bool(0.6) {
            story.note("clusters that are lost are left");
            story.world.apply(&taint_policy().to_string()).await;
        }
        if story.sails() {
            story.world.apply(&definition().to_string()).await;
            for name in story.world.members() {
                story.define(&name).await;
            }
            let served = async |world: &World| {
                let defined = world.get(DEFINITIONS, "", DEFINITION).await.unwrap_or_default();
                let conditions = defined.list_at(&["status", "conditions"]);
                conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True")
            };
            story.world.eventually("the definition is served", served).await;
        }
        for index in 0..story.templates.len() {
            story.create(index).await;
        }
        story
    }

    /// Whether there are boats in the story.
    fn sails(&self) -> bool {
        self.templates.iter().any(|template| template.kind == Kind::Boat)
    }

    /// Gives a member the definition that boats need, if it does not have it.
    async fn define(&self, name: &str) {
        if !self.sails() {
            return;
        }
        let api = self.member(name).client().api(&karmada_testkit::gvr(DEFINITIONS));
        for _ in 0..120 {
            let known = api.find(DEFINITION).await.ok().flatten();
            match known {
                Some(known) if known.at(&["metadata", "deletionTimestamp"]).is_none() => return,
                // The old one is on its way out, or a rule of the story stands in the way.
                Some(_) => self.world.advance(Duration::from_millis(500)).await,
                None => drop(api.create(&definition()).await),
            }
        }
        panic!("{name} does not take the definition");
    }

    async fn go(&mut self) -> Result<(), String> {
        for _ in 0..self.random.random_range(6..=16) {
            match self.random.random_range(0..11) {
                0..=4 => {
                    let index = self.random.random_range(0..self.templates.len());
                    self.change(index).await;
                    self.reaches_the_well(index).await?;
                }
                5..=7 => self.hurt_a_member().await,
                8 => self.taint_a_cluster().await,
                _ => self.hurt_the_plane().await,
            }
            if self.random.random_bool(0.6) {
                let pause = self.random.random_range(0..120_000);
                self.world.advance(Duration::from_millis(pause)).await;
            }
            self.justified()?;
        }
        self.heal().await;
        let mut last = Err(String::new());
        for _ in 0..HEALING / 10 {
            self.world.advance(Duration::from_secs(10)).await;
            last = check::converged(&self.world, &self.templates, &self.zombies).await;
            if last.is_ok() {
                break;
            }
        }
        last.map_err(|why| format!("not right after {HEALING} s of health: {why}"))?;
        self.justified()?;
        self.stays_quiet().await
    }

    async fn stays_quiet(&mut self) -> Result<(), String> {
        // Events and the last states are still on their way.
        self.world.advance(QUIET).await;
        let before = self.world.writes();
        self.world.advance(QUIET).await;
        let written = self.world.writes() - before;
        if written > 0 {
            return Err(format!("{written} writes though nothing happens any more"));
        }
        check::converged(&self.world, &self.templates, &self.zombies).await
    }

    fn justified(&self) -> Result<(), String> {
        let (taken, taints) = (&self.taken, &self.taints);
        check::nothing_left_unasked(&self.world, &self.templates, taken, taints, self.seen_since)
    }

    fn note(&self, text: impl AsRef<str>) {
        self.world.note(text.as_ref());
    }

    fn remember(&mut self, index: usize) {
        let (now, members) = (self.world.elapsed(), self.world.members());
        self.templates[index].remember(now, &members);
    }

    // What people do.

    async fn create(&mut self, index: usize) {
        self.payloads += 1;
        let template = &mut self.templates[index];
        (template.alive, template.payload) = (true, self.payloads);
        let (title, clusters) = (template.title(), template.clusters.clone());
        let (object, policy) = (template.object(), template.policy());
        // From the moment of the request on it may be wanted.
        self.remember(index);
        self.note(format!("creates {title} for {clusters:?}"));
        let mut both = [object, policy];
        if self.random.random_bool(0.5) {
            both.reverse();
        }
        for object in both {
            self.world.apply(&object.to_string()).await;
        }
    }

    async fn change(&mut self, index: usize) {
        if !self.templates[index].alive {
            return self.create(index).await;
        }
        let title = self.templates[index].title();
        match self.random.random_range(0..12) {
            0..=4 => {
                self.payloads += 1;
                self.templates[index].payload = self.payloads;
                if self.random.random_bool(0.4) {
                    self.templates[index].replicas = self.random.random_range(1..=4);
                }
                self.note(format!("edits {title}: {}", self.payloads));
                let object = self.templates[index].object();
                self.world.apply(&object.to_string()).await;
            }
            5..=7 => {
                let clusters = some_of(&self.world.members(), &mut self.random);
                self.note(format!("moves {title} to {clusters:?}"));
                // Clusters count as not wanted from before the request until after it.
                let before = std::mem::replace(&mut self.templates[index].clusters, clusters);
                let policy = self.templates[index].policy();
                let after = self.templates[index].clusters.clone();
                self.templates[index].clusters = before.intersection(&after).cloned().collect();
                self.remember(index);
                self.world.apply(&policy.to_string()).await;
                self.templates[index].clusters = after;
                self.remember(index);
            }
            8 | 9 => self.alter(index).await,
            10 => {
                self.note(format!("deletes {title}"));
                self.templates[index].alive = false;
                self.remember(index);
                let kind = self.templates[index].kind;
                let name = self.templates[index].name.clone();
                self.delete((kind.resource(), kind.namespace()), &name).await;
            }
            _ => {
                self.note(format!("deletes the policy of {title} and makes it anew"));
                let template = &self.templates[index];
                let (place, policy) = (template.policy_place(), template.policy());
                self.delete(place, policy.name()).await;
                if self.random.random_bool(0.5) {
                    self.world.advance(Duration::from_millis(200)).await;
                }
                // What is applied to an object on its way out goes with it.
                self.wait_gone(place, policy.name()).await;
                self.world.apply(&policy.to_string()).await;
            }
        }
    }

    /// Sets, changes or removes an override.
    async fn alter(&mut self, index: usize) {
        let title = self.templates[index].title();
        if self.templates[index].over.is_some() && self.random.random_bool(0.4) {
            self.note(format!("removes the override of {title}"));
            self.templates[index].over = None;
            let (place, name) = (
                self.templates[index].override_place(),
                format!("alter-{}", self.templates[index].name),
            );
            return self.delete(place, &name).await;
        }
        let cluster = self.world.members().into_iter().choose(&mut self.random);
        self.payloads += 1;
        self.templates[index].over = cluster.map(|cluster| (cluster, self.payloads));
        self.note(format!("overrides {title}: {:?}", self.templates[index].over));
        if let Some(policy) = self.templates[index].override_policy() {
            self.world.apply(&policy.to_string()).await;
        }
    }

    async fn wait_gone(&self, (resource, namespace): (&str, &str), name: &str) {
        let api = self.world.client.api(&karmada_testkit::gvr(resource)).namespaced(namespace);
        for _ in 0..600 {
            if matches!(api.find(name).await, Ok(None)) {
                return;
            }
            self.world.advance(Duration::from_millis(50)).await;
        }
    }

    async fn delete(&self, (resource, namespace): (&str, &str), name: &str) {
        for _ in 0..20 {
            let gvr = karmada_testkit::gvr(resource);
            let api = self.world.client.api(&gvr).namespaced(namespace);
            match api.delete(name, &DeleteOptions::default()).await {
                Ok(_) => return,
                Err(error) if error.is_not_found() => return,
                Err(_) => self.world.advance(Duration::from_millis(50)).await,
            }
        }
        panic!("{name} cannot be deleted");
    }

    /// A member that is well has the change soon, whatever happens elsewhere.
    async fn reaches_the_well(&mut self, index: usize) -> Result<(), String> {
        let now = self.world.elapsed();
        if self.contended || now < self.plane_well + 30_000 || self.random.random_bool(0.4) {
            return Ok(());
        }
        let well: Vec<String> = self
            .well
            .iter()
            .filter(|(_, since)| **since == 0 || now >= **since + WELL)
            .map(|(member, _)| member.clone())
            .collect();
        self.world.advance(AT_ONCE).await;
        let template = &self.templates[index];
        if check::waits_for_purge(&self.world, template).await {
            return Ok(());
        }
        for member in well.iter().filter(|_| !template.divided) {
            // It may be on its way out, or on its way back.
            let recently = now.saturating_sub(WELL * 10);
            let is_expelled = self.taints.may_expel(template, member, recently, u64::MAX);
            let is_closed = self.closed.get(member).is_some_and(|until| *until + WELL > now);
            if template.wanted_in(member) && !is_expelled && !is_closed {
                let current = check::has_current(&self.world, member, template).await;
                current.map_err(|why| format!("a member that is well waits for others: {why}"))?;
            }
        }
        Ok(())
    }

    // What goes wrong.

    fn some_member(&mut self) -> String {
        self.world.members().into_iter().choose(&mut self.random).unwrap_or_default()
    }

    fn member(&self, name: &str) -> Member<'_> {
        self.world.member(name)
    }

    async fn hurt_a_member(&mut self) {
        let name = self.some_member();
        let what = self.random.random_range(0..17);
        if what == 13 || (what == 12 && !self.well.contains_key(&name)) {
            return self.heal_member(&name).await;
        }
        if (9..13).contains(&what) {
            return self.meddle(&name, what).await;
        }
        self.fall_ill(&name);
        self.member(&name).heal();
        let faults = self.member(&name).faults().clone();
        match what {
            0 | 1 => faults.partition(),
            2 | 3 => faults.black_hole(),
            4 => faults.latency(Duration::from_millis(self.random.random_range(50..20_000))),
            5 => faults.error_rate(self.random.random_range(0.1..0.9)),
            6 => faults.empty_lists(),
            7 => faults.freeze(),
            14 => faults.webhook_denies(),
            15 => self.lose_definition(&name).await,
            // All that run pods have this label.
            16 => faults.crash_loop("app"),
            _ => self.refuse(&name).await,
        }
        self.note(format!("{name}: {}", faults.current()));
    }

    /// Somebody does something inside a member.
    async fn meddle(&mut self, name: &str, what: i32) {
        match what {
            9 => {
                let backup = self.member(name).backup();
                self.note(format!("backs {name} up"));
                self.backups.insert(name.to_owned(), backup);
            }
            10 => {
                let Some(backup) = self.backups.get(name).cloned() else { return };
                self.fall_ill(name);
                self.world.restore(name, &backup).await;
                self.define(name).await;
                let brought_back = self.templates.iter();
                let brought_back = brought_back.map(|t| (name.to_owned(), t.title()));
                self.zombies.extend(brought_back);
                self.recover(name);
            }
            11 if !self.contended => {
                self.fall_ill(name);
                self.world.recreate(name).await;
                self.define(name).await;
                // The old cluster went with all it had.
                self.backups.remove(name);
                self.zombies.retain(|(member, _)| member != name);
                self.taints.end(name, REPAIR, self.world.elapsed());
                self.recover(name);
            }
            _ => {
                let index = self.random.random_range(0..self.templates.len());
                let (kind, title) = (self.templates[index].kind, self.templates[index].title());
                let own = self.templates[index].name.clone();
                self.note(format!("deletes {title} inside {name}"));
                self.taken.push((self.world.elapsed(), name.to_owned(), title));
                let api = self.member(name).client().api(&karmada_testkit::gvr(kind.resource()));
                let api = api.namespaced(kind.namespace());
                // Whether it is there or not.
                drop(api.delete(&own, &DeleteOptions::default()).await);
            }
        }
    }

    /// The member no longer knows what boats are, and has none.
    async fn lose_definition(&self, name: &str) {
        self.note(format!("{name} loses the definition of boats"));
        let api = self.member(name).client().api(&karmada_testkit::gvr(DEFINITIONS));
        // There may be no boats in this story.
        drop(api.delete(DEFINITION, &DeleteOptions::default()).await);
    }

    /// A rule inside the member refuses what Karmada sends.
    async fn refuse(&self, name: &str) {
        self.note(format!("{name} refuses config maps and deployments"));
        let client = self.member(name).client();
        let metadata = json!({"name": "refuse"});
        let policy = json!({
            "metadata": metadata,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["", "apps"], "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["configmaps", "deployments"],
                }]},
                "validations": [{"expression": "false", "message": "not today"}],
            },
        });
        let binding = json!({
            "metadata": metadata,
            "spec": {"policyName": "refuse", "validationActions": ["Deny"]},
        });
        for (resource, object) in [(REFUSAL, policy), (REFUSAL_BINDING, binding)] {
            // It may refuse already.
            drop(client.api(&karmada_testkit::gvr(resource)).create(&object).await);
        }
    }

    async fn heal_member(&mut self, name: &str) {
        self.note(format!("{name} is healed"));
        self.member(name).heal();
        let client = self.member(name).client();
        for resource in [REFUSAL_BINDING, REFUSAL] {
            let api = client.api(&karmada_testkit::gvr(resource));
            drop(api.delete("refuse", &DeleteOptions::default()).await);
        }
        self.define(name).await;
        self.recover(name);
    }

    fn fall_ill(&mut self, name: &str) {
        self.well.remove(name);
        self.taints.begin(name, LOST, self.world.elapsed());
    }

    /// It is well; that it is known to be takes longer.
    fn recover(&mut self, name: &str) {
        let now = self.world.elapsed();
        self.well.insert(name.to_owned(), now);
        if !self.taints.jumped {
            self.taints.end(name, LOST, now + WELL);
        }
    }

    /// Somebody puts a taint on a cluster, or takes it off again.
    async fn taint_a_cluster(&mut self) {
        let name = self.some_member();
        let effect = if self.random.random_bool(0.7) { "NoExecute" } else { "NoSchedule" };
        let has = self.world.cluster(&name).await;
        let has = has.is_some_and(|cluster| cluster.spec.taints.iter().any(|t| t.key == REPAIR));
        self.set_taint(&name, (!has).then_some(effect)).await;
    }

    async fn set_taint(&mut self, name: &str, effect: Option<&str>) {
        self.note(format!("{name}: taint {effect:?}"));
        if effect == Some("NoExecute") {
            self.taints.begin(name, REPAIR, self.world.elapsed());
        }
        let was_closed = self.closed.contains_key(name);
        if effect.is_some() {
            self.closed.insert(name.to_owned(), u64::MAX - WELL);
        }
        let api = self.world.client.api(&karmada_testkit::gvr(CLUSTERS));
        for _ in 0..40 {
            let Some(mut cluster) = api.find(name).await.ok().flatten() else { return };
            let kept = cluster.list_at(&["spec", "taints"]).iter().cloned();
            let kept = kept.filter(|taint| taint["key"] != REPAIR);
            let own = effect.map(|effect| json!({"key": REPAIR, "effect": effect}));
            cluster["spec"]["taints"] = kept.chain(own).collect();
            if api.update(&cluster).await.is_ok() {
                if effect.is_none() {
                    self.taints.end(name, REPAIR, self.world.elapsed());
                    if was_closed {
                        self.closed.insert(name.to_owned(), self.world.elapsed());
                    }
                }
                return;
            }
            self.world.advance(Duration::from_millis(50)).await;
        }
        panic!("{name} takes no taint");
    }

    async fn hurt_the_plane(&mut self) {
        // At any moment, also in the middle of what was just begun.
        for _ in 0..self.random.random_range(0..300) {
            tokio::task::yield_now().await;
        }
        match self.random.random_range(0..6) {
            0 | 1 => self.world.kill_controllers(),
            2 => {
                self.world.kill_plane().await;
                self.seen_since = self.world.elapsed();
            }
            3 => {
                self.contended = !self.contended;
                let permille = if self.contended { self.random.random_range(20..300) } else { 0 };
                self.note(format!("{permille} of 1000 writes fail"));
                self.world.contend(permille);
            }
            4 => {
                let minutes = self.random.random_range(-90..90);
                self.note(format!("the clock jumps by {minutes} minutes"));
                self.world.clock.jump(SignedDuration::from_mins(minutes));
                // Every cluster may seem to be lost for a while.
                self.taints.jumped = true;
                for name in self.world.members() {
                    self.taints.begin(&name, LOST, self.world.elapsed());
                }
            }
            _ => self.world.restart_controllers().await,
        }
        self.plane_well = self.world.elapsed();
    }

    async fn heal(&mut self) {
        self.contended = false;
        self.world.contend(0);
        for name in self.world.members() {
            self.heal_member(&name).await;
            self.set_taint(&name, None).await;
        }
    }
}

const CLUSTERS: &str = "clusters.v1alpha1.cluster.karmada.io";

const REFUSAL: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const REFUSAL_BINDING: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";

/// At least one of them.
fn some_of(members: &[String], random: &mut StdRng) -> BTreeSet<String> {
    let count = random.random_range(1..=members.len());
    members.choose_multiple(random, count).cloned().collect()
}
