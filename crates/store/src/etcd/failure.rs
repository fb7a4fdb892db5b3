//! What a failed request means: whether it may be tried again, whether a write may have been made,
//! and how the store says it.

use crate::Error;
use crate::grpc::Failure;
use crate::grpc::wire::Malformed;

const RESOURCE_EXHAUSTED: u32 = 8;
const OUT_OF_RANGE: u32 = 11;
const UNAVAILABLE: u32 = 14;

pub(super) fn is_compacted(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { code: OUT_OF_RANGE, message } if message.contains("compacted"))
}

pub(super) fn is_future(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { code: OUT_OF_RANGE, message } if message.contains("future"))
}

/// Whether the same request may go through later or elsewhere.
pub(super) fn is_passing(failure: &Failure) -> bool {
    match failure {
        Failure::Unsent(_) => true,
        Failure::Lost(_) => false,
        Failure::Refused { code: UNAVAILABLE, .. } => true,
        Failure::Refused { code, message } => {
            *code == RESOURCE_EXHAUSTED && message.contains("too many requests")
        }
    }
}

/// Whether it is certain that a write was not made. A server that timed out has passed it on to
/// the others, who may have stored it.
pub(super) fn is_undone(failure: &Failure) -> bool {
    match failure {
        Failure::Unsent(_) => true,
        Failure::Lost(_) => false,
        Failure::Refused { message, .. } => {
            message.contains("no leader") || message.contains("too many requests")
        }
    }
}

/// A failure in the words of the store.
pub(super) fn explain(failure: Failure) -> Error {
    let reason = failure.to_string();
    match failure {
        Failure::Unsent(_) | Failure::Lost(_) => Error::Unavailable { reason },
        failure if is_passing(&failure) => Error::Unavailable { reason },
        Failure::Refused { .. } if reason.contains("space exceeded") => {
            Error::Full { path: "etcd".into() }
        }
        Failure::Refused { .. } if reason.contains("too large") => Error::TooLarge { reason },
        Failure::Refused { .. } => Error::io("ask etcd", std::io::Error::other(reason)),
    }
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Self::io("read an answer of etcd", malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_may_have_been_made_is_not_tried_again() {
        let refused = |code, message: &str| Failure::Refused { code, message: message.to_owned() };
        for (failure, undone) in [
            (Failure::Unsent("refused".into()), true),
            (Failure::Lost("broken pipe".into()), false),
            (refused(UNAVAILABLE, "etcdserver: no leader"), true),
            (refused(UNAVAILABLE, "etcdserver: request timed out"), false),
            (refused(UNAVAILABLE, "etcdserver: server stopped"), false),
            (refused(RESOURCE_EXHAUSTED, "etcdserver: too many requests"), true),
        ] {
            assert_eq!(is_undone(&failure), undone, "{failure}");
        }
    }
}
