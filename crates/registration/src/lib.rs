//! Joining a member in Push mode, registering one in Pull mode, and letting it go again: what has to
//! stand in the member, what in the control plane, in which order. Works on two connections; who asks for
//! it is up to others.

mod credentials;
mod join;
mod member;
mod objects;
mod register;
mod unjoin;

pub use join::{Access, Join, join};
pub use member::{Reported, cluster_id};
pub use register::register;
pub use unjoin::{Unjoin, dismiss, unjoin};

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::names::dns1123_label;

/// Longest name of a cluster: with its prefix it names a namespace.
const LONGEST_NAME: usize = 48;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("invalid cluster name({name}): {problem}")]
    InvalidName { name: String, problem: String },
    #[error("the cluster ID {id} or the cluster name {name} has been registered")]
    Registered { id: String, name: String },
    #[error(
        "the name {name} is taken by another cluster, whose id is {id}; give this one another --cluster-name"
    )]
    NameTaken { name: String, id: String },
    #[error(
        "this cluster, whose id is {id}, is registered as {name} already; start the agent with --cluster-name={name}, or unjoin {name} first"
    )]
    RegisteredAs { id: String, name: String },
    #[error(
        "the cluster {0} is being removed from the control plane; start the agent again when it is gone"
    )]
    Leaving(String),
    #[error("failed to create cluster({0}) object. error: cluster({0}) already exist")]
    Exists(String),
    #[error("no cluster object {0} found in karmada control Plane")]
    NoCluster(String),
    #[error(
        "cluster {0} is a Pull mode member cluster, please use command `unregister` if you want to continue unregistering the cluster"
    )]
    IsPull(String),
    #[error("the token of service account {0} was not issued within 30 s")]
    NoToken(String),
    #[error(
        "the namespace {0} of an earlier registration is still being deleted in the member after 60 s; see what holds it: kubectl describe namespace {0}"
    )]
    NamespaceTerminating(String),
    #[error(
        "the secret {0} of an earlier registration does not go; see what holds it: kubectl describe secret"
    )]
    SecretInTheWay(String),
    #[error("timed out after {seconds} s waiting for the cluster object {name} to be deleted")]
    StillThere { name: String, seconds: u64 },
    #[error("{attempt}")]
    Request { attempt: String, source: karmada_client::Error },
}

/// Adds what was attempted to a refused request.
fn attempting(attempt: impl Into<String>) -> impl FnOnce(karmada_client::Error) -> Error {
    let attempt = attempt.into();
    move |source| Error::Request { attempt, source }
}

/// Refuses what cannot be the name of a cluster.
pub fn check_name(name: &str) -> Result<(), Error> {
    let refuse = |problem: String| Err(Error::InvalidName { name: name.to_owned(), problem });
    if name.is_empty() {
        return refuse("must be not empty".to_owned());
    }
    if name.len() > LONGEST_NAME {
        return refuse(format!("must be no more than {LONGEST_NAME} characters"));
    }
    match dns1123_label(name) {
        problems if problems.is_empty() => Ok(()),
        problems => refuse(problems.join(",")),
    }
}

fn clusters() -> Gvr {
    Gvr::new("cluster.karmada.io", "v1alpha1", "clusters")
}

fn core(resource: &str) -> Gvr {
    Gvr::new("", "v1", resource)
}

fn rbac(resource: &str) -> Gvr {
    Gvr::new("rbac.authorization.k8s.io", "v1", resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_of_at_most_48_characters() {
        let long = "a".repeat(49);
        let cases = [
            ("member1", ""),
            ("", "invalid cluster name(): must be not empty"),
            (long.as_str(), "must be no more than 48 characters"),
            (
                "Member_9",
                "invalid cluster name(Member_9): a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
        ];
        for (name, expected) in cases {
            let found = check_name(name).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(
                found.ends_with(expected) && found.is_empty() == expected.is_empty(),
                "{found}"
            );
        }
    }
}
