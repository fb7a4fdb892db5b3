//! Flags of the audit log, named as kube-apiserver names them.

use std::path::PathBuf;

use anyhow::Context as _;
use jiff::SignedDuration;
use karmada_apiserver::audit::{Audit, Log, LogSettings, Policy};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AuditArgs {
    /// Which requests are logged, and how much of them: a file with an audit.k8s.io/v1 Policy
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    audit_policy_file: Option<PathBuf>,
    /// Where the audit log goes: a file, or - for standard output
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,
    /// The size in megabytes at which the file is set aside and a new one begun; 0 never does
    #[arg(long, value_name = "MB", default_value_t = 100)]
    audit_log_maxsize: u64,
    /// How many files set aside are kept; 0 keeps all
    #[arg(long, value_name = "N", default_value_t = 0)]
    audit_log_maxbackup: usize,
    /// How many days files set aside are kept; 0 keeps them for good
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    audit_log_maxage: u32,
}

impl AuditArgs {
    /// Reads the policy and opens the log, if there is to be one.
    pub(crate) fn open(&self) -> anyhow::Result<Option<Audit>> {
        let (Some(policy), Some(path)) = (&self.audit_policy_file, &self.audit_log_path) else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(policy)
            .with_context(|| format!("--audit-policy-file: read {}", policy.display()))?;
        let policy = Policy::parse(&text)
            .with_context(|| format!("--audit-policy-file: {}", policy.display()))?;
        let log = Log::open(LogSettings {
            path: path.clone(),
            max_bytes: self.audit_log_maxsize * 1024 * 1024,
            max_backups: self.audit_log_maxbackup,
            max_age: SignedDuration::from_hours(24 * i64::from(self.audit_log_maxage)),
        });
        let log = log.with_context(|| format!("--audit-log-path: open {}", path.display()))?;
        Ok(Some(Audit::new(policy, log)))
    }
}
