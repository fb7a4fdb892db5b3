//! What kubelets tell about pods. A flood is cut off: thousands of pods that start at once would
//! otherwise cost more in events than in pods.

use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::Object;
use karmada_runtime::{EventBudget, Manager, Recorder};
use parking_lot::Mutex;

/// Notes of one member: so many at once, then so many per second.
const BURST: f64 = 300.0;
const PER_SECOND: f64 = 3.0;

/// What there is to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Note {
    /// All containers were started.
    Started,
    PullFailed(String),
    PullBackOff(String),
    /// Containers are not started again for a while.
    BackOff,
    Killing,
}

pub(super) struct Notes {
    recorder: Recorder,
    budget: Mutex<(f64, Option<Timestamp>)>,
}

impl Notes {
    pub(super) fn new(manager: &Manager) -> Self {
        let mut manager = manager.clone();
        manager.event_budget = EventBudget { burst: BURST, waiting: 300, ..manager.event_budget };
        Self { recorder: manager.recorder("kubelet"), budget: Mutex::new((BURST, None)) }
    }

    fn affords(&self, cost: usize, now: Timestamp) -> bool {
        let mut budget = self.budget.lock();
        let gone = budget.1.map_or(0.0, |then| now.duration_since(then).as_secs_f64());
        let left = (budget.0 + gone.max(0.0) * PER_SECOND).min(BURST);
        let cost = cost as f64;
        *budget = (if left >= cost { left - cost } else { left }, Some(now));
        left >= cost
    }

    pub(super) fn tell(&self, object: &Object, pod: &Value, notes: Vec<Note>, now: Timestamp) {
        for note in notes {
            if self.affords(3, now) {
                self.record(object, pod, &note);
            }
        }
    }

    fn record(&self, object: &Object, pod: &Value, note: &Note) {
        let recorder = &self.recorder;
        let containers = pod.list_at(&["spec", "containers"]);
        match note {
            Note::Started => {
                for container in containers {
                    let image = container.str_at(&["image"]).unwrap_or_default();
                    let pulled = format!("Container image \"{image}\" already present on machine");
                    recorder.normal(object, "Pulled", pulled);
                    recorder.normal(object, "Created", "Container created");
                    recorder.normal(object, "Started", "Container started");
                }
            }
            Note::PullFailed(image) => {
                recorder.normal(object, "Pulling", format!("Pulling image \"{image}\""));
                recorder.warning(object, "Failed", super::status::pull_failure(image));
                recorder.warning(object, "Failed", "Error: ErrImagePull");
            }
            Note::PullBackOff(image) => {
                recorder.normal(object, "BackOff", format!("Back-off pulling image \"{image}\""));
                recorder.warning(object, "Failed", "Error: ImagePullBackOff");
            }
            Note::BackOff => {
                let name = containers.first().and_then(|c| c.str_at(&["name"])).unwrap_or_default();
                let message = format!(
                    "Back-off restarting failed container {name} in pod {}_{}({})",
                    object.name(),
                    object.namespace(),
                    object.uid()
                );
                recorder.warning(object, "BackOff", message);
            }
            Note::Killing => {
                for container in containers {
                    let name = container.str_at(&["name"]).unwrap_or_default();
                    recorder.normal(object, "Killing", format!("Stopping container {name}"));
                }
            }
        }
    }
}
