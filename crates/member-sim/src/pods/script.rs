//! What is to happen to a pod, by its annotations, its owner and the faults of the member.

use std::time::Duration;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::time::parse_go_duration;

use crate::faults::Trouble;

/// How containers end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) after: Duration,
    pub(super) code: i64,
    pub(super) reason: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) start_delay: Duration,
    pub(super) ready_delay: Duration,
    pub(super) stop_delay: Duration,
    pub(super) exit: Option<Exit>,
    /// The first of its images that nobody has.
    pub(super) missing_image: Option<String>,
    pub(super) hold: bool,
}

/// How long a pod of a Job works, and how soon a bad one crashes.
const SECOND: Duration = Duration::from_secs(1);

impl Script {
    pub(super) fn of(pod: &Value, trouble: &Trouble) -> Self {
        let annotation = |name: &str| pod.annotation(&format!("sim.karmada.io/{name}"));
        let duration = |name: &str| -> Option<Duration> {
            parse_go_duration(annotation(name)?).ok().and_then(|d| d.try_into().ok())
        };
        Self {
            start_delay: duration("start-delay").unwrap_or_default(),
            ready_delay: duration("ready-delay").unwrap_or_default(),
            stop_delay: duration("stop-delay").unwrap_or_default(),
            exit: exit_of(pod, trouble, &annotation, duration("run-for")),
            missing_image: missing_image(pod, trouble, annotation("image-pull")),
            hold: annotation("hold") == Some("true"),
        }
    }
}

fn exit_of<'a>(
    pod: &'a Value,
    trouble: &Trouble,
    annotation: &impl Fn(&str) -> Option<&'a str>,
    run_for: Option<Duration>,
) -> Option<Exit> {
    let exit = |after, code, reason: Option<&str>| {
        let usual = if code == 0 { "Completed" } else { "Error" };
        Some(Exit { after, code, reason: reason.unwrap_or(usual).to_owned() })
    };
    let labels = pod.at(&["metadata", "labels"]);
    let crashes = |selector: &String| {
        LabelSelector::parse(selector).is_ok_and(|selector| selector.matches(labels))
    };
    if annotation("crash-loop") == Some("true") || trouble.crash_loops.iter().any(crashes) {
        return exit(SECOND, 1, None);
    }
    let code = annotation("exit-code").and_then(|code| code.parse().ok());
    let reason = annotation("exit-reason");
    if code.is_some() || run_for.is_some() || reason.is_some() {
        let usual = if reason == Some("OOMKilled") { 137 } else { 0 };
        return exit(run_for.unwrap_or_default(), code.unwrap_or(usual), reason);
    }
    if is_job(pod) && !keeps_running(pod) {
        return exit(SECOND, 0, None);
    }
    None
}

fn is_job(pod: &Value) -> bool {
    pod.list_at(&["metadata", "ownerReferences"]).iter().any(|owner| owner["kind"] == "Job")
}

/// Whether a container is one that only waits.
fn keeps_running(pod: &Value) -> bool {
    pod.list_at(&["spec", "containers"]).iter().any(|container| {
        let image = container.str_at(&["image"]).unwrap_or_default();
        let words = container.list_at(&["command"]).iter().chain(container.list_at(&["args"]));
        let line: Vec<&str> = words.filter_map(Value::as_str).collect();
        let line = line.join(" ");
        let slept = line.split("sleep").nth(1).map(str::trim_start).unwrap_or_default();
        let digits: String = slept.chars().take_while(char::is_ascii_digit).collect();
        image.contains("/pause:") || digits.len() >= 3
    })
}

fn missing_image(pod: &Value, trouble: &Trouble, pull: Option<&str>) -> Option<String> {
    let containers = pod.list_at(&["spec", "initContainers"]).iter();
    let containers = containers.chain(pod.list_at(&["spec", "containers"]));
    let mut images = containers.filter_map(|container| container.str_at(&["image"]));
    let missing =
        |image: &&str| pull == Some("never") || trouble.images_never_pulled.contains(*image);
    images.find(missing).map(str::to_owned)
}
