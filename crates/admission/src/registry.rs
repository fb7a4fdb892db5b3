//! `ResourceRegistry` as the API server handles it: validation only; status is written with the rest.

use karmada_api::search::{BackendStoreConfig, ResourceRegistry, ResourceSelector};
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::gvk::GroupVersion;
use karmada_apimachinery::names::{
    self, dns1123_label, validate_object_meta, validate_object_meta_update,
};

use crate::rules::each;
use crate::rules::placement::check_affinity;
use crate::url;

pub fn validate_create(registry: &ResourceRegistry) -> Vec<FieldError> {
    let metadata = karmada_apimachinery::to_value(&registry.metadata).unwrap_or_default();
    let mut errors =
        validate_object_meta(&metadata, false, names::subdomain_name, &Path::new("metadata"));
    let path = Path::new("spec");
    let spec = &registry.spec;
    errors.extend(check_affinity(Some(&spec.target_cluster), &path.child("targetCluster")));
    for (index, selector) in spec.resource_selectors.iter().enumerate() {
        errors.extend(check_selector(selector, &path.child("resourceSelectors").index(index)));
    }
    let store_path = path.child("backendStore");
    errors.extend(check_store(spec.backend_store.as_ref(), &store_path));
    errors
}

pub fn validate_update(registry: &ResourceRegistry, old: &ResourceRegistry) -> Vec<FieldError> {
    let meta =
        |r: &ResourceRegistry| karmada_apimachinery::to_value(&r.metadata).unwrap_or_default();
    let mut errors =
        validate_object_meta_update(&meta(registry), &meta(old), &Path::new("metadata"));
    errors.extend(validate_create(registry));
    errors
}

fn check_selector(selector: &ResourceSelector, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let version = &*selector.api_version;
    if !version.is_empty() && GroupVersion::parse(version).is_none() {
        let message = format!("unexpected GroupVersion string: {version}");
        errors.push(FieldError::invalid(&path.child("apiVersion"), version, message));
    }
    let namespace = &*selector.namespace;
    if !namespace.is_empty() {
        errors.extend(each(&path.child("namespace"), namespace, dns1123_label(namespace)));
    }
    errors
}

fn check_store(store: Option<&BackendStoreConfig>, path: &Path) -> Vec<FieldError> {
    let Some(search) = store.and_then(|store| store.open_search.as_ref()) else {
        return Vec::new();
    };
    let path = path.child("openSearch").child("addresses");
    search
        .addresses
        .iter()
        .enumerate()
        .filter_map(|(index, address)| {
            let message = match url::parse(address) {
                Err(problem) => problem,
                Ok(url) if ["http", "https"].contains(&&*url.scheme) && !url.host.is_empty() => {
                    return None;
                }
                Ok(_) => {
                    "must be a valid http or https URL with non-empty scheme and host".to_owned()
                }
            };
            Some(FieldError::invalid(&path.index(index), &**address, message))
        })
        .collect()
}
