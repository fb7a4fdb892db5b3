//! Options of requests: list, create, update, patch, delete and logs.

use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::names::metadata::validate_field_manager;
use karmada_apimachinery::{Value, json};

const FIELD_VALIDATION: [&str; 4] = ["", "Ignore", "Strict", "Warn"];
const PROPAGATION: [&str; 4] = ["Foreground", "Background", "Orphan", "nil"];

/// What a list or watch asks for, as far as it can be wrong.
#[derive(Debug, Clone, Default)]
pub struct ListQuery<'a> {
    pub watch: bool,
    pub resource_version: &'a str,
    pub resource_version_match: &'a str,
    pub continue_token: &'a str,
    pub send_initial_events: Option<bool>,
}

/// Checks the options of a list or watch.
pub fn validate_list_options(query: &ListQuery<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("resourceVersionMatch");
    let wanted = query.resource_version_match;
    let forbid = |detail: &str| FieldError::forbidden(&path, detail);
    if query.watch {
        if query.send_initial_events.is_some() && wanted != "NotOlderThan" {
            errors.push(forbid(
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if wanted.is_empty() {
            return errors;
        }
        if query.send_initial_events.is_none() {
            errors.push(forbid(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if wanted != "NotOlderThan" {
            errors.push(FieldError::not_supported(&path, wanted, &["NotOlderThan"]));
        }
        if !query.continue_token.is_empty() {
            errors.push(forbid("resourceVersionMatch is forbidden when continue is provided"));
        }
        return errors;
    }
    if !wanted.is_empty() {
        if query.resource_version.is_empty() {
            errors.push(forbid(
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !query.continue_token.is_empty() {
            errors.push(forbid("resourceVersionMatch is forbidden when continue is provided"));
        }
        if !["Exact", "NotOlderThan"].contains(&wanted) {
            let supported = ["Exact", "NotOlderThan", ""];
            errors.push(FieldError::not_supported(&path, wanted, &supported));
        }
        if wanted == "Exact" && query.resource_version == "0" {
            errors.push(forbid(
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if query.send_initial_events.is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden(&Path::new("sendInitialEvents"), detail));
    }
    errors
}

/// What a write asks for besides its object.
#[derive(Debug, Clone, Default)]
pub struct WriteQuery<'a> {
    pub field_manager: &'a str,
    pub dry_run: &'a [String],
    pub field_validation: &'a str,
}

/// Checks the options of a create or update.
pub fn validate_write_options(query: &WriteQuery<'_>) -> Vec<FieldError> {
    let mut errors = validate_field_manager(query.field_manager, &Path::new("fieldManager"));
    errors.extend(validate_dry_run(query.dry_run));
    if !FIELD_VALIDATION.contains(&query.field_validation) {
        errors.push(FieldError::not_supported(
            &Path::new("fieldValidation"),
            query.field_validation,
            &FIELD_VALIDATION,
        ));
    }
    errors
}

/// Checks the options of a patch; `apply` says that it is a server-side apply.
pub fn validate_patch_options(
    query: &WriteQuery<'_>,
    apply: bool,
    force: Option<bool>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if apply && query.field_manager.is_empty() {
        let detail = "is required for apply patch";
        errors.push(FieldError::required(&Path::new("fieldManager"), detail));
    }
    if !apply && force.is_some() {
        let detail = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden(&Path::new("force"), detail));
    }
    errors.extend(validate_write_options(query));
    errors
}

fn validate_dry_run(dry_run: &[String]) -> Option<FieldError> {
    let known = dry_run.iter().all(|value| value == "All");
    (!known).then(|| FieldError::not_supported(&Path::new("dryRun"), json!(dry_run), &["All"]))
}

/// Checks the options of a delete as they stand in the body or were read from the query.
pub fn validate_delete_options(options: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let set = |field: &str| options.get(field).filter(|value| !value.is_null());
    let policy = set("propagationPolicy").and_then(Value::as_str);
    let path = Path::new("propagationPolicy");
    if let (Some(policy), Some(_)) = (policy, set("orphanDependents")) {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(&path, policy, detail));
    }
    if let Some(policy) = policy.filter(|policy| !PROPAGATION[..3].contains(policy)) {
        errors.push(FieldError::not_supported(&path, policy, &PROPAGATION));
    }
    let dry_run: Vec<String> = set("dryRun")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    errors.extend(validate_dry_run(&dry_run));
    let unsafe_read = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if set(unsafe_read).and_then(Value::as_bool) == Some(true) {
        let path = Path::new(unsafe_read);
        for other in [
            "dryRun",
            "propagationPolicy",
            "orphanDependents",
            "gracePeriodSeconds",
            "preconditions",
        ] {
            let given = if other == "dryRun" { !dry_run.is_empty() } else { set(other).is_some() };
            if given {
                let detail = format!("cannot be set together with .{other}");
                errors.push(FieldError::invalid(&path, true, detail));
            }
        }
    }
    errors
}

/// What a request for logs asks for, as far as it can be wrong.
#[derive(Debug, Clone, Default)]
pub struct LogQuery<'a> {
    pub tail_lines: Option<i64>,
    pub limit_bytes: Option<i64>,
    pub since_seconds: Option<i64>,
    pub has_since_time: bool,
    pub stream: Option<&'a str>,
}

/// Checks the options of a request for logs.
pub fn validate_log_options(query: &LogQuery<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut refuse = |name: &str, value: i64, detail: &str| {
        errors.push(FieldError::invalid(&Path::new(name), value, detail));
    };
    if let Some(lines) = query.tail_lines.filter(|lines| *lines < 0) {
        refuse("tailLines", lines, "must be greater than or equal to 0");
    }
    if let Some(bytes) = query.limit_bytes.filter(|bytes| *bytes < 1) {
        refuse("limitBytes", bytes, "must be greater than 0");
    }
    match query.since_seconds {
        Some(seconds) if !query.has_since_time && seconds < 1 => {
            refuse("sinceSeconds", seconds, "must be greater than 0");
        }
        Some(_) if query.has_since_time => {
            // Compat: the empty path prints as brackets.
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden(&Path::new("[]"), detail));
        }
        _ => {}
    }
    match query.stream {
        None | Some("All") => {}
        Some(stream) => {
            let streams = ["All", "Stderr", "Stdout"];
            if !streams.contains(&stream) {
                let shown = Shown::from(stream);
                errors.push(FieldError::not_supported(&Path::new("stream"), shown, &streams));
            }
            if query.tail_lines.is_some() {
                let detail = "`tailLines` and specific `stream` are mutually exclusive for now";
                errors.push(FieldError::forbidden(&Path::new("[]"), detail));
            }
        }
    }
    errors
}
