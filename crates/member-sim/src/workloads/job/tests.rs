//! Jobs step by step: what is made, deleted, counted and announced.

use jiff::Timestamp;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::time::parse_time;
use karmada_apimachinery::{Value, json};

use super::conditions::settle;
use super::decide::{INDEX, TRACKING, decide};
use crate::workloads::pods::Pod;

fn now() -> Timestamp {
    parse_time("2026-01-01T01:00:00Z").unwrap()
}

fn job(spec: Value, status: Value) -> Value {
    let mut job = json!({"metadata": {"name": "j", "namespace": "x"}, "spec": {"parallelism": 2,
        "completions": 3, "backoffLimit": 6, "suspend": false}, "status": status});
    for (field, value) in spec.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

/// `name:phase`, with `@3` for an index and `-` for one that was released.
fn pod(text: &str) -> Pod {
    let (name, rest) = text.split_once(':').unwrap();
    let (rest, released) = (rest.trim_end_matches('-'), rest.ends_with('-'));
    let (phase, index) = rest.split_once('@').unwrap_or((rest, ""));
    let finalizers = if released { json!([]) } else { json!([TRACKING]) };
    let code = i64::from(phase == "Failed");
    Pod::from_value(&json!({
        "metadata": {"name": name, "uid": name, "namespace": "x", "finalizers": finalizers,
            "annotations": {INDEX: index}},
        "status": {"phase": phase, "containerStatuses": [{"name": "c",
            "state": {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}}}]},
    }))
}

fn pods(texts: &[&str]) -> Vec<Pod> {
    texts.iter().map(|text| pod(text)).collect()
}

/// What a job does: how many it makes, whom it deletes and releases.
fn next(spec: Value, status: Value, texts: &[&str]) -> (usize, Vec<String>, Vec<String>, Value) {
    let plan = decide(&job(spec, status), &pods(texts), now());
    let names = |pods: &[Pod]| pods.iter().map(|pod| pod.name().to_owned()).collect();
    (plan.create.len(), names(&plan.delete), names(&plan.release), plan.status)
}

#[test]
fn runs_as_many_as_wanted_and_no_more_than_needed() {
    let (made, ..) = next(json!({}), json!({}), &[]);
    assert_eq!(made, 2);
    let (made, ..) = next(json!({}), json!({"succeeded": 2}), &["a:Running"]);
    assert_eq!(made, 0);
    let (made, ..) = next(json!({}), json!({"succeeded": 1}), &["a:Running"]);
    assert_eq!(made, 1);
    let (made, gone, ..) = next(json!({"parallelism": 1}), json!({}), &["a:Running", "b:Running"]);
    assert_eq!((made, gone.len()), (0, 1));
    let (made, gone, ..) = next(json!({"suspend": true}), json!({}), &["a:Running", "b:Running"]);
    assert_eq!((made, gone.len()), (0, 2));
}

#[test]
fn finished_pods_are_noted_then_released_then_counted() {
    let (.., released, status) = next(json!({}), json!({}), &["a:Succeeded", "b:Running"]);
    assert_eq!(released, ["a"]);
    assert_eq!(status["uncountedTerminatedPods"], json!({"succeeded": ["a"]}));
    assert_eq!(status.get("succeeded"), None);
    let mut counted = status.clone();
    assert!(!settle(&mut counted, &["a".to_owned()], None, now()));
    assert_eq!(
        (&counted["succeeded"], &counted["uncountedTerminatedPods"]),
        (&json!(1), &json!({}))
    );
    // Interrupted between release and count: the uid is counted without its pod.
    let (made, _, released, status) = next(json!({}), status, &["a:Succeeded-", "b:Running"]);
    assert_eq!((status["succeeded"].as_i64(), made, released.len()), (Some(1), 1, 0));
}

#[test]
fn success_is_announced_before_it_is_complete() {
    let plan = decide(
        &job(json!({"completions": 1}), json!({"startTime": "2026-01-01T00:00:00Z"})),
        &pods(&["a:Succeeded"]),
        now(),
    );
    let mut status = plan.status;
    assert_eq!(status["conditions"][0]["type"], "SuccessCriteriaMet");
    assert_eq!(status.list_at(&["conditions"]).len(), 1);
    assert!(settle(&mut status, &["a".to_owned()], plan.end.as_ref(), now()));
    assert_eq!(status["conditions"][1]["type"], "Complete");
    assert_eq!(status["conditions"][1]["reason"], "CompletionsReached");
    assert_eq!(status["completionTime"], "2026-01-01T01:00:00Z");
    assert_eq!(status["succeeded"], 1);
}

#[test]
fn too_many_failures_end_the_job_and_its_pods() {
    let spec = json!({"backoffLimit": 0});
    let (_, gone, _, status) = next(spec, json!({}), &["a:Failed", "b:Running"]);
    assert_eq!(gone, ["b"]);
    assert_eq!(status["conditions"][0]["type"], "FailureTarget");
    assert_eq!(status["conditions"][0]["reason"], "BackoffLimitExceeded");
    assert_eq!(status["terminating"], 1);
    let spec = json!({"activeDeadlineSeconds": 60});
    let (.., status) = next(spec, json!({"startTime": "2026-01-01T00:00:00Z"}), &["b:Running"]);
    assert_eq!(status["conditions"][0]["reason"], "DeadlineExceeded");
}

#[test]
fn a_failure_is_followed_by_a_pause() {
    let at = |seconds: i64| {
        parse_time("2026-01-01T00:00:00Z").unwrap() + jiff::SignedDuration::from_secs(seconds)
    };
    let plan =
        |seconds| decide(&job(json!({}), json!({})), &pods(&["a:Failed", "b:Failed"]), at(seconds));
    assert_eq!(plan(5).create.len(), 0);
    assert_eq!(plan(5).recheck_in.map(|wait| wait.as_secs()), Some(15));
    assert_eq!(plan(20).create.len(), 2);
}

#[test]
fn each_index_runs_once_to_success() {
    let spec = || json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4});
    let texts = ["a:Succeeded@0", "b:Running@1", "c:Running@1", "d:Running@9"];
    let plan = decide(&job(spec(), json!({})), &pods(&texts), now());
    let indexes: Vec<_> = plan.create.iter().filter_map(|pod| pod.index).collect();
    assert_eq!(indexes, [2, 3]);
    let gone: Vec<_> = plan.delete.iter().map(Pod::name).collect();
    assert_eq!(gone, ["c", "d"]);
    assert_eq!(plan.status["completedIndexes"], "0");
    assert_eq!(plan.status["succeeded"], 1);
}

#[test]
fn stopping_and_going_on_are_noted_once() {
    let plan = decide(&job(json!({"suspend": true}), json!({})), &[], now());
    assert_eq!(plan.suspension, Some(true));
    let again = decide(&job(json!({"suspend": true}), plan.status.clone()), &[], now());
    assert_eq!((again.suspension, &again.status), (None, &plan.status));
    let resumed = decide(&job(json!({}), plan.status), &[], now());
    assert_eq!(resumed.suspension, Some(false));
    assert_eq!(resumed.status["startTime"], "2026-01-01T01:00:00Z");
}
