//! Names and amounts of resources: limits and requests of containers, pods and quotas.

use std::collections::BTreeSet;

use karmada_apimachinery::field::{ErrorType, FieldError, Shown};
use karmada_apimachinery::names;
use karmada_apimachinery::quantity::Quantity;

use crate::validation::place::{At, Errors};

const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";

/// What a resource name is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameKind {
    Any,
    Container,
    Pod,
    Quota,
}

/// The amount at a place; what is no amount was refused when the object was decoded.
pub(crate) fn quantity(at: &At<'_>) -> Option<Quantity> {
    at.is_set().then(|| Quantity::from_value(at.value).ok()).flatten()
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

fn is_quota_compute(name: &str) -> bool {
    let bare = ["requests.", "limits."].iter().find_map(|prefix| name.strip_prefix(prefix));
    COMPUTE.contains(&bare.unwrap_or(name)) || name == "requests.storage"
}

/// Names that quotas know without a domain.
pub(crate) fn is_standard_quota_name(name: &str) -> bool {
    is_quota_compute(name)
        || COUNTED.contains(&name)
        || is_huge_pages(name)
        || name.starts_with("requests.hugepages-")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS)
        && names::qualified_name(&format!("{REQUESTS}{name}")).is_empty()
}

pub(crate) fn allows_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

pub(crate) fn check_name(at: &At<'_>, name: &str, kind: NameKind, errs: &mut Errors) {
    let before = errs.len();
    errs.messages_for(at, name, &names::qualified_name(name));
    let bare = !name.contains('/');
    if errs.len() == before && bare && !is_standard_quota_name(name) && name != "storage" {
        errs.invalid(at, name, "must be a standard resource type or fully qualified");
    }
    match kind {
        NameKind::Any => {}
        NameKind::Container if bare => {
            if !COMPUTE.contains(&name) && !is_huge_pages(name) {
                errs.invalid(at, name, "must be a standard resource for containers");
            }
        }
        NameKind::Container => {
            if !is_native(name) && !is_extended(name) {
                errs.invalid(at, name, "doesn't follow extended resource name standard");
            }
        }
        NameKind::Pod => {
            if errs.len() == before && !["cpu", "memory"].contains(&name) && !is_huge_pages(name) {
                errs.push(FieldError::not_supported(
                    &at.path,
                    name,
                    &["cpu", HUGE_PAGES, "memory"],
                ));
            }
        }
        NameKind::Quota => {
            if bare && !is_standard_quota_name(name) {
                errs.invalid(at, name, "must be a standard resource for quota");
            }
        }
    }
}

/// An amount of a resource: not negative, and whole where the resource is counted.
pub(crate) fn check_amount(at: &At<'_>, name: &str, errs: &mut Errors) {
    let Some(amount) = quantity(at) else { return };
    check_not_negative(at, errs);
    if (COUNTED.contains(&name) || is_extended(name)) && amount.nanos() % 1_000_000_000 != 0 {
        errs.invalid(at, amount.to_string(), "must be an integer");
    }
}

pub(crate) fn check_not_negative(at: &At<'_>, errs: &mut Errors) {
    if let Some(amount) = quantity(at).filter(|amount| amount.signum() < 0) {
        errs.invalid(at, amount.to_string(), "must be greater than or equal to 0");
    }
}

pub(crate) fn check_positive(at: &At<'_>, errs: &mut Errors) {
    if let Some(amount) = quantity(at).filter(|amount| amount.signum() <= 0) {
        errs.invalid(at, amount.to_string(), "must be greater than zero");
    }
}

/// An amount that is not negative when rounded to whole units.
pub(crate) fn check_basic(at: &At<'_>, errs: &mut Errors) {
    if let Some(amount) = quantity(at).filter(|amount| amount.value() < 0) {
        errs.invalid(at, amount.value(), "must be a valid resource quantity");
    }
}

fn check_huge_pages(at: &At<'_>, name: &str, errs: &mut Errors) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else { return };
    let Some(amount) = quantity(at) else { return };
    let divisible = Quantity::parse(size).is_ok_and(|size| {
        size.signum() > 0 && size.value() > 0 && amount.value() % size.value() == 0
    });
    if !divisible {
        let detail = format!("{amount} is not positive integer multiple of {name}");
        errs.invalid(at, amount.to_string(), detail);
    }
}

