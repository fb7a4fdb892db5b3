//! Workloads and what is about them, from flags.

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};

use crate::context::{Context, Server};
use crate::error::{Error, Result};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Deployment {
    name: String,
    /// Image of a container; several make several containers
    #[arg(long, value_delimiter = ',', required = true)]
    image: Vec<String>,
    /// The port the container listens on
    #[arg(long, default_value_t = -1, allow_negative_numbers = true, hide_default_value = true)]
    port: i64,
    /// How many copies
    #[arg(long, short, default_value_t = 1)]
    replicas: i64,
    /// The command to run instead of the image's own
    #[arg(last = true)]
    command: Vec<String>,
}

impl Deployment {
    pub(super) fn build(&self) -> Value {
        let containers: Vec<Value> = self
            .image
            .iter()
            .map(|image| {
                let mut container = json!({"name": container_name(image), "image": image});
                if self.port >= 0 {
                    container["ports"] = json!([{"containerPort": self.port}]);
                }
                if !self.command.is_empty() {
                    container["command"] = json!(self.command);
                }
                container
            })
            .collect();
        let labels = json!({"app": self.name});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {
                "replicas": self.replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
        })
    }
}

/// The last word of an image, as a name: `registry/x/nginx:1.2@sha…` is `nginx`.
fn container_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    let name = last.split([':', '@']).next().unwrap_or(last).to_lowercase();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    name.trim_matches('-').to_owned()
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Job {
    name: String,
    /// Image to run
    #[arg(long)]
    image: Option<String>,
    /// The cron job to run now, as cronjob/NAME
    #[arg(long, value_name = "TYPE/NAME", conflicts_with = "image")]
    from: Option<String>,
    /// The command to run instead of the image's own
    #[arg(last = true)]
    command: Vec<String>,
}

fn one_shot(name: &str, image: &str, command: &[String], restart: &str) -> Value {
    let mut container = json!({"name": name, "image": image});
    if !command.is_empty() {
        container["command"] = json!(command);
    }
    json!({"template": {"spec": {"containers": [container], "restartPolicy": restart}}})
}

impl Job {
    /// The cron job that is to run now, if there is one.
    async fn source(&self, ctx: &Context, server: &Server) -> Result<Option<Value>> {
        let Some(from) = &self.from else { return Ok(None) };
        let (kind, name) = from.split_once('/').unwrap_or(("", from));
        let resource = server.resources.find(kind).await?;
        if resource.kind != "CronJob" {
            return Err(Error::Message(format!(
                "from must be an existing cronjob, as cronjob/NAME, not {from:?}"
            )));
        }
        let api = server.client.api(&resource.gvr).namespaced(&ctx.namespace().await?);
        Ok(Some(api.get(name).await?))
    }

    pub(super) async fn build(&self, ctx: &Context, server: &Server) -> Result<Value> {
        if let Some(source) = self.source(ctx, server).await? {
            if !self.command.is_empty() {
                return Err(Error::from("cannot specify --from and command"));
            }
            return Ok(run_now(&self.name, &source));
        }
        let image = self.image.as_deref().ok_or("either --image or --from must be specified")?;
        Ok(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": self.name},
            "spec": one_shot(&self.name, image, &self.command, "Never"),
        }))
    }
}

/// The job a cron job would make at its time, kept by it as any other of its jobs.
fn run_now(name: &str, source: &Value) -> Value {
    let template = source.at(&["spec", "jobTemplate"]).cloned().unwrap_or_default();
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name,
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "CronJob", "name": source.name(), "uid": source.uid(),
                "controller": true,
            }],
        },
        "spec": template.get("spec").cloned().unwrap_or_default(),
    });
    for field in ["labels", "annotations"] {
        for (key, value) in template.map_at(&["metadata", field]).into_iter().flatten() {
            job["metadata"][field][key] = value.clone();
        }
    }
    job
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct CronJob {
    name: String,
    /// Image to run
    #[arg(long, required = true)]
    image: String,
    /// When to run, as cron writes it
    #[arg(long, required = true)]
    schedule: String,
    /// What to do when the command fails: OnFailure or Never
    #[arg(long, default_value = "OnFailure")]
    restart: String,
    /// The command to run instead of the image's own
    #[arg(last = true)]
    command: Vec<String>,
}

