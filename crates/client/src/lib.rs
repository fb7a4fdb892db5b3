//! Kubernetes client over HTTPS and over an in-process transport.
