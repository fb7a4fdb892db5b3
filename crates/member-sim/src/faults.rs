//! What is wrong with a member just now. One handle is shared by the network around the member, by
//! its scheduler and by the life of its pods; setting a fault takes effect at once.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use karmada_apimachinery::time::parse_go_duration;
use karmada_signal::{Follow, Signal};

/// Whether anything gets through to the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Link {
    #[default]
    Up,
    /// Connections are refused, open ones are cut.
    Partitioned,
    /// Nothing is refused and nothing is answered.
    BlackHole,
    /// Requests are answered, but watches tell nothing.
    Frozen,
}

/// All that is wrong at one time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trouble {
    pub link: Link,
    /// How long every request is under way.
    pub latency: Duration,
    /// The share of requests answered with an internal error, from 0 to 1.
    pub error_rate: f64,
    /// Lists come back empty, whatever there is.
    pub empty_lists: bool,
    /// An admission webhook of the member refuses everything that is created or changed from outside.
    pub webhook_denies: bool,
    /// Nodes whose kubelet does not answer any more.
    pub nodes_down: BTreeSet<String>,
    /// Images no registry has, as containers spell them.
    pub images_never_pulled: BTreeSet<String>,
    /// Label selectors of pods whose containers crash again and again.
    pub crash_loops: BTreeSet<String>,
    /// No node takes another pod.
    pub full: bool,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        match self.link {
            Link::Up => {}
            Link::Partitioned => words.push("partition".to_owned()),
            Link::BlackHole => words.push("black-hole".to_owned()),
            Link::Frozen => words.push("freeze".to_owned()),
        }
        if !self.latency.is_zero() {
            words.push(format!("latency={}ms", self.latency.as_millis()));
        }
        if self.error_rate > 0.0 {
            words.push(format!("error-rate={}", self.error_rate));
        }
        if self.empty_lists {
            words.push("empty-lists".to_owned());
        }
        if self.webhook_denies {
            words.push("webhook-denies".to_owned());
        }
        words.extend(self.nodes_down.iter().map(|node| format!("node-down={node}")));
        words.extend(self.images_never_pulled.iter().map(|i| format!("image-never-pulls={i}")));
        words.extend(self.crash_loops.iter().map(|s| format!("crash-loop={s}")));
        if self.full {
            words.push("full".to_owned());
        }
        if words.is_empty() { f.write_str("healthy") } else { f.write_str(&words.join(" ")) }
    }
}

/// One fault, as the command line spells it.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Takes everything back.
    Heal,
    Partition,
    BlackHole,
    Freeze,
    Latency(Duration),
    ErrorRate(f64),
    EmptyLists,
    WebhookDenies,
    NodeDown(String),
    NodeUp(String),
    ImageNeverPulls(String),
    CrashLoop(String),
    Full,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseFault {
    #[error(
        "there is no fault {0:?}; known are partition, black-hole, freeze, latency=200ms, error-rate=0.1, empty-lists, \
         webhook-denies, node-down=NODE, node-up=NODE, image-never-pulls=IMAGE, crash-loop=SELECTOR, full and heal"
    )]
    Unknown(String),
    #[error("{0}: a duration such as 200ms is needed")]
    Duration(String),
    #[error("{0}: a number from 0 to 1 is needed")]
    Rate(String),
}

impl FromStr for Fault {
    type Err = ParseFault;

    fn from_str(text: &str) -> Result<Self, ParseFault> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let given = |fault: fn(String) -> Self| {
            if value.is_empty() {
                Err(ParseFault::Unknown(text.to_owned()))
            } else {
                Ok(fault(value.to_owned()))
            }
        };
        match name {
            "node-down" => return given(Self::NodeDown),
            "node-up" => return given(Self::NodeUp),
            "image-never-pulls" => return given(Self::ImageNeverPulls),
            "crash-loop" => return given(Self::CrashLoop),
            "latency" => {
                let duration = parse_go_duration(value).ok().and_then(|d| d.try_into().ok());
                return duration
                    .map(Self::Latency)
                    .ok_or_else(|| ParseFault::Duration(text.to_owned()));
            }
            "error-rate" => {
                let rate = value.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
                return rate.map(Self::ErrorRate).ok_or_else(|| ParseFault::Rate(text.to_owned()));
            }
            _ => {}
        }
        match text {
            "heal" => Ok(Self::Heal),
            "partition" => Ok(Self::Partition),
            "black-hole" => Ok(Self::BlackHole),
            "freeze" => Ok(Self::Freeze),
            "full" => Ok(Self::Full),
            "empty-lists" => Ok(Self::EmptyLists),
            "webhook-denies" => Ok(Self::WebhookDenies),
            _ => Err(ParseFault::Unknown(text.to_owned())),
        }
    }
}

