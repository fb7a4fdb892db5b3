//! `karmadactl`: one file per command. Speaks the Kubernetes API and nothing else.
