//! How many replicas a metric asks for. The pods are those of the clusters that can be asked; a share
//! translates from what these run to what the template asks for in all clusters.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::core::ResourceList;

use crate::context::AutoscalerOptions;

const CPU: &str = "cpu";

/// A pod by its cluster too: sets of two clusters call their pods the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodId {
    pub(super) cluster: String,
    pub(super) name: String,
}

/// What scaling has to know about a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Pod {
    pub(super) id: PodId,
    pub(super) phase: String,
    pub(super) is_leaving: bool,
    pub(super) started: Option<Timestamp>,
    pub(super) ready: Option<Ready>,
    pub(super) containers: Vec<Container>,
}

/// Whether a pod is ready, and since when that is so.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ready {
    pub(super) status: String,
    pub(super) since: Timestamp,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) requests: ResourceList,
}

/// What a pod was measured at, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) value: i64,
    pub(super) at: Timestamp,
    pub(super) window: Duration,
}

pub(super) type Samples = BTreeMap<PodId, Sample>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("the selector finds no pods")]
    NoPods,
    #[error("no pod that is ready was measured")]
    NoSamples,
    #[error("none of the measured pods is one of the workload")]
    Strangers,
    #[error(
        "container {container} of pod {pod} requests no {resource}; without it there is no percentage"
    )]
    NoRequest { resource: String, container: String, pod: String },
}

/// What the answer depends on, whatever the metric.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) options: &'a AutoscalerOptions,
    pub(super) now: Timestamp,
    pub(super) pods: &'a [Pod],
    /// Replicas that the template asks for.
    pub(super) current: i32,
    /// Replicas that the asked clusters have been given together, and that exist there.
    pub(super) assigned: i32,
    pub(super) running: i32,
}

/// A number of replicas and the average it follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// In thousandths.
    pub(super) average: i64,
    /// In per cent of the requests, where that is what counts.
    pub(super) percent: Option<i32>,
}

/// How far what is used is from what is aimed for.
struct Usage {
    ratio: f64,
    average: i64,
    percent: Option<i32>,
}

/// Pods by what their samples are worth.
#[derive(Default)]
struct Groups<'a> {
    ready: usize,
    unready: Vec<&'a PodId>,
    missing: Vec<&'a PodId>,
    ignored: Vec<&'a PodId>,
}

