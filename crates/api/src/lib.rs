//! The kinds of Karmada: types, labels, derived names, conditions, event reasons, CRDs.
