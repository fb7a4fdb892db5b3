//! Filter, score, select and assign over a snapshot of clusters; returns placement and diagnosis.