/// The switchboard of one member. Clones are the same one.
#[derive(Clone)]
pub struct Faults {
    current: Signal<Arc<Trouble>>,
    draws: Arc<AtomicU64>,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self { current: Signal::default(), draws: Arc::new(AtomicU64::new(seed)) }
    }

    pub fn current(&self) -> Arc<Trouble> {
        self.current.get()
    }

    /// Tells of every change from now on.
    pub fn follow(&self) -> Follow<Arc<Trouble>> {
        self.current.follow()
    }

    /// Waits until what is wrong is as wanted.
    pub async fn until(&self, wanted: impl Fn(&Trouble) -> bool) -> Arc<Trouble> {
        self.current.until(|trouble| wanted(trouble)).await
    }

    pub fn set(&self, fault: Fault) {
        match fault {
            Fault::Heal => self.heal(),
            Fault::Partition => self.partition(),
            Fault::BlackHole => self.black_hole(),
            Fault::Freeze => self.freeze(),
            Fault::Latency(latency) => self.latency(latency),
            Fault::ErrorRate(rate) => self.error_rate(rate),
            Fault::EmptyLists => self.empty_lists(),
            Fault::WebhookDenies => self.webhook_denies(),
            Fault::NodeDown(node) => self.node_down(&node),
            Fault::NodeUp(node) => self.node_up(&node),
            Fault::ImageNeverPulls(image) => self.image_never_pulls(&image),
            Fault::CrashLoop(selector) => self.crash_loop(&selector),
            Fault::Full => self.full(),
        }
    }

    /// Takes all faults back.
    pub fn heal(&self) {
        self.change(|trouble| *trouble = Trouble::default());
    }

    /// Refuses connections and cuts open ones.
    pub fn partition(&self) {
        self.change(|trouble| trouble.link = Link::Partitioned);
    }

    /// Lets everything hang.
    pub fn black_hole(&self) {
        self.change(|trouble| trouble.link = Link::BlackHole);
    }

    /// Lets watches stall while requests are still answered.
    pub fn freeze(&self) {
        self.change(|trouble| trouble.link = Link::Frozen);
    }

    /// Lets every request take longer.
    pub fn latency(&self, latency: Duration) {
        self.change(|trouble| trouble.latency = latency);
    }

    /// Answers this share of requests with an internal error.
    pub fn error_rate(&self, rate: f64) {
        self.change(|trouble| trouble.error_rate = rate.clamp(0.0, 1.0));
    }

    /// Answers every list with nothing; open watches end.
    pub fn empty_lists(&self) {
        self.change(|trouble| trouble.empty_lists = true);
    }

    /// Refuses, as an admission webhook does, whatever is created or changed from outside.
    pub fn webhook_denies(&self) {
        self.change(|trouble| trouble.webhook_denies = true);
    }

    /// Stops the kubelet of a node.
    pub fn node_down(&self, node: &str) {
        self.change(|trouble| {
            trouble.nodes_down.insert(node.to_owned());
        });
    }

    pub fn node_up(&self, node: &str) {
        self.change(|trouble| {
            trouble.nodes_down.remove(node);
        });
    }

    /// Takes an image out of all registries; pods that run it already keep running.
    pub fn image_never_pulls(&self, image: &str) {
        self.change(|trouble| {
            trouble.images_never_pulled.insert(image.to_owned());
        });
    }

    /// Lets the containers of the selected pods crash.
    pub fn crash_loop(&self, selector: &str) {
        self.change(|trouble| {
            trouble.crash_loops.insert(selector.to_owned());
        });
    }

    /// Lets no node take another pod.
    pub fn full(&self) {
        self.change(|trouble| trouble.full = true);
    }

    fn change(&self, edit: impl FnOnce(&mut Trouble)) {
        self.current.change(|current| {
            let mut changed = (**current).clone();
            edit(&mut changed);
            let differs = changed != **current;
            *current = Arc::new(changed);
            differs
        });
    }

    /// Whether one more request is to fail, by the rate and the seed.
    pub(crate) fn draws_error(&self, rate: f64) -> bool {
        if rate <= 0.0 {
            return false;
        }
        // The finaliser of splitmix64: equal seeds fail the same requests.
        let mut x = self.draws.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        ((x >> 11) as f64) / ((1_u64 << 53) as f64) < rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_the_command_line_spells_them() {
        let cases = [
            ("partition", Ok(Fault::Partition)),
            ("latency=200ms", Ok(Fault::Latency(Duration::from_millis(200)))),
            ("error-rate=0.1", Ok(Fault::ErrorRate(0.1))),
            ("webhook-denies", Ok(Fault::WebhookDenies)),
            ("node-down=n1", Ok(Fault::NodeDown("n1".into()))),
            ("crash-loop=app=web", Ok(Fault::CrashLoop("app=web".into()))),
            ("latency=soon", Err(ParseFault::Duration("latency=soon".into()))),
            ("error-rate=2", Err(ParseFault::Rate("error-rate=2".into()))),
            ("node-down", Err(ParseFault::Unknown("node-down".into()))),
            ("fire", Err(ParseFault::Unknown("fire".into()))),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), expected, "{text}");
        }
    }

    #[test]
    fn trouble_is_told_in_the_words_that_cause_it() {
        let faults = Faults::new(1);
        assert_eq!(faults.current().to_string(), "healthy");
        for word in ["black-hole", "latency=1500ms", "node-down=a", "full"] {
            faults.set(word.parse().unwrap());
        }
        assert_eq!(faults.current().to_string(), "black-hole latency=1500ms node-down=a full");
        faults.heal();
        assert_eq!(*faults.current(), Trouble::default());
    }

    #[test]
    fn errors_come_at_the_rate_asked_for_and_the_same_for_a_seed() {
        let drawn = |seed| -> Vec<bool> {
            let faults = Faults::new(seed);
            (0..10_000).map(|_| faults.draws_error(0.1)).collect()
        };
        let hits = drawn(7).iter().filter(|hit| **hit).count();
        assert!((850..1150).contains(&hits), "{hits}");
        assert_eq!(drawn(7), drawn(7));
    }
}