/// Limits, requests and claims of a container or pod.
pub(crate) fn check_requirements(
    requirements: &At<'_>,
    kind: NameKind,
    claims: &BTreeSet<&str>,
    errs: &mut Errors,
) {
    let limits = requirements.field("limits");
    let requests = requirements.field("requests");
    for (name, limit) in limits.entries() {
        check_name(&limit, name, kind, errs);
        check_amount(&limit, name, errs);
        check_huge_pages(&limit, name, errs);
    }
    for (name, request) in requests.entries() {
        check_name(&request, name, kind, errs);
        check_amount(&request, name, errs);
        let limit = quantity(&limits.field(name));
        match (quantity(&request), limit) {
            (Some(asked), Some(limit)) => {
                let relation = if !allows_overcommit(name) && asked != limit {
                    "equal to"
                } else if asked > limit {
                    "less than or equal to"
                } else {
                    ""
                };
                if !relation.is_empty() {
                    let detail = format!("must be {relation} {name} limit of {limit}");
                    errs.invalid(&requests, asked.to_string(), detail);
                }
            }
            (_, None) if !allows_overcommit(name) => {
                errs.required(&limits, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
        check_huge_pages(&request, name, errs);
    }
    let names = || limits.entries().chain(requests.entries()).map(|(name, _)| name);
    if names().any(is_huge_pages) && !names().any(|name| matches!(name, "cpu" | "memory")) {
        errs.forbidden(requirements, "HugePages require cpu or memory");
    }
    check_claim_names(&requirements.field("claims"), claims, errs);
}

fn check_claim_names(uses: &At<'_>, claims: &BTreeSet<&str>, errs: &mut Errors) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for used in uses.items() {
        let name = used.field("name").text();
        let request = used.field("request");
        if name.is_empty() {
            errs.required(&used, "");
            continue;
        }
        if seen.contains(name) {
            errs.push(FieldError::duplicate(&used.path, name));
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                errs.messages(&request, &names::dns1123_label(request.text()));
                key = format!("{name}/{}", request.text());
            }
            let prefix = format!("{name}/");
            if seen.contains(&key) {
                errs.push(FieldError::duplicate(&used.path, key.clone()));
            } else if request.is_empty() {
                for _ in seen.iter().filter(|other| other.starts_with(&prefix)) {
                    errs.push(FieldError::duplicate(&used.path, name));
                }
            }
            seen.insert(key);
        }
        if !claims.contains(name) {
            let known: Vec<&str> = claims.iter().copied().collect();
            let tail = if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", known.join(", "))
            };
            errs.push(FieldError {
                kind: ErrorType::NotFound,
                path: used.path.clone(),
                value: Shown::from(name),
                detail: format!("must be one of the names in pod.spec.resourceClaims{tail}"),
            });
        }
    }
}

/// Resources of a whole pod, which must cover those of its containers.
pub(crate) fn check_pod_resources(spec: &At<'_>, claims: &BTreeSet<&str>, errs: &mut Errors) {
    let resources = spec.field("resources");
    if !resources.is_set() {
        return;
    }
    if spec.at(&["os", "name"]).text() == "windows" {
        return errs.forbidden(&resources, "may not be set for a windows pod");
    }
    if resources.field("claims").is_set() {
        errs.forbidden(
            &resources.field("claims"),
            "claims may not be set for Resources at pod-level",
        );
    }
    check_requirements(&resources, NameKind::Pod, claims, errs);
    for (name, at) in resources.field("requests").entries() {
        let total = aggregate(spec, "requests", name);
        if let Some(own) = quantity(&at).filter(|own| total > *own) {
            let detail =
                format!("must be greater than or equal to aggregate container requests of {total}");
            errs.invalid(&at, own.to_string(), detail);
        }
    }
    for (name, at) in resources.field("limits").entries().filter(|(name, _)| is_huge_pages(name)) {
        let total = aggregate(spec, "limits", name);
        if let Some(own) = quantity(&at).filter(|own| total > *own) {
            let detail =
                format!("must be greater than or equal to aggregate container limits of {total}");
            errs.invalid(&at, own.to_string(), detail);
        }
    }
    for (i, container) in spec.field("containers").items().enumerate() {
        for (name, limit) in container.at(&["resources", "limits"]).entries() {
            let of_pod = quantity(&resources.field("limits").field(name));
            if let (Some(limit), Some(of_pod)) = (quantity(&limit), of_pod)
                && limit > of_pod
            {
                let path = resources.path.child("containers").index(i).key(name).child("limits");
                let detail = format!("must be less than or equal to pod limits of {of_pod}");
                errs.push(FieldError::invalid(&path, limit.to_string(), detail));
            }
        }
    }
}

/// What all containers of a pod need together: those that run at once add up, init containers
/// count with the sidecars started before them.
fn aggregate(spec: &At<'_>, list: &str, name: &str) -> Quantity {
    let of = |container: &At<'_>| {
        quantity(&container.at(&["resources", list, name]))
            .unwrap_or_else(|| Quantity::from_millis(0))
    };
    let mut total = Quantity::from_millis(0);
    for container in spec.field("containers").items() {
        total += &of(&container);
    }
    let mut sidecars = Quantity::from_millis(0);
    let mut peak = Quantity::from_millis(0);
    for container in spec.field("initContainers").items() {
        let own = of(&container);
        let running = &own + &sidecars;
        if container.field("restartPolicy").text() == "Always" {
            total += &own;
            sidecars += &own;
        }
        peak = peak.max(running);
    }
    total.max(peak)
}
