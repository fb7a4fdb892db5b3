//! Karmada's controllers, grouped by what they are about and listed in one table ([`registry`]).
//!
//! | group | what it keeps true |
//! |---|---|
//! | [`propagation`] | what policies select is bound, what bindings want stands in Works, and Works stand in the members |
//! | `status` | what became of them comes back: into Works, bindings, templates |
//! | [`members`] | every joined cluster has a client, caches and a lane of its own |
//! | `failover` | workloads leave clusters that they must leave, and no copy goes before its replacement is healthy |
//! | `quota` | clusters have their part of federated quotas, and what is used is known |
//! | `autoscaling` | workloads have the size that the clock or their metrics ask for |
//! | `services` | pods of one cluster serve those of others |
//! | `rebalance` | workloads are placed anew when somebody asks |
//! | `replicas_sync` | templates of autoscaled workloads ask for what the members run |
//! | `scale_target` | replicas of autoscaled workloads are left to the members |
//! | [`cluster_api`] | what a Cluster API has provisioned is joined |
//! | `agent_csr_approving` | agents of Pull clusters get the certificates they may have |
//! | [`agent`] | the same for one cluster, from inside it |
//! | `cluster` | Clusters are true to the clusters they stand for: health, capacity, taints |

pub mod agent;
mod agent_csr_approving;
mod autoscaling;
mod cluster;
pub mod cluster_api;
pub mod context;
pub mod explain;
mod failover;
mod failures;
pub mod interpretation;
pub mod members;
pub mod propagation;
mod quota;
mod rebalance;
pub mod registry;
mod replicas_sync;
mod scale_target;
mod services;
mod status;
