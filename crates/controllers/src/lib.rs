//! Controllers, grouped by what they are about and listed in one table per group.
//!
//! | group | what it keeps true |
//! |---|---|
//! | [`control_plane`] | what every Kubernetes API promises: namespaces end empty, dependents end with their owners, tokens and certificates are issued |

pub mod control_plane;
