//! The table of controllers: names as `kube-controller-manager --controllers` spells them, how to
//! start each, and where it runs unless told otherwise.

use crate::{
    Plane, bootstrap_signer, cluster_role_aggregation, csr_approving, csr_cleaner, csr_signing,
    garbage_collector, namespace, root_ca_publisher, service_account, service_account_token,
    token_cleaner, ttl_after_finished,
};

/// What the API server is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A control plane that runs no workloads of its own.
    Plane,
    /// A cluster that runs workloads.
    Member,
}

/// One controller.
#[derive(Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    /// The short name of older versions.
    pub alias: &'static str,
    pub on_in_plane: bool,
    pub on_in_member: bool,
    start: fn(&Plane),
}

const fn entry(
    name: &'static str,
    alias: &'static str,
    on_in_plane: bool,
    on_in_member: bool,
    start: fn(&Plane),
) -> Entry {
    Entry { name, alias, on_in_plane, on_in_member, start }
}

#[rustfmt::skip]
pub const CONTROLLERS: &[Entry] = &[
    entry("namespace-controller", "namespace", true, true, namespace::start),
    entry("garbage-collector-controller", "garbagecollector", true, true, garbage_collector::start),
    entry("serviceaccount-token-controller", "serviceaccount-token", true, true, service_account_token::start),
    entry("ttl-after-finished-controller", "ttl-after-finished", true, true, ttl_after_finished::start),
    entry("bootstrap-signer-controller", "bootstrapsigner", true, true, bootstrap_signer::start),
    entry("token-cleaner-controller", "tokencleaner", true, true, token_cleaner::start),
    entry("certificatesigningrequest-cleaner-controller", "csrcleaner", true, true, csr_cleaner::start),
    entry("certificatesigningrequest-signing-controller", "csrsigning", true, true, csr_signing::start),
    entry("certificatesigningrequest-approving-controller", "csrapproving", true, true, csr_approving::start),
    entry("clusterrole-aggregation-controller", "clusterrole-aggregation", true, true, cluster_role_aggregation::start),
    entry("serviceaccount-controller", "serviceaccount", false, true, service_account::start),
    entry("root-ca-certificate-publisher-controller", "root-ca-cert-publisher", false, true, root_ca_publisher::start),
];

/// Starts the controllers of a role that `list` leaves on. The list is that of `--controllers`:
/// `*` stands for the defaults, `name` turns one on, `-name` turns one off, the first word wins.
pub fn start(plane: &Plane, role: Role, list: &[String]) {
    for entry in CONTROLLERS.iter().filter(|entry| is_enabled(entry, role, list)) {
        tracing::debug!(controller = entry.name, "starting");
        (entry.start)(plane);
    }
}

fn is_enabled(entry: &Entry, role: Role, list: &[String]) -> bool {
    let named = |word: &str| word == entry.name || word == entry.alias;
    for word in list {
        match word.strip_prefix('-') {
            Some(word) if named(word) => return false,
            None if named(word) => return true,
            _ => {}
        }
    }
    let by_default = match role {
        Role::Plane => entry.on_in_plane,
        Role::Member => entry.on_in_member,
    };
    by_default && (list.is_empty() || list.iter().any(|word| word == "*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_controllers_turns_them_on_and_off() {
        // (list, namespace in a plane, serviceaccount in a plane)
        let cases: [(&[&str], bool, bool); 6] = [
            (&[], true, false),
            (&["*"], true, false),
            (&["*", "-namespace"], false, false),
            (&["namespace-controller"], true, false),
            (&["serviceaccount"], false, true),
            (&["-namespace-controller", "namespace-controller", "*"], false, false),
        ];
        let find = |alias| CONTROLLERS.iter().find(|entry| entry.alias == alias).unwrap();
        for (list, namespace, account) in cases {
            let words: Vec<String> = list.iter().map(|word| (*word).to_owned()).collect();
            let enabled = |alias| is_enabled(find(alias), Role::Plane, &words);
            assert_eq!(enabled("namespace"), namespace, "{list:?}");
            assert_eq!(enabled("serviceaccount"), account, "{list:?}");
        }
        assert!(is_enabled(find("serviceaccount"), Role::Member, &[]));
    }
}
