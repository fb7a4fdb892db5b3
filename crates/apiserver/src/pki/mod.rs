//! The server's own certificates and keys: made once, kept under the data directory, renewed before
//! they expire, swapped into running listeners without a restart.
