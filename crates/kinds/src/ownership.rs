//! What each endpoint of a built-in kind cannot reach, so that writing there makes nobody its owner.

type Fields = &'static [&'static [&'static str]];

const STATUS: Fields = &[&["status"]];
const SPEC: Fields = &[&["spec"]];
const SPEC_AND_METADATA: Fields = &[&["spec"], &["metadata"]];

/// Kinds whose status endpoint leaves all metadata alone.
const STATUS_WITHOUT_METADATA: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("apiregistration.k8s.io", "APIService"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("internal.apiserver.k8s.io", "StorageVersion"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("resource.k8s.io", "DeviceTaintRule"),
    ("resource.k8s.io", "ResourceClaim"),
    ("resource.k8s.io", "ResourcePoolStatusRequest"),
    ("scheduling.k8s.io", "PodGroup"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("storagemigration.k8s.io", "StorageVersionMigration"),
];

/// The fields, with all below them, that writes to an object (`subresource` empty) or through one of
/// its subresources do not reach. For kinds without a status the answer does no harm.
pub fn reset_fields(group: &str, kind: &str, subresource: &str) -> Fields {
    match (group, kind, subresource) {
        ("certificates.k8s.io", "CertificateSigningRequest", "") => &[&["spec"], &["status"]],
        ("certificates.k8s.io", "CertificateSigningRequest", "status") => {
            &[&["spec"], &["status", "conditions"]]
        }
        ("certificates.k8s.io", "CertificateSigningRequest", "approval") => {
            &[&["spec"], &["status", "certificate"]]
        }
        ("apps", "Deployment", "status") => &[&["spec"], &["metadata", "labels"]],
        ("", "Pod", "status") => {
            &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
        }
        ("", "Pod", "ephemeralcontainers" | "resize") => &[&["metadata"], &["status"]],
        (_, _, "" | "finalize") => STATUS,
        (group, kind, "status") if STATUS_WITHOUT_METADATA.contains(&(group, kind)) => {
            SPEC_AND_METADATA
        }
        (_, _, "status") => SPEC,
        _ => &[],
    }
}

/// As [`reset_fields`], for custom resources; `has_status` says whether they declare the status
/// subresource.
pub fn custom_reset_fields(subresource: &str, has_status: bool) -> Fields {
    match subresource {
        _ if !has_status => &[],
        "" => STATUS,
        "status" => SPEC_AND_METADATA,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_and_status_are_out_of_reach_of_each_other() {
        let cases: &[(&str, &str, &str, Fields)] = &[
            ("apps", "StatefulSet", "", STATUS),
            ("apps", "StatefulSet", "status", SPEC),
            ("apps", "Deployment", "status", &[&["spec"], &["metadata", "labels"]]),
            ("storage.k8s.io", "VolumeAttachment", "status", SPEC_AND_METADATA),
            ("certificates.k8s.io", "CertificateSigningRequest", "", &[&["spec"], &["status"]]),
            ("apps", "Deployment", "scale", &[]),
        ];
        for (group, kind, subresource, expected) in cases {
            assert_eq!(reset_fields(group, kind, subresource), *expected, "{kind}/{subresource}");
        }
        assert_eq!(custom_reset_fields("", false), &[] as Fields);
        assert_eq!(custom_reset_fields("status", true), SPEC_AND_METADATA);
    }
}
