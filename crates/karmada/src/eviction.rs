//! The flags that say what happens to workloads on clusters they must leave.

use std::time::Duration;

use karmada_api::policy::PurgeMode;
use karmada_controllers::context::Options;

use crate::component::duration;

/// Flags of the controllers, wherever they run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EvictionArgs {
    /// Lets taints of clusters evict at all; needs the feature gate Failover
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_taint_manager: bool,
    /// Evicts workloads that do not tolerate a NoExecute taint of their cluster
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_no_execute_taint_eviction: bool,
    /// What becomes of the copy on such a cluster unless the policy says it: Gracefully or Directly
    #[arg(long, default_value = "Gracefully", value_parser = purge_mode)]
    no_execute_taint_eviction_purge_mode: PurgeMode,
    /// How many workloads are evicted per second
    #[arg(long, default_value_t = 0.5)]
    resource_eviction_rate: f64,
    /// How long an evicted copy waits for its replacement to be healthy
    #[arg(long, default_value = "10m0s", value_parser = duration)]
    graceful_eviction_timeout: Duration,
}

fn purge_mode(text: &str) -> Result<PurgeMode, String> {
    match PurgeMode::from(text) {
        mode @ (PurgeMode::Gracefully | PurgeMode::Directly) => Ok(mode),
        _ => Err("it is Gracefully or Directly".to_owned()),
    }
}

impl EvictionArgs {
    /// The same, with eviction by taints switched on.
    pub(crate) fn by_taints(self) -> Self {
        Self { enable_no_execute_taint_eviction: true, ..self }
    }

    /// Puts what the flags say into the options.
    pub(crate) fn set(&self, options: Options) -> Options {
        Options {
            enable_taint_manager: self.enable_taint_manager,
            enable_no_execute_taint_eviction: self.enable_no_execute_taint_eviction,
            no_execute_taint_eviction_purge_mode: self.no_execute_taint_eviction_purge_mode.clone(),
            resource_eviction_rate: self.resource_eviction_rate,
            graceful_eviction_timeout: self.graceful_eviction_timeout,
            ..options
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: EvictionArgs,
    }

    fn parse(line: &str) -> Result<Options, String> {
        let words = std::iter::once("karmada").chain(line.split_whitespace());
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(command.args.set(Options::default()))
    }

    #[test]
    fn nothing_is_evicted_unless_asked_for() {
        let options = parse("").unwrap();
        assert!(options.enable_taint_manager && !options.enable_no_execute_taint_eviction);
        let line = "--enable-no-execute-taint-eviction --resource-eviction-rate=2 \
            --no-execute-taint-eviction-purge-mode=Directly --graceful-eviction-timeout=1m30s";
        let options = parse(line).unwrap();
        assert!(options.enable_no_execute_taint_eviction);
        assert_eq!(options.no_execute_taint_eviction_purge_mode, PurgeMode::Directly);
        assert_eq!(options.graceful_eviction_timeout, Duration::from_secs(90));
        let refused = parse("--no-execute-taint-eviction-purge-mode=Never").err().unwrap();
        assert!(refused.contains("Gracefully or Directly"), "{refused}");
    }
}
