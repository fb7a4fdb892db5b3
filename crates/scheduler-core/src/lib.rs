//! Filter, score, select and assign over a snapshot of clusters; returns placement and diagnosis.

pub mod combination;
pub mod division;
pub mod resources;
