//! The options of writes and deletions, read from query and body and checked as Kubernetes does.

use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::gvk::GroupKind;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};

use crate::call::Call;
use crate::http::query::Query;

/// What happens to fields nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    Create,
    Update,
    Patch { apply: bool },
}

#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    /// The manager named by the client; empty if none was.
    pub(crate) manager: String,
    pub(crate) force: bool,
    pub(crate) validation: FieldValidation,
}

impl WriteOptions {
    pub(crate) fn read(query: &Query, write: Write) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let dry_run = check_dry_run(query, &mut errors);
        let manager = query.get("fieldManager").unwrap_or_default().to_owned();
        let force = query.get("force").map(|force| force != "false" && force != "0");
        if let Write::Patch { apply } = write {
            let path = Path::new("fieldManager");
            if apply && manager.is_empty() {
                errors.push(FieldError::required(&path, "is required for apply patch"));
            } else if !apply && force.is_some() {
                let path = Path::new("force");
                errors
                    .push(FieldError::forbidden(&path, "may not be specified for non-apply patch"));
            }
        }
        check_manager(&manager, &mut errors);
        let validation = check_validation(query, &mut errors);
        if let Write::Patch { .. } = write {
            // Compat: patches report problems of the manager before those of dry runs.
            errors.sort_by_key(|error| error.path.as_str() == "dryRun");
        }
        let kind = match write {
            Write::Create => "CreateOptions",
            Write::Update => "UpdateOptions",
            Write::Patch { .. } => "PatchOptions",
        };
        refuse(kind, &errors)?;
        Ok(Self { dry_run, manager, force: force == Some(true), validation })
    }

    /// The manager a write is recorded under.
    pub(crate) fn manager_of(&self, call: &Call) -> String {
        if self.manager.is_empty() { call.agent() } else { self.manager.clone() }
    }
}

fn options_kind(kind: &str) -> GroupKind {
    GroupKind { group: "meta.k8s.io".to_owned(), kind: kind.to_owned() }
}

/// Answers 422 naming the options' kind if there are errors.
pub(crate) fn refuse(kind: &str, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&options_kind(kind), "", errors)) }
}

fn check_dry_run(query: &Query, errors: &mut Vec<FieldError>) -> bool {
    let asked = query.all("dryRun");
    dry_run_of(&asked, errors)
}

fn dry_run_of(asked: &[&str], errors: &mut Vec<FieldError>) -> bool {
    if asked.iter().any(|value| *value != "All") {
        let error = FieldError::not_supported(&Path::new("dryRun"), json!(asked), &["All"]);
        errors.push(error);
    }
    !asked.is_empty()
}

fn check_manager(manager: &str, errors: &mut Vec<FieldError>) {
    let path = Path::new("fieldManager");
    if manager.len() > 128 {
        errors.push(FieldError::too_long(&path, 128));
    }
    for (position, c) in manager.char_indices() {
        if c.is_control() || (c.is_whitespace() && c != ' ') {
            let detail = format!("invalid character U+{:04X} (at position {position})", c as u32);
            errors.push(FieldError::invalid(&path, manager, detail));
        }
    }
}

fn check_validation(query: &Query, errors: &mut Vec<FieldError>) -> FieldValidation {
    match query.get("fieldValidation").unwrap_or_default() {
        "Ignore" => FieldValidation::Ignore,
        "" | "Warn" => FieldValidation::Warn,
        "Strict" => FieldValidation::Strict,
        other => {
            let path = Path::new("fieldValidation");
            let known = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::not_supported(&path, Shown::from(other), &known));
            FieldValidation::Warn
        }
    }
}

/// How dependents of a deleted object fare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Background,
    Foreground,
    Orphan,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) policy: Option<Policy>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Reads the body, or the query where there is none.
    pub(crate) fn read(query: &Query, body: Option<&Value>) -> Result<Self, Status> {
        let body = body.cloned().unwrap_or_else(|| from_query(query));
        let mut errors = Vec::new();
        let orphan_dependents = body.bool_at(&["orphanDependents"]);
        let policy_path = Path::new("propagationPolicy");
        let policy = match body.str_at(&["propagationPolicy"]) {
            None => None,
            Some(text) if orphan_dependents.is_some() => {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid(&policy_path, text, detail));
                None
            }
            Some("Background") => Some(Policy::Background),
            Some("Foreground") => Some(Policy::Foreground),
            Some("Orphan") => Some(Policy::Orphan),
            Some(other) => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(&policy_path, other, &known));
                None
            }
        };
        let dry_run: Vec<&str> =
            body.list_at(&["dryRun"]).iter().map(|v| v.as_str().unwrap_or_default()).collect();
        let dry_run = dry_run_of(&dry_run, &mut errors);
        refuse("DeleteOptions", &errors)?;
        let precondition = |field: &str| body.str_at(&["preconditions", field]).map(str::to_owned);
        Ok(Self {
            grace_period: body.i64_at(&["gracePeriodSeconds"]),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            policy,
            orphan_dependents,
            dry_run,
        })
    }
}

fn from_query(query: &Query) -> Value {
    let mut body = json!({});
    if let Some(grace) = query.non_empty("gracePeriodSeconds").and_then(|g| g.parse::<i64>().ok()) {
        body["gracePeriodSeconds"] = grace.into();
    }
    if let Some(policy) = query.non_empty("propagationPolicy") {
        body["propagationPolicy"] = policy.into();
    }
    if let Some(orphan) = query.flag("orphanDependents") {
        body["orphanDependents"] = orphan.into();
    }
    let dry_run = query.all("dryRun");
    if !dry_run.is_empty() {
        body["dryRun"] = json!(dry_run);
    }
    body
}
