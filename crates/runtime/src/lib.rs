//! Informers, indexed caches, queues, controller loop, leases, events, health, metrics, shutdown.
