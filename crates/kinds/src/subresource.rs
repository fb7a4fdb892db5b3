//! Semantics of the subresources that are more than a view: scale, binding, eviction, approval.
