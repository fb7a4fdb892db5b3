//! The interpreter operations: native, Lua, third-party scripts; the webhook behind a trait.
