//! Promises that hold for every kind at once.

mod nonsense;