impl Situation<'_> {
    /// For a percentage of the requests, of all containers or of one.
    pub(super) fn for_utilization(
        &self,
        samples: &Samples,
        resource: &str,
        container: Option<&str>,
        target: i32,
    ) -> Result<Proposal, Problem> {
        let requests = self.requests(resource, container)?;
        let usage = |samples: &Samples| {
            let known = samples.iter().filter_map(|(id, sample)| Some((sample, requests.get(id)?)));
            let (mut used, mut requested, mut count) = (0_i128, 0_i128, 0_i128);
            for (sample, request) in known {
                used += i128::from(sample.value);
                requested += i128::from(*request);
                count += 1;
            }
            if requested == 0 {
                return Err(Problem::Strangers);
            }
            let percent = i32::try_from(used * 100 / requested).unwrap_or(i32::MAX);
            let ratio = f64::from(percent) / f64::from(target);
            let average = i64::try_from(used / count).unwrap_or(i64::MAX);
            Ok(Usage { ratio, average, percent: Some(percent) })
        };
        // A pod nobody measured is taken to use what it requests, or what is aimed for if that is more.
        let assumed = |id: &PodId| {
            let request = requests.get(id).copied().unwrap_or_default();
            request.saturating_mul(target.max(100).into()) / 100
        };
        self.balance(samples, resource, usage, assumed)
    }

    /// For a value per pod; `resource` is empty unless the metric is one.
    pub(super) fn for_average(
        &self,
        samples: &Samples,
        resource: &str,
        target: i64,
    ) -> Result<Proposal, Problem> {
        let usage = |samples: &Samples| {
            let sum = samples.values().map(|sample| i128::from(sample.value)).sum::<i128>();
            let average = sum / i128::try_from(samples.len().max(1)).unwrap_or(i128::MAX);
            let average = i64::try_from(average).unwrap_or(i64::MAX);
            Ok(Usage { ratio: average as f64 / target as f64, average, percent: None })
        };
        self.balance(samples, resource, usage, |_| target)
    }

    /// For a value that is not the pods' own: as many times what is aimed for, as many times the pods.
    pub(super) fn for_value(&self, value: i64, target: i64) -> Result<i32, Problem> {
        let ratio = value as f64 / target as f64;
        if self.current == 0 {
            return Ok(whole(ratio));
        }
        if self.is_tolerable(ratio) {
            return Ok(self.current);
        }
        if self.pods.is_empty() {
            return Err(Problem::NoPods);
        }
        let is_ready = |pod: &&Pod| pod.phase == "Running" && pod.is_ready();
        Ok(self.in_all_clusters(ratio, self.pods.iter().filter(is_ready).count()))
    }

    /// For a value that is not the pods' own and that they share.
    pub(super) fn for_shared_value(&self, value: i64, target: i64) -> Proposal {
        let (running, shares) = (f64::from(self.running.max(1)), value as f64 / target as f64);
        let needed = if self.is_tolerable(shares / running) { running } else { shares };
        // Row 15 of the quirk register: what is needed is translated once.
        let replicas = whole(needed / self.share());
        Proposal { replicas, average: (value as f64 / running).ceil() as i64, percent: None }
    }

    fn balance(
        &self,
        samples: &Samples,
        resource: &str,
        usage: impl Fn(&Samples) -> Result<Usage, Problem>,
        assumed: impl Fn(&PodId) -> i64,
    ) -> Result<Proposal, Problem> {
        if self.pods.is_empty() {
            return Err(Problem::NoPods);
        }
        let mut samples = samples.clone();
        let groups = self.group(&samples, resource);
        for id in groups.ignored.iter().chain(&groups.unready) {
            samples.remove(*id);
        }
        if samples.is_empty() {
            return Err(Problem::NoSamples);
        }
        let seen = usage(&samples)?;
        let propose =
            |replicas| Ok(Proposal { replicas, average: seen.average, percent: seen.percent });
        let counts_unready = !groups.unready.is_empty() && seen.ratio > 1.0;
        if !counts_unready && groups.missing.is_empty() {
            return propose(match self.is_tolerable(seen.ratio) {
                true => self.current,
                false => self.in_all_clusters(seen.ratio, groups.ready),
            });
        }
        // Nobody grows because of pods that are still coming, and nobody shrinks because of pods that
        // were not measured.
        let mut fill = |id: &PodId, value: i64| {
            let sample = Sample { value, at: self.now, window: Duration::ZERO };
            samples.insert(id.clone(), sample);
        };
        for id in &groups.missing {
            if seen.ratio < 1.0 {
                fill(id, assumed(id));
            } else if seen.ratio > 1.0 {
                fill(id, 0);
            }
        }
        if counts_unready {
            groups.unready.iter().for_each(|id| fill(id, 0));
        }
        let ratio = usage(&samples)?.ratio;
        let turns = (seen.ratio < 1.0 && ratio > 1.0) || (seen.ratio > 1.0 && ratio < 1.0);
        if self.is_tolerable(ratio) || turns {
            return propose(self.current);
        }
        let replicas = self.in_all_clusters(ratio, samples.len());
        let turns = if ratio < 1.0 { replicas > self.current } else { replicas < self.current };
        propose(if turns { self.current } else { replicas })
    }

    fn is_tolerable(&self, ratio: f64) -> bool {
        (1.0 - ratio).abs() <= self.options.tolerance
    }

    /// What part of the template's replicas the asked clusters have been given.
    fn share(&self) -> f64 {
        f64::from(self.assigned) / f64::from(self.current)
    }

    fn in_all_clusters(&self, ratio: f64, pods: usize) -> i32 {
        whole(ratio * pods as f64 / self.share())
    }

    fn group(&self, samples: &Samples, resource: &str) -> Groups<'_> {
        let mut groups = Groups::default();
        for pod in self.pods {
            let group = match samples.get(&pod.id) {
                _ if pod.is_leaving || pod.phase == "Failed" => &mut groups.ignored,
                _ if pod.phase == "Pending" => &mut groups.unready,
                None => &mut groups.missing,
                Some(sample) if resource == CPU && self.is_starting(pod, sample) => {
                    &mut groups.unready
                }
                Some(_) => {
                    groups.ready += 1;
                    continue;
                }
            };
            group.push(&pod.id);
        }
        groups
    }

    /// Whether what a pod uses of the processor says nothing, because it is only starting.
    fn is_starting(&self, pod: &Pod, sample: &Sample) -> bool {
        let (Some(ready), Some(started)) = (&pod.ready, pod.started) else { return true };
        let is_unready = ready.status == "False";
        if started + self.options.cpu_initialization_period > self.now {
            // The sample has to be of the time since it is ready.
            return is_unready || sample.at < ready.since + sample.window;
        }
        is_unready && started + self.options.initial_readiness_delay > ready.since
    }

    /// What pods request of a resource, in thousandths.
    fn requests(
        &self,
        resource: &str,
        container: Option<&str>,
    ) -> Result<BTreeMap<&PodId, i64>, Problem> {
        let request = |pod: &Pod, own: &Container| match own.requests.get(resource) {
            Some(request) => Ok(request.milli_value()),
            None => Err(Problem::NoRequest {
                resource: resource.to_owned(),
                container: own.name.clone(),
                pod: pod.id.name.clone(),
            }),
        };
        let mut requests = BTreeMap::new();
        for pod in self.pods {
            let counted = pod
                .containers
                .iter()
                .filter(|own| container.is_none_or(|container| container == own.name));
            let sum = counted.map(|own| request(pod, own)).sum::<Result<i64, _>>()?;
            requests.insert(&pod.id, sum);
        }
        Ok(requests)
    }
}

impl Pod {
    fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.status == "True")
    }
}

/// Rounds up.
fn whole(replicas: f64) -> i32 {
    replicas.ceil() as i32
}

#[cfg(test)]
mod tests;
