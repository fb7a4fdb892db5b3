//! What is to happen to a pod, by its annotations, its owner and the faults of the member.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::str::FromStr;
use std::time::Duration;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::time::parse_go_duration;

use crate::faults::Trouble;

/// What annotations can say, for pods that have none; see [`crate::pods`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline(BTreeMap<String, String>);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseTimeline {
    #[error("there is no {0:?} in the life of a pod; known are {known}", known = KNOWN.join(", "))]
    Unknown(String),
    #[error("{0}: a duration such as 2s, or a range such as 1s-5s, is needed")]
    Duration(String),
}

const DELAYS: [&str; 4] = ["start-delay", "ready-delay", "run-for", "stop-delay"];
const KNOWN: [&str; 9] = [
    "start-delay",
    "ready-delay",
    "run-for",
    "stop-delay",
    "exit-code",
    "exit-reason",
    "crash-loop",
    "image-pull",
    "hold",
];

impl Timeline {
    /// Pods that take one to five seconds for everything.
    pub fn general() -> Self {
        let slowly = |name: &str| (name.to_owned(), "1s-5s".to_owned());
        Self(["start-delay", "ready-delay", "stop-delay"].map(slowly).into())
    }
}

impl FromStr for Timeline {
    type Err = ParseTimeline;

    /// Reads `general` or a list such as `start-delay=2s,crash-loop=true`.
    fn from_str(text: &str) -> Result<Self, ParseTimeline> {
        if text == "general" {
            return Ok(Self::general());
        }
        let mut timeline = BTreeMap::new();
        for entry in text.split(',').filter(|entry| !entry.is_empty()) {
            let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
            if !KNOWN.contains(&name) || value.is_empty() {
                return Err(ParseTimeline::Unknown(entry.to_owned()));
            }
            if DELAYS.contains(&name) && draw(value, "").is_none() {
                return Err(ParseTimeline::Duration(entry.to_owned()));
            }
            timeline.insert(name.to_owned(), value.to_owned());
        }
        Ok(Self(timeline))
    }
}

/// Reads a duration; of a range the one that belongs to this pod, always the same.
fn draw(text: &str, uid: &str) -> Option<Duration> {
    let parse = |text: &str| -> Option<Duration> {
        parse_go_duration(text).ok().and_then(|duration| duration.try_into().ok())
    };
    match text.split_once('-') {
        None => parse(text),
        Some((least, most)) => {
            let (least, most) = (parse(least)?, parse(most)?);
            let mut hasher = DefaultHasher::new();
            uid.hash(&mut hasher);
            let share = (hasher.finish() >> 32) as f64 / f64::from(u32::MAX);
            Some(least + most.checked_sub(least)?.mul_f64(share))
        }
    }
}

// Compat: how kwok lets a pod choose the delays of its stages.
fn kwok_stage(name: &str) -> Option<&'static str> {
    Some(match name {
        "start-delay" => "pod-ready.stage.kwok.x-k8s.io/delay",
        "run-for" => "pod-complete.stage.kwok.x-k8s.io/delay",
        "stop-delay" => "pod-delete.stage.kwok.x-k8s.io/delay",
        _ => return None,
    })
}

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
    pub(super) fn of(pod: &Value, timeline: &Timeline, trouble: &Trouble) -> Self {
        let annotation = |name: &str| {
            let own = pod.annotation(&format!("sim.karmada.io/{name}"));
            let own = own.or_else(|| pod.annotation(kwok_stage(name)?));
            own.or_else(|| timeline.0.get(name).map(String::as_str))
        };
        let duration = |name: &str| -> Option<Duration> { draw(annotation(name)?, pod.uid()) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_timeline_is_what_pods_do_that_do_not_say_otherwise() {
        let timeline: Timeline = "start-delay=2s,stop-delay=1s-5s".parse().unwrap();
        let script = |annotations: Value| {
            let pod = json!({"metadata": {"uid": "u", "annotations": annotations}});
            Script::of(&pod, &timeline, &Trouble::default())
        };
        let (plain, own) = (script(json!({})), script(json!({"sim.karmada.io/start-delay": "7s"})));
        assert_eq!(plain.start_delay, Duration::from_secs(2));
        assert_eq!(own.start_delay, Duration::from_secs(7));
        let kwok = script(json!({"pod-ready.stage.kwok.x-k8s.io/delay": "3s"}));
        assert_eq!(kwok.start_delay, Duration::from_secs(3));
        assert_eq!(plain.stop_delay, own.stop_delay, "the same pod draws the same");
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(5));
        assert!((least..=most).contains(&plain.stop_delay), "{:?}", plain.stop_delay);
        let drawn: Vec<_> =
            (0..50).filter_map(|pod| draw("1s-5s", &format!("pod-{pod}"))).collect();
        assert!(
            drawn.iter().any(|one| *one < least * 2) && drawn.iter().any(|one| *one > least * 4)
        );
    }

    #[test]
    fn timelines_are_read_as_the_command_line_spells_them() {
        assert_eq!("general".parse(), Ok(Timeline::general()));
        let unknown = |text: &str| Err(ParseTimeline::Unknown(text.to_owned()));
        let duration = |text: &str| Err(ParseTimeline::Duration(text.to_owned()));
        let cases = [
            ("fly=1s", unknown("fly=1s")),
            ("run-for", unknown("run-for")),
            ("run-for=soon", duration("run-for=soon")),
            ("start-delay=5s-1s", duration("start-delay=5s-1s")),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Timeline>(), expected, "{text}");
        }
    }
}
