//! Jobs and CronJobs on a running member.

use std::time::Duration;

use karmada_apimachinery::{Value, json};
use karmada_client::ListOptions;

use crate::member::{api, eventually_is, start};

fn template() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
}

// Shows: SIM-3, SIM-5
#[tokio::test(start_paused = true)]
async fn an_indexed_job_completes_every_index_and_counts_each_once() {
    let member = start(2).await;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {
        "completions": 5, "parallelism": 2, "completionMode": "Indexed", "template": template()}});
    api(&member, "jobs.batch").create(&job).await.unwrap();
    let done = eventually_is(&member, "jobs.batch", "j", |job| {
        job["status"]["conditions"][1]["type"] == "Complete"
    })
    .await;
    assert_eq!(done["status"]["completedIndexes"], "0-4");
    assert_eq!(done["status"]["succeeded"], 5);
    assert_eq!(done["status"]["uncountedTerminatedPods"], json!({}));
    assert_eq!(done["status"]["conditions"][0]["type"], "SuccessCriteriaMet");
    let pods = api(&member, "pods").list(&ListOptions::default()).await.unwrap();
    assert_eq!(pods.items.len(), 5, "each index ran in one pod");
    assert!(pods.items.iter().all(|pod| pod.meta().finalizers.is_empty()));
    member.stop().await;
}

// Shows: SIM-5
#[tokio::test(start_paused = true)]
async fn a_cron_job_makes_a_job_each_time_and_keeps_the_last_three() {
    let member = start(1).await;
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"},
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {"template": template()}}}});
    api(&member, "cronjobs.batch").create(&cron).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600 + 30)).await;
    let cron = api(&member, "cronjobs.batch").get("c").await.unwrap();
    assert_eq!(cron["status"]["lastScheduleTime"], "2026-01-01T01:00:00Z");
    assert_eq!(cron["status"].get("active"), None);
    let jobs = api(&member, "jobs.batch").list(&ListOptions::default()).await.unwrap();
    assert_eq!(jobs.items.len(), 3, "successfulJobsHistoryLimit is three unless given");
    member.stop().await;
}
