//! The built binary, judged by programs we did not write.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admission;
mod agent;
mod aggregation;
mod backup;
mod client_go;
mod cluster_api;
mod crds;
mod docs;
mod ecosystem;
mod encryption;
mod environment;
#[path = "../../../store/tests/it/servers.rs"]
mod etcd_servers;
mod golden;
mod helm;
mod kinds;
#[path = "../../../store/tests/it/kms_plugin.rs"]
#[allow(dead_code, reason = "the store's own tests ask more of it")]
mod kms_plugin;
mod kube_rs;
mod kubectl;
mod member;
mod process;
mod python_client;
mod reach_through;
mod real;
mod real_members;
mod replicas;
mod scenarios;
mod search;
mod server;
mod up;
mod walkthrough;
mod webhook;