impl CronJob {
    pub(super) fn build(&self) -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": self.name},
            "spec": {
                "schedule": self.schedule,
                "jobTemplate": {
                    "metadata": {"name": self.name},
                    "spec": one_shot(&self.name, &self.image, &self.command, &self.restart),
                },
            },
        })
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Budget {
    name: String,
    /// Which pods
    #[arg(long, required = true)]
    selector: String,
    /// How many must be there, as a number or a percentage
    #[arg(long)]
    min_available: Option<String>,
    /// How many may be missing, as a number or a percentage
    #[arg(long)]
    max_unavailable: Option<String>,
}

impl Budget {
    pub(super) fn build(&self) -> Result<Value> {
        let mut spec = json!({"selector": {"matchLabels": pairs(&self.selector)?}});
        match (&self.min_available, &self.max_unavailable) {
            (Some(least), None) => spec["minAvailable"] = int_or_string(least),
            (None, Some(most)) => spec["maxUnavailable"] = int_or_string(most),
            (None, None) => {
                return Err(Error::from(
                    "one of min-available or max-unavailable must be specified",
                ));
            }
            _ => {
                return Err(Error::from(
                    "min-available and max-unavailable cannot be both specified",
                ));
            }
        }
        Ok(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": self.name}, "spec": spec,
        }))
    }
}

fn int_or_string(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| text.into(), Value::from)
}

/// `a=b,c=d`.
fn pairs(text: &str) -> Result<Value> {
    let mut map = karmada_apimachinery::Map::new();
    for pair in text.split(',') {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| Error::Message(format!("{pair:?} is not key=value")))?;
        map.insert(key.to_owned(), value.into());
    }
    Ok(Value::Object(map))
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct PriorityClass {
    name: String,
    /// The priority
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    value: i64,
    /// Use it for pods that name none
    #[arg(long)]
    global_default: bool,
    /// What it is for
    #[arg(long, default_value = "", hide_default_value = true)]
    description: String,
    /// Whether it may take the place of others
    #[arg(long, default_value = "PreemptLowerPriority")]
    preemption_policy: String,
}

impl PriorityClass {
    pub(super) fn build(&self) -> Value {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": self.name},
            "value": self.value, "globalDefault": self.global_default, "description": self.description,
            "preemptionPolicy": self.preemption_policy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_called_by_their_image() {
        for (image, name) in
            [("nginx", "nginx"), ("r.io/a/nginx:1.2", "nginx"), ("busy_Box@sha256:1", "busy-box")]
        {
            assert_eq!(container_name(image), name);
        }
    }

    #[test]
    fn a_cron_job_runs_now() {
        let source = json!({
            "metadata": {"name": "nightly", "uid": "u"},
            "spec": {"jobTemplate": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {"template": {"spec": {}}}}},
        });
        let job = run_now("now", &source);
        assert_eq!(job["metadata"]["labels"], json!({"a": "b"}));
        let annotations = json!({"cronjob.kubernetes.io/instantiate": "manual", "c": "d"});
        assert_eq!(job["metadata"]["annotations"], annotations);
        assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(job["spec"], json!({"template": {"spec": {}}}));
    }

    #[test]
    fn budgets_take_numbers_and_percentages() {
        let budget = |least: Option<&str>, most: Option<&str>| Budget {
            name: "b".into(),
            selector: "app=x".into(),
            min_available: least.map(str::to_owned),
            max_unavailable: most.map(str::to_owned),
        };
        assert_eq!(budget(Some("2"), None).build().unwrap()["spec"]["minAvailable"], 2);
        assert_eq!(budget(None, Some("50%")).build().unwrap()["spec"]["maxUnavailable"], "50%");
        assert!(budget(None, None).build().is_err());
    }
}
