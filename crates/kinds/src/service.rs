//! When a Service takes or gives back cluster addresses and node ports; the allocator itself belongs to the server.
