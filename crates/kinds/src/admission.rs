//! Built-in admission steps of a member cluster, as functions of the pod or volume they change.
