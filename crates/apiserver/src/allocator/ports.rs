//! Node ports: one map of all ports in the store, changed by compare and put, so that servers on one
//! store never give away the same one.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_store::{Error, Expect, Store};

use crate::chance::Chance;

/// Where Kubernetes keeps it, in the form Kubernetes reads.
const KEY: &str = "/registry/ranges/servicenodeports";

/// The ports of a range, one bit each.
pub(crate) struct Ports {
    range: RangeInclusive<i64>,
    /// One change at a time; other servers are told apart by the store.
    changing: tokio::sync::Mutex<()>,
}

/// Which ports of a range are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    range: RangeInclusive<i64>,
    bits: Vec<bool>,
}

impl Taken {
    fn new(range: &RangeInclusive<i64>) -> Self {
        let size = usize::try_from(range.end() - range.start() + 1).unwrap_or_default();
        Self { range: range.clone(), bits: vec![false; size] }
    }

    fn place(&self, port: i64) -> Option<usize> {
        self.range.contains(&port).then(|| usize::try_from(port - self.range.start()).ok())?
    }

    pub(super) fn contains(&self, port: i64) -> bool {
        self.place(port).is_some_and(|place| self.bits[place])
    }

    /// Whether the port was free. Ports outside of the range are nobody's.
    pub(super) fn insert(&mut self, port: i64) -> bool {
        match self.place(port) {
            Some(place) => !std::mem::replace(&mut self.bits[place], true),
            None => false,
        }
    }

    pub(super) fn remove(&mut self, port: i64) {
        if let Some(place) = self.place(port) {
            self.bits[place] = false;
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = i64> {
        self.range.clone().filter(|port| self.contains(*port))
    }

    /// Claims the port asked for, or any free one; the error says why there is none.
    pub(super) fn claim(&mut self, requested: Option<i64>, chance: &Chance) -> Result<i64, String> {
        let (first, last) = (*self.range.start(), *self.range.end());
        if let Some(port) = requested {
            if !self.range.contains(&port) {
                return Err(format!(
                    "provided port is not in the valid range. The range of valid ports is {first}-{last}"
                ));
            }
            return match self.insert(port) {
                true => Ok(port),
                false => Err("provided port is already allocated".to_owned()),
            };
        }
        let size = last - first + 1;
        let start = chance.below(0..size.unsigned_abs()) as i64;
        let mut ports = (0..size).map(|step| first + (start + step) % size);
        let free = ports.find(|port| !self.contains(*port));
        let free = free.ok_or_else(|| "failed to allocate a nodePort: range is full".to_owned())?;
        self.insert(free);
        Ok(free)
    }

    /// A large number, bit by bit, in bytes with the highest first.
    fn encode(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self
            .bits
            .chunks(8)
            .map(|chunk| {
                chunk.iter().enumerate().fold(0, |byte, (at, bit)| byte | (u8::from(*bit) << at))
            })
            .collect();
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes.reverse();
        bytes
    }

    fn decode(range: &RangeInclusive<i64>, bytes: &[u8]) -> Self {
        let mut taken = Self::new(range);
        for (place, bit) in taken.bits.iter_mut().enumerate() {
            let byte = bytes.len().checked_sub(1 + place / 8).map(|at| bytes[at]);
            *bit = byte.is_some_and(|byte| byte >> (place % 8) & 1 == 1);
        }
        taken
    }
}

impl Ports {
    pub(super) fn new(range: &RangeInclusive<u16>) -> Self {
        let range = i64::from(*range.start())..=i64::from(*range.end());
        Self { range, changing: tokio::sync::Mutex::default() }
    }

    fn named(&self) -> String {
        format!("{}-{}", self.range.start(), self.range.end())
    }

    /// What is taken now, and the revision that says so. A map of another range starts anew: the ports
    /// of the Services there are are put in by the next repair.
    async fn load(&self, store: &dyn Store) -> Result<(Taken, Option<i64>), Error> {
        let Some(kv) = store.get(KEY, None).await? else {
            return Ok((Taken::new(&self.range), None));
        };
        let kept: karmada_apimachinery::Value =
            kv.value.with(|text| serde_json::from_slice(text)).unwrap_or_default();
        let data = kept.str_at(&["data"]).and_then(|data| BASE64.decode(data).ok());
        let taken = match data.filter(|_| kept.str_at(&["range"]) == Some(&self.named())) {
            Some(bytes) => Taken::decode(&self.range, &bytes),
            None => Taken::new(&self.range),
        };
        Ok((taken, Some(kv.mod_revision)))
    }

    /// What a dry run would find.
    pub(super) async fn look(&self, store: &dyn Store) -> Result<Taken, Error> {
        Ok(self.load(store).await?.0)
    }

    /// Changes the map; `change` may run several times, each time on what is there then.
    pub(super) async fn change<T>(
        &self,
        store: &dyn Store,
        mut change: impl FnMut(&mut Taken) -> T,
    ) -> Result<T, Error> {
        let _one = self.changing.lock().await;
        loop {
            let (before, revision) = self.load(store).await?;
            let mut taken = before.clone();
            let outcome = change(&mut taken);
            if taken == before {
                return Ok(outcome);
            }
            let object = json!({
                "kind": "RangeAllocation", "apiVersion": "v1", "metadata": {},
                "range": self.named(), "data": BASE64.encode(taken.encode()),
            });
            let expect = revision.map_or(Expect::Absent, Expect::ModRevision);
            match store.put(KEY, object.to_string().into(), expect).await {
                Ok(_) => return Ok(outcome),
                Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Arc;

    use karmada_store::Memory;

    #[test]
    fn the_map_is_kept_as_kubernetes_keeps_it() {
        let range = 30000..=30019;
        let mut taken = Taken::new(&range);
        for port in [30000, 30003, 30009, 30019] {
            assert!(taken.insert(port) && !taken.insert(port));
        }
        // 1 + 2^3 + 2^9 + 2^19
        assert_eq!(taken.encode(), [0x08, 0x02, 0x09]);
        assert_eq!(Taken::decode(&range, &taken.encode()), taken);
        assert_eq!(taken.all().collect::<Vec<_>>(), [30000, 30003, 30009, 30019]);
        taken.remove(30019);
        assert_eq!(taken.encode(), [0x02, 0x09]);
        assert!(!taken.insert(40000) && !taken.contains(40000));
    }

    // Shows: KIND-6
    #[tokio::test]
    async fn servers_on_one_store_never_give_away_the_same_port() {
        let store = Arc::new(Memory::new());
        let servers = [Ports::new(&(30000..=30063)), Ports::new(&(30000..=30063))];
        let servers = servers.map(Arc::new);
        let claims = (0..64).map(|turn| {
            let (store, ports) = (store.clone(), servers[turn % 2].clone());
            tokio::spawn(async move {
                let chance = Chance::seeded(turn as u64);
                ports.change(&*store, |taken| taken.claim(None, &chance)).await.unwrap().unwrap()
            })
        });
        let claims = futures::future::join_all(claims).await;
        let given: HashSet<i64> = claims.into_iter().map(|port| port.unwrap()).collect();
        assert_eq!(given.len(), 64);
        let chance = Chance::seeded(0);
        let full = servers[0].change(&*store, |taken| taken.claim(None, &chance)).await.unwrap();
        assert_eq!(full, Err("failed to allocate a nodePort: range is full".to_owned()));
    }
}
