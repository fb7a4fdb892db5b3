//! A Kubernetes cluster without machines: the API server in its `member` role on the memory store,
//! simulated nodes and pods, and the controllers that make workloads live.

pub mod workloads;
