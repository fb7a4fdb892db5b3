//! What makes a manifest of a built-in kind invalid, worded as Kubernetes words it.
