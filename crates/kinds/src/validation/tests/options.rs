use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::json;

use super::super::{
    ListQuery, LogQuery, WriteQuery, validate_delete_options, validate_list_options,
    validate_log_options, validate_patch_options,
};

fn shown(errors: Vec<FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn list_options_fit_together() {
    let list = ListQuery::default();
    assert_eq!(shown(validate_list_options(&list)), Vec::<String>::new());
    assert_eq!(
        shown(validate_list_options(&ListQuery {
            resource_version_match: "Exact",
            ..list.clone()
        })),
        [
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        ]
    );
    let watch = ListQuery { watch: true, send_initial_events: Some(true), ..list };
    assert_eq!(
        shown(validate_list_options(&watch)),
        [
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        ]
    );
}

#[test]
fn writes_and_deletes_refuse_unknown_options() {
    let dry_run = ["Some".to_owned()];
    let query = WriteQuery { dry_run: &dry_run, field_validation: "Harsh", ..Default::default() };
    assert_eq!(
        shown(validate_patch_options(&query, true, None)),
        [
            "fieldManager: Required value: is required for apply patch",
            r#"dryRun: Unsupported value: ["Some"]: supported values: "All""#,
            r#"fieldValidation: Unsupported value: "Harsh": supported values: "", "Ignore", "Strict", "Warn""#
        ]
    );
    assert_eq!(
        shown(validate_delete_options(
            &json!({"propagationPolicy": "Orphan", "orphanDependents": true})
        )),
        [
            r#"propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set"#
        ]
    );
}

#[test]
fn logs_start_at_one_point() {
    let query = LogQuery { since_seconds: Some(1), has_since_time: true, ..Default::default() };
    assert_eq!(
        shown(validate_log_options(&query)),
        ["[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"]
    );
}
