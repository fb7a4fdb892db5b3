//! A generic Kubernetes API server; knows no Karmada kind.
