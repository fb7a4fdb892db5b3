//! Members that answer wrongly, are not what they were, or refuse; and control planes that die.

use jiff::SignedDuration;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::DeleteOptions;
use karmada_testkit::{Happening, Options, World, gvr};

use crate::pieces::*;

const ALL: &str = "placement: {clusterAffinity: {clusterNames: [m1, m2]}}";
const ONE: &str = "placement: {clusterAffinity: {clusterNames: [m1]}}";

#[tokio::test(start_paused = true)]
async fn a_member_that_answers_with_empty_lists_loses_nothing() {
    let world = World::of(21, 2).await;
    for number in 0..5 {
        let name = format!("c{number}");
        world.apply(&config_map(&name, "1")).await;
        world.apply(&config_policy(&name, ALL)).await;
    }
    eventually_value(&world, "m1", "c4", "1").await;
    world.member("m1").faults().empty_lists();
    world.apply(&config_map("c0", "2")).await;
    world.advance(seconds(120)).await;
    assert_eq!(value(&world, "m1", "c0").await.as_deref(), Some("2"), "changes still arrive");
    world.member("m1").heal();
    world.advance(seconds(120)).await;
    for number in 0..5 {
        assert!(has(&world, "m1", "configmaps", &format!("c{number}")).await);
    }
    let gone = |line: &karmada_testkit::Line| line.happening == Happening::Deleted && line.managed;
    assert!(!world.lines().iter().any(gone), "{}", world.trace());
    assert!(world.is_ready("m1").await);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_member_keeps_no_other_waiting() {
    const EVERYWHERE: &str = "placement: {clusterAffinity: {}}";
    const NAMES: std::ops::Range<usize> = 0..40;
    let world = World::of(36, 3).await;
    world.member("m1").latency(seconds(20));
    world.advance(seconds(1)).await;
    for number in NAMES {
        let name = format!("c{number}");
        world.apply(&config_map(&name, "1")).await;
        world.apply(&config_policy(&name, EVERYWHERE)).await;
    }
    world.advance(seconds(5)).await;
    for number in NAMES {
        let name = format!("c{number}");
        assert!(!has(&world, "m1", "configmaps", &name).await, "m1 is slow");
        for member in ["m2", "m3"] {
            assert!(has(&world, member, "configmaps", &name).await, "{member} waits for {name}");
        }
    }
    world.member("m1").heal();
    for number in NAMES {
        eventually_value(&world, "m1", &format!("c{number}"), "1").await;
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_answers_with_errors_gets_everything_when_it_recovers_and_loses_nothing() {
    let world = World::of(37, 2).await;
    world.apply(&deployment("before", 1)).await;
    world.apply(&deployment_policy("before", ALL)).await;
    let there = async |world: &World| has(world, "m1", "deployments.apps", "before").await;
    world.eventually("it is delivered", there).await;
    world.member("m1").faults().error_rate(1.0);
    world.apply(&deployment("before", 2)).await;
    world.apply(&deployment("after", 1)).await;
    world.apply(&deployment_policy("after", ALL)).await;
    world.advance(seconds(300)).await;
    let replicas = async |world: &World, member: &str, name: &str| {
        let object = world.member(member).get("deployments.apps", "default", name).await?;
        object.i64_at(&["spec", "replicas"])
    };
    assert_eq!(replicas(&world, "m2", "before").await, Some(2), "others go on");
    assert_eq!(replicas(&world, "m2", "after").await, Some(1), "others go on");
    assert_eq!(replicas(&world, "m1", "before").await, Some(1), "it keeps what it has");
    assert_eq!(replicas(&world, "m1", "after").await, None);
    world.member("m1").heal();
    let is_whole = async |world: &World| {
        replicas(world, "m1", "before").await == Some(2)
            && replicas(world, "m1", "after").await == Some(1)
    };
    world.eventually("it has everything", is_whole).await;
    let gone = |line: &karmada_testkit::Line| line.happening == Happening::Deleted && line.managed;
    assert!(!world.lines().iter().any(gone), "{}", world.trace());
    world.stop().await;
}

/// The watch of such a member goes on without telling, and ends as if nothing had happened.
#[tokio::test(start_paused = true)]
async fn what_happens_behind_empty_lists_is_seen_afterwards() {
    let world = World::of(32, 2).await;
    world.apply(&deployment("before", 1)).await;
    world.apply(&deployment_policy("before", ALL)).await;
    let runs = async |world: &World, name: &str, replicas: i64| {
        let template = world.get("deployments.apps", "default", name).await.unwrap();
        template["status"]["readyReplicas"] == replicas
    };
    world.eventually("it runs", async |world| runs(world, "before", 2).await).await;
    world.member("m1").faults().empty_lists();
    world.apply(&deployment("web", 2)).await;
    world.apply(&deployment_policy("web", ALL)).await;
    world.advance(seconds(200)).await;
    world.member("m1").heal();
    world.eventually("it is seen", async |world| runs(world, "web", 4).await).await;
    assert!(runs(&world, "before", 2).await, "nothing was taken for gone");
    world.stop().await;
}

/// A watch that is torn off could go on where it was, but what it told until then was not all.
#[tokio::test(start_paused = true)]
async fn what_happens_behind_empty_lists_is_seen_when_the_member_comes_back_from_nowhere() {
    let world = World::of(35, 2).await;
    world.member("m1").faults().empty_lists();
    world.apply(&deployment("web", 2)).await;
    world.apply(&deployment_policy("web", ALL)).await;
    world.advance(seconds(200)).await;
    world.member("m1").partition();
    world.advance(seconds(1)).await;
    world.member("m1").heal();
    let runs = async |world: &World| {
        let template = world.get("deployments.apps", "default", "web").await.unwrap();
        template["status"]["readyReplicas"] == 4
    };
    world.eventually("it is seen", runs).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_behind_empty_lists_is_delivered_again() {
    let world = World::of(33, 2).await;
    world.apply(THINGS).await;
    copy_definition(&world, "things.example.com", &["m1", "m2"]).await;
    world.member("m1").faults().empty_lists();
    world.apply(THING).await;
    world.apply(&policy("things", ("example.com/v1", "Thing", "one"), ALL)).await;
    let there = async |world: &World| has(world, "m1", "things.example.com", "one").await;
    world.eventually("it is delivered", there).await;
    world.advance(seconds(60)).await;
    // Nobody has ever seen it in m1, and nobody sees it go.
    let inside = world.member("m1").client().api(&gvr("things.example.com")).namespaced("default");
    inside.delete("one", &DeleteOptions::default()).await.unwrap();
    world.member("m1").heal();
    world.eventually("it is delivered again", there).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_made_anew_behind_empty_lists_leaves_with_its_template() {
    let world = World::of(34, 2).await;
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", ALL)).await;
    eventually_value(&world, "m1", "conf", "1").await;
    world.advance(seconds(10)).await;
    world.member("m1").faults().empty_lists();
    let other = "placement: {clusterAffinity: {clusterNames: [m2]}}";
    world.apply(&config_policy("conf", other)).await;
    eventually_gone(&world, "m1", "configmaps", "conf").await;
    // Whoever remembers the first one takes the second one for it.
    world.apply(&config_policy("conf", ALL)).await;
    eventually_value(&world, "m1", "conf", "1").await;
    delete(&world, "configmaps", "default", "conf").await;
    eventually_gone(&world, "m1", "configmaps", "conf").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_restored_from_a_backup_is_brought_up_to_date() {
    let mut world = World::of(22, 2).await;
    world.apply(&config_map("before", "1")).await;
    world.apply(&config_policy("before", ALL)).await;
    eventually_value(&world, "m1", "before", "1").await;
    let backup = world.member("m1").backup();
    world.apply(&config_map("before", "2")).await;
    world.apply(&config_map("after", "1")).await;
    world.apply(&config_policy("after", ALL)).await;
    eventually_value(&world, "m1", "before", "2").await;
    eventually_value(&world, "m1", "after", "1").await;
    world.restore("m1", &backup).await;
    assert_eq!(value(&world, "m1", "before").await.as_deref(), Some("1"));
    assert!(!has(&world, "m1", "configmaps", "after").await);
    eventually_value(&world, "m1", "before", "2").await;
    eventually_value(&world, "m1", "after", "1").await;
    // It also hears of what happens from now on, though its versions are older than those known.
    world.apply(&config_map("after", "3")).await;
    eventually_value(&world, "m1", "after", "3").await;
    let meddled = world.member("m1").client().api(&gvr("configmaps")).namespaced("default");
    meddled.merge_patch("after", json!({"data": {"v": "wrong"}})).await.unwrap();
    eventually_value(&world, "m1", "after", "3").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_made_anew_under_the_same_name_gets_everything() {
    let mut world = World::of(23, 2).await;
    world.apply(&deployment("web", 2)).await;
    world.apply(&deployment_policy("web", ALL)).await;
    let everywhere = async |world: &World| placed(world, "web-deployment").await == "m1:2 m2:2";
    world.eventually("it is placed", everywhere).await;
    world.advance(seconds(30)).await;
    world.recreate("m1").await;
    let is_back = async |world: &World| has(world, "m1", "deployments.apps", "web").await;
    world.eventually("the new cluster has it", is_back).await;
    assert!(has(&world, "m2", "deployments.apps", "web").await);
    world.stop().await;
}

async fn applied(world: &World, binding: &str) -> String {
    let binding = world.get(BINDINGS, "default", binding).await.unwrap_or_default();
    condition(&binding, "FullyApplied").map(|(status, _)| status).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_work_that_could_not_be_made_is_not_missed_when_it_is_no_longer_wanted() {
    let mut world = World::of(25, 2).await;
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", ALL)).await;
    let is = async |world: &World, wanted: &str| applied(world, "conf-configmap").await == wanted;
    world.eventually("it is applied", async |world| is(world, "True").await).await;
    world.advance(seconds(30)).await;
    // The new cluster has no place for Works yet when the binding wants one there.
    world.recreate("m2").await;
    world.eventually("a Work is missing", async |world| is(world, "False").await).await;
    assert!(work(&world, "m2", "ConfigMap", "conf").await.is_none());
    world.apply(&config_policy("conf", ONE)).await;
    world.eventually("nothing is missing", async |world| is(world, "True").await).await;
    assert_eq!(placed(&world, "conf-configmap").await, "m1:0");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_cluster_reported_that_is_left_stands_until_its_work_is_gone() {
    let world = World::of(26, 2).await;
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", ALL)).await;
    let is = async |world: &World, wanted: &str| applied(world, "conf-configmap").await == wanted;
    world.eventually("it is applied", async |world| is(world, "True").await).await;
    world.member("m1").faults().webhook_denies();
    world.apply(&config_map("conf", "2")).await;
    world.eventually("m1 refuses", async |world| is(world, "False").await).await;
    let reported = async || {
        let binding = world.get(BINDINGS, "default", "conf-configmap").await.unwrap();
        let items = binding.list_at(&["status", "aggregatedStatus"]).iter();
        items
            .filter_map(|item| item.str_at(&["clusterName"]).map(str::to_owned))
            .collect::<Vec<_>>()
    };
    world.member("m2").partition();
    world.apply(&config_policy("conf", ONE)).await;
    world.advance(seconds(20)).await;
    assert!(work(&world, "m2", "ConfigMap", "conf").await.is_some_and(|w| w.is_being_deleted()));
    assert_eq!(reported().await, ["m1", "m2"], "the copy in m2 is still there");
    world.member("m1").heal();
    world.member("m2").heal();
    world.eventually("m1 alone has it", async |world| is(world, "True").await).await;
    assert_eq!(reported().await, ["m1"]);
    world.stop().await;
}

const THINGS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const THING: &str = "
apiVersion: example.com/v1
kind: Thing
metadata: {name: one, namespace: default}
spec: {size: 3}
";

#[tokio::test(start_paused = true)]
async fn a_kind_the_member_does_not_have_waits_until_it_does() {
    let world = World::of(24, 2).await;
    world.apply(THINGS).await;
    copy_definition(&world, "things.example.com", &["m2"]).await;
    world.apply(THING).await;
    world.apply(&policy("things", ("example.com/v1", "Thing", "one"), ALL)).await;
    let there = async |world: &World| has(world, "m2", "things.example.com", "one").await;
    world.eventually("the member that knows the kind has it", there).await;
    world.advance(seconds(30)).await;
    assert_eq!(placed(&world, "one-thing").await, "m2:0", "the other one is not even asked");
    copy_definition(&world, "things.example.com", &["m1"]).await;
    let there = async |world: &World| has(world, "m1", "things.example.com", "one").await;
    world.eventually("the other one too once it knows the kind", there).await;
    world.stop().await;
}

/// Quirk 14 of the register: matched, the names of bindings are part of the API.
#[tokio::test(start_paused = true)]
async fn kinds_of_two_groups_with_the_same_name_share_a_binding_and_the_first_one_has_it() {
    let world = World::of(27, 1).await;
    let others = THINGS.replace("example.com", "example.org");
    world.apply(THINGS).await;
    world.apply(&others).await;
    copy_definition(&world, "things.example.com", &["m1"]).await;
    copy_definition(&world, "things.example.org", &["m1"]).await;
    let only = "placement: {clusterAffinity: {clusterNames: [m1]}}";
    world.apply(THING).await;
    world.apply(&policy("first", ("example.com/v1", "Thing", "one"), only)).await;
    let there = async |world: &World| has(world, "m1", "things.example.com", "one").await;
    world.eventually("the first one is there", there).await;
    world.apply(&THING.replace("example.com", "example.org")).await;
    world.apply(&policy("second", ("example.org/v1", "Thing", "one"), only)).await;
    world.advance(seconds(120)).await;
    let binding = world.get(BINDINGS, "default", "one-thing").await.unwrap();
    assert_eq!(binding["spec"]["resource"]["apiVersion"], "example.com/v1");
    assert!(has(&world, "m1", "things.example.com", "one").await, "the first one stays");
    assert!(!has(&world, "m1", "things.example.org", "one").await);
    // Once the first one is gone, the name is free.
    delete(&world, "things.example.com", "default", "one").await;
    let there = async |world: &World| has(world, "m1", "things.example.org", "one").await;
    world.eventually("the second one follows", there).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_of_the_member_that_rejects_is_told_and_holds_up_nobody_else() {
    const RULES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
    const RULE_BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";
    let world = World::of(25, 2).await;
    let inside = world.member("m1").client();
    let rule = json!({
        "metadata": {"name": "no"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["configmaps"],
            }]},
            "validations": [{"expression": "false", "message": "not today"}],
        },
    });
    inside.api(&gvr(RULES)).create(&rule).await.unwrap();
    let bound = json!({
        "metadata": {"name": "no"},
        "spec": {"policyName": "no", "validationActions": ["Deny"]},
    });
    inside.api(&gvr(RULE_BINDINGS)).create(&bound).await.unwrap();
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", ALL)).await;
    eventually_value(&world, "m2", "conf", "1").await;
    let told = async |world: &World| {
        let work = work(world, "m1", "ConfigMap", "conf").await.unwrap_or_default();
        condition(&work, "Applied")
            .is_some_and(|(status, why)| status == "False" && why.contains("not today"))
    };
    world.eventually("the refusal is told in the words of the member", told).await;
    let binding = world.get(BINDINGS, "default", "conf-configmap").await.unwrap();
    assert_eq!(condition(&binding, "FullyApplied").unwrap().0, "False");
    inside.api(&gvr(RULE_BINDINGS)).delete("no", &DeleteOptions::default()).await.unwrap();
    eventually_value(&world, "m1", "conf", "1").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_of_the_member_that_denies_is_told_and_holds_up_nobody_else() {
    let world = World::of(28, 2).await;
    world.member("m1").faults().webhook_denies();
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", ALL)).await;
    eventually_value(&world, "m2", "conf", "1").await;
    let told = async |world: &World| {
        let work = work(world, "m1", "ConfigMap", "conf").await.unwrap_or_default();
        condition(&work, "Applied").is_some_and(|(status, why)| {
            status == "False" && why.contains("denied the request: not today")
        })
    };
    world.eventually("the denial is told in the words of the webhook", told).await;
    assert!(world.is_ready("m1").await, "a cluster with opinions is not ill");
    world.member("m1").heal();
    eventually_value(&world, "m1", "conf", "1").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_cluster_delays_no_other_by_a_millisecond() {
    let reaches = async |ill: bool| {
        let world = World::of(26, 2).await;
        for number in 0..40 {
            let name = format!("c{number}");
            world.apply(&config_map(&name, "1")).await;
            world.apply(&config_policy(&name, ALL)).await;
        }
        eventually_value(&world, "m2", "c39", "1").await;
        world.advance(seconds(30)).await;
        if ill {
            world.member("m1").black_hole();
        }
        world.advance(seconds(10)).await;
        let began = world.elapsed();
        for number in 0..40 {
            world.apply(&config_map(&format!("c{number}"), "2")).await;
        }
        for number in 0..40 {
            eventually_value(&world, "m2", &format!("c{number}"), "2").await;
        }
        let took = world.elapsed() - began;
        world.stop().await;
        took
    };
    let (healthy, ill) = (reaches(false).await, reaches(true).await);
    assert!(ill <= healthy, "{ill} ms beside a dead cluster, {healthy} ms beside a healthy one");
}

#[tokio::test(start_paused = true)]
async fn replicas_an_autoscaler_of_the_member_set_survive_edits_of_the_template() {
    let world = World::of(27, 2).await;
    let retained = "labels: {app: web, resourcetemplate.karmada.io/retain-replicas: 'true'}";
    let template = deployment("web", 2).replacen("labels: {app: web}", retained, 1);
    world.apply(&template).await;
    world.apply(&deployment_policy("web", ALL)).await;
    let there = async |world: &World| has(world, "m1", "deployments.apps", "web").await;
    world.eventually("it is delivered", there).await;
    let inside = world.member("m1").client().api(&gvr("deployments.apps")).namespaced("default");
    inside.merge_patch("web", json!({"spec": {"replicas": 5}})).await.unwrap();
    world.advance(seconds(30)).await;
    world.apply(&template.replace("web:1.0", "web:2.0")).await;
    let edited = async |world: &World| {
        let object = world.member("m1").get("deployments.apps", "default", "web").await.unwrap();
        let containers = object.list_at(&["spec", "template", "spec", "containers"]);
        containers[0]["image"] == "registry.example/shop/web:2.0"
    };
    world.eventually("the edit arrives", edited).await;
    let object = world.member("m1").get("deployments.apps", "default", "web").await.unwrap();
    assert_eq!(object["spec"]["replicas"], 5);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_template_follows_the_autoscalers_of_its_members_if_that_is_wanted() {
    let mut options = Options::seeded(29);
    options.controller_list = vec!["*".to_owned(), "deploymentReplicasSyncer".to_owned()];
    let world = World::start(options, 2).await;
    let retained = "labels: {app: web, resourcetemplate.karmada.io/retain-replicas: 'true'}";
    world.apply(&deployment("web", 4).replacen("labels: {app: web}", retained, 1)).await;
    let halves = "
placement:
  clusterAffinity: {clusterNames: [m1, m2]}
  replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}";
    world.apply(&deployment_policy("web", halves)).await;
    let template = async |world: &World| {
        let template = world.get("deployments.apps", "default", "web").await.unwrap();
        let replicas = |part: &str| template.i64_at(&[part, "replicas"]).unwrap_or_default();
        (replicas("spec"), replicas("status"))
    };
    world.eventually("it runs", async |world| template(world).await == (4, 4)).await;
    let inside = world.member("m1").client().api(&gvr("deployments.apps")).namespaced("default");
    inside.merge_patch("web", json!({"spec": {"replicas": 5}})).await.unwrap();
    world.eventually("it follows", async |world| template(world).await == (7, 7)).await;
    world.advance(seconds(300)).await;
    assert_eq!(template(&world).await, (7, 7), "and then stays");
    let replicas = async |member: &str| {
        let object = world.member(member).get("deployments.apps", "default", "web").await.unwrap();
        object["spec"]["replicas"].clone()
    };
    assert_eq!((replicas("m1").await, replicas("m2").await), (json!(5), json!(2)));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_killed_in_the_middle_of_everything_goes_on_where_it_was() {
    let mut world = World::of(28, 2).await;
    for turn in 0..12_u32 {
        world.apply(&config_map("conf", &turn.to_string())).await;
        world.apply(&config_policy("conf", ALL)).await;
        // A little further into the work every time.
        for _ in 0..turn * 7 {
            tokio::task::yield_now().await;
        }
        world.kill_plane().await;
    }
    eventually_value(&world, "m1", "conf", "11").await;
    eventually_value(&world, "m2", "conf", "11").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_while_the_controllers_start_is_not_lost() {
    let mut world = World::of(33, 1).await;
    world.apply(&config_map("conf", "")).await;
    world.apply(&config_policy("conf", ALL)).await;
    eventually_value(&world, "m1", "conf", "").await;
    for turn in 0..60 {
        world.kill_controllers();
        // A little further into the start every time.
        for _ in 0..turn {
            tokio::task::yield_now().await;
        }
        world.apply(&config_map("conf", &turn.to_string())).await;
        eventually_value(&world, "m1", "conf", &turn.to_string()).await;
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_takes_nothing_away_and_holds_nothing_up() {
    let world = World::of(30, 2).await;
    world.apply(&deployment("web", 2)).await;
    world.apply(&deployment_policy("web", ALL)).await;
    let there = async |world: &World| has(world, "m1", "deployments.apps", "web").await;
    world.eventually("it is delivered", there).await;
    world.advance(seconds(60)).await;
    for (turn, hours) in [2, -5, 1000, -998].into_iter().enumerate() {
        world.clock.jump(SignedDuration::from_hours(hours));
        let began = world.elapsed();
        world.apply(&config_map("conf", &turn.to_string())).await;
        world.apply(&config_policy("conf", ALL)).await;
        for member in ["m1", "m2"] {
            eventually_value(&world, member, "conf", &turn.to_string()).await;
        }
        assert!(world.elapsed() - began < 10_000, "a jump by {hours} h holds changes up");
        world.advance(seconds(300)).await;
        assert!(world.is_ready("m1").await && world.is_ready("m2").await, "after {hours} h");
    }
    let gone = |line: &karmada_testkit::Line| line.happening == Happening::Deleted && line.managed;
    assert!(!world.lines().iter().any(gone), "{}", world.trace());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_writes_fail_now_and_then_loses_nothing() {
    let world = World::of(31, 2).await;
    world.contend(300);
    for turn in 0..5 {
        for number in 0..4 {
            let name = format!("c{number}");
            world.apply(&config_map(&name, &turn.to_string())).await;
            world.apply(&config_policy(&name, ALL)).await;
        }
        world.advance(seconds(20)).await;
    }
    for number in 0..4 {
        for member in ["m1", "m2"] {
            eventually_value(&world, member, &format!("c{number}"), "4").await;
        }
    }
    world.contend(0);
    world.advance(seconds(120)).await;
    let gone = |line: &karmada_testkit::Line| line.happening == Happening::Deleted && line.managed;
    assert!(!world.lines().iter().any(gone), "{}", world.trace());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn controllers_that_start_while_a_cluster_leaves_take_its_objects_along() {
    let mut world = World::of(39, 2).await;
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", ALL)).await;
    eventually_value(&world, "m2", "conf", "1").await;
    world.advance(seconds(10)).await;
    // They end in the middle of it: the Work is on its way out, its object is still there.
    world.member("m2").black_hole();
    delete(&world, CLUSTERS, "", "m2").await;
    let leaves = async |world: &World| {
        let work = work(world, "m2", "ConfigMap", "conf").await;
        work.is_some_and(|work| work.str_at(&["metadata", "deletionTimestamp"]).is_some())
    };
    world.eventually("the work is on its way out", leaves).await;
    assert!(world.is_ready("m2").await);
    world.member("m2").heal();
    world.kill_controllers();
    let left = async |world: &World| world.cluster("m2").await.is_none();
    world.eventually("the cluster is gone", left).await;
    assert!(!has(&world, "m2", "configmaps", "conf").await, "{}", world.trace());
    world.stop().await;
}
