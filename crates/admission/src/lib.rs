//! Defaulting and validation of Karmada kinds as functions of values.
