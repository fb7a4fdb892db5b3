//! The counters of the server in the text form Prometheus reads, under the names dashboards know.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use karmada_apimachinery::value::Text;
use parking_lot::Mutex;

use crate::routes::Target;

/// (verb, group, version, resource, subresource, code)
type Series = (String, Text, Text, Text, Text, u16);

/// Whether requests for a target are counted in a series.
fn counts(series: &Series, target: &Target, code: u16) -> bool {
    let (verb, group, version, resource, subresource, own) = series;
    *own == code
        && verb.eq_ignore_ascii_case(target.verb)
        && *resource == target.resource
        && *subresource == target.subresource
        && *group == target.group
        && *version == target.version
}

fn hash_of(target: &Target, code: u16) -> u64 {
    let mut hasher = DefaultHasher::new();
    (target.verb, &target.resource, &target.subresource, &target.group, code).hash(&mut hasher);
    hasher.finish()
}

#[derive(Default)]
pub(crate) struct Metrics {
    /// By hash: asking for a series that is known makes no texts.
    requests: Mutex<HashMap<u64, Vec<(Series, u64)>>>,
    pub(crate) panics: AtomicU64,
    pub(crate) reading: AtomicI64,
    pub(crate) writing: AtomicI64,
    pub(crate) watching: AtomicI64,
}

impl Metrics {
    pub(crate) fn count(&self, target: &Target, code: u16) {
        let mut requests = self.requests.lock();
        let alike = requests.entry(hash_of(target, code)).or_default();
        if let Some((_, count)) = alike.iter_mut().find(|(own, _)| counts(own, target, code)) {
            *count += 1;
            return;
        }
        let series = (
            target.verb.to_ascii_uppercase(),
            target.group.clone(),
            target.version.clone(),
            target.resource.clone(),
            target.subresource.clone(),
            code,
        );
        alike.push((series, 1));
    }

    /// The series and their counts, in order.
    fn requests(&self) -> BTreeMap<Series, u64> {
        self.requests.lock().values().flatten().cloned().collect()
    }

    pub(crate) fn render(&self) -> String {
        let mut out = String::from(
            "# HELP apiserver_request_total Requests answered, by verb, resource and code.\n\
             # TYPE apiserver_request_total counter\n",
        );
        for ((verb, group, version, resource, subresource, code), count) in self.requests() {
            let _ = writeln!(
                out,
                "apiserver_request_total{{code=\"{code}\",group=\"{group}\",resource=\"{resource}\",\
                 subresource=\"{subresource}\",verb=\"{verb}\",version=\"{version}\"}} {count}"
            );
        }
        out.push_str(
            "# HELP apiserver_current_inflight_requests Requests being served now.\n\
             # TYPE apiserver_current_inflight_requests gauge\n",
        );
        for (kind, gauge) in [("readOnly", &self.reading), ("mutating", &self.writing)] {
            let now = gauge.load(Ordering::Relaxed);
            let _ = writeln!(
                out,
                "apiserver_current_inflight_requests{{request_kind=\"{kind}\"}} {now}"
            );
        }
        let _ = write!(
            out,
            "# HELP apiserver_longrunning_requests Watches open now.\n\
             # TYPE apiserver_longrunning_requests gauge\n\
             apiserver_longrunning_requests{{verb=\"WATCH\"}} {}\n\
             # HELP apiserver_panics_total Requests that ended in a panic.\n\
             # TYPE apiserver_panics_total counter\n\
             apiserver_panics_total {}\n",
            self.watching.load(Ordering::Relaxed),
            self.panics.load(Ordering::Relaxed)
        );
        out
    }
}
