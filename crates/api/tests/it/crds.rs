//! The definitions and their checked-in text.

use std::path::PathBuf;

use karmada_api::crd::{Crd, crds, find, host_crds, undescribed_fields, with_conversion_webhook};
use karmada_apimachinery::crd::{NoRules, apply_defaults, prepare_create, validate_create};
use karmada_apimachinery::{Value, json};

/// The definitions of a control plane and of the cluster that hosts one.
fn all() -> impl Iterator<Item = &'static Crd> {
    crds().iter().chain(host_crds())
}

fn file(crd: &Crd) -> PathBuf {
    let group = crd.object["spec"]["group"].as_str().unwrap();
    let plural = crd.object["spec"]["names"]["plural"].as_str().unwrap();
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crds").join(format!("{group}_{plural}.yaml"))
}

/// Run with `UPDATE_CRDS=1` to write the files anew.
#[test]
fn checked_in_text_equals_the_types() {
    let update = std::env::var_os("UPDATE_CRDS").is_some();
    for crd in all() {
        let text = serde_saphyr::to_string(&crd.object).unwrap();
        if update {
            std::fs::write(file(crd), &text).unwrap();
            continue;
        }
        let stored: Value = serde_saphyr::from_str(crd.yaml).unwrap();
        assert_eq!(stored, crd.object, "{}: run with UPDATE_CRDS=1", crd.name);
    }
}

#[test]
fn every_kind_is_there_and_every_field_explained() {
    assert_eq!(crds().len(), 19);
    for crd in all() {
        for version in crd.object["spec"]["versions"].as_array().unwrap() {
            let schema = &version["schema"]["openAPIV3Schema"];
            assert_eq!(undescribed_fields(schema), Vec::<String>::new(), "{}", crd.name);
        }
    }
}

#[test]
fn definitions_pass_the_rules_for_definitions() {
    for crd in all() {
        let mut definition = crd.object.clone();
        apply_defaults(&mut definition);
        prepare_create(&mut definition);
        assert_eq!(validate_create(&definition, &NoRules), Vec::new(), "{}", crd.name);
    }
}

#[test]
fn exactly_one_version_is_stored() {
    for crd in all() {
        let versions = crd.object["spec"]["versions"].as_array().unwrap();
        let stored = versions.iter().filter(|version| version["storage"] == true).count();
        assert_eq!(stored, 1, "{}", crd.name);
    }
}

#[test]
fn bindings_can_be_told_who_converts_them() {
    let crd = find("resourcebindings.work.karmada.io").unwrap();
    let object = with_conversion_webhook(crd, json!({"url": "https://x/convert"}));
    assert_eq!(object["spec"]["conversion"]["strategy"], "Webhook");
    assert_eq!(object["spec"]["conversion"]["webhook"]["conversionReviewVersions"], json!(["v1"]));
}
