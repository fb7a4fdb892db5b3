//! The scheduler as a process: queue, cache of clusters, and the writing of results. Decisions are those of `scheduler-core`.
