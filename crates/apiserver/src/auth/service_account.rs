//! How service accounts and nodes are named as users, and what groups that implies.

use std::collections::BTreeMap;

use super::Identity;

const USER_PREFIX: &str = "system:serviceaccount:";
const NODE_PREFIX: &str = "system:node:";
pub const ALL_GROUP: &str = "system:serviceaccounts";

/// Keys of a user's extra values that tell where a token came from.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
pub const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
pub const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
pub const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

pub fn user_name(namespace: &str, name: &str) -> String {
    format!("{USER_PREFIX}{namespace}:{name}")
}

pub fn groups(namespace: &str) -> Vec<String> {
    vec![ALL_GROUP.to_owned(), format!("{ALL_GROUP}:{namespace}")]
}

/// Splits a service account's user name into namespace and name.
pub fn split_user_name(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
    (is_dns_label(namespace) && is_dns_subdomain(name)).then_some((namespace, name))
}

/// The node a user name stands for.
pub fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_PREFIX).filter(|name| is_dns_subdomain(name))
}

/// The identity behind a service account; the common groups are not added here.
pub fn identity(namespace: &str, name: &str, uid: &str) -> Identity {
    Identity {
        user: user_name(namespace, name),
        uid: uid.to_owned(),
        groups: groups(namespace),
        extra: BTreeMap::new(),
    }
}

pub(super) fn is_dns_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

pub(super) fn is_dns_subdomain(text: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_of_service_accounts_split_only_when_well_formed() {
        let cases = [
            ("system:serviceaccount:ns:sa", Some(("ns", "sa"))),
            ("system:serviceaccount:ns:a.b", Some(("ns", "a.b"))),
            ("system:serviceaccount:n.s:sa", None),
            ("system:serviceaccount:ns:sa:x", None),
            ("system:serviceaccount:ns:", None),
            ("system:serviceaccount::sa", None),
            ("ann", None),
        ];
        for (user, expected) in cases {
            assert_eq!(split_user_name(user), expected, "{user}");
        }
    }
}
