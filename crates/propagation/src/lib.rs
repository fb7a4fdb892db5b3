//! Which policy claims an object; building bindings and Works; overrides; status aggregation.
