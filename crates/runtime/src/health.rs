//! What a process says about itself when asked whether it is alive and ready.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::RwLock;

type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Named checks; the process is healthy while none of them fails. Clones share them.
#[derive(Clone, Default)]
pub struct Health {
    checks: Arc<RwLock<BTreeMap<String, Check>>>,
}

impl Health {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check, which must answer at once.
    pub fn add(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.checks.write().insert(name.into(), Arc::new(check));
    }

    /// Runs all checks except the excluded ones; one line each, as Kubernetes prints them.
    pub fn report(&self, excluded: &[&str]) -> (bool, String) {
        let checks = self.checks.read().clone();
        let (mut healthy, mut report) = (true, String::from("[+]ping ok\n"));
        for (name, check) in checks {
            let line = if excluded.contains(&name.as_str()) {
                format!("[+]{name} excluded: ok")
            } else if let Err(reason) = check() {
                healthy = false;
                format!("[-]{name} failed: {reason}")
            } else {
                format!("[+]{name} ok")
            };
            writeln!(report, "{line}").expect("a string takes everything");
        }
        (healthy, report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failing_check_is_enough_unless_excluded() {
        let health = Health::new();
        health.add("informers", || Ok(()));
        health.add("store", || Err("disk full".into()));
        let (healthy, report) = health.report(&[]);
        assert_eq!(
            (healthy, report.as_str()),
            (false, "[+]ping ok\n[+]informers ok\n[-]store failed: disk full\n")
        );
        assert!(health.report(&["store"]).0);
    }
}
