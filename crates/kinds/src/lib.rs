//! The kinds built into Kubernetes 1.36: their resource table, defaults, update rules, validation and table columns, as functions of values.
