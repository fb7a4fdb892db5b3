//! What worlds have in common and need not make again: certificates, and the stores of a control
//! plane with members that have just joined. Starting from them takes a fraction of the time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};

use jiff::{SignedDuration, Timestamp};
use karmada_apiserver::pki::{Pki, Settings, TokenKey};
use karmada_store::Memory;
use parking_lot::Mutex;

const VALIDITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// The certificates of a place. Every world has the same ones.
pub(crate) fn pki(place: &str) -> Arc<Pki> {
    static KNOWN: Mutex<BTreeMap<String, Arc<Pki>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock();
    let made = known.entry(place.to_owned()).or_insert_with(|| {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut settings = Settings::new(None, VALIDITY, [place.to_owned()], [local]);
        settings.token_key = TokenKey::Ecdsa;
        Arc::new(Pki::open(settings, crate::world::beginning()).expect("certificates in memory"))
    });
    made.clone()
}

/// A control plane and members as they were at one moment.
#[derive(Clone)]
pub struct Base {
    pub(crate) at: Timestamp,
    pub(crate) plane: Memory,
    pub(crate) members: BTreeMap<String, Memory>,
}

impl Base {
    /// A control plane with this many members, all Ready; made once per process.
    pub fn with_members(count: usize) -> Arc<Self> {
        static MADE: Mutex<BTreeMap<usize, Arc<OnceLock<Arc<Base>>>>> = Mutex::new(BTreeMap::new());
        let place = MADE.lock().entry(count).or_default().clone();
        place.get_or_init(|| Arc::new(make(count))).clone()
    }
}

/// Runs a world of its own, on a thread of its own since the caller may be inside a runtime.
fn make(count: usize) -> Base {
    let made = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let world = crate::World::fresh(crate::Options::seeded(u64::MAX)).await;
            let world = world.with_members(count).await;
            world.advance(std::time::Duration::from_secs(60)).await;
            let base = world.base();
            world.stop().await;
            base
        })
    });
    made.join().expect("a world")
}
