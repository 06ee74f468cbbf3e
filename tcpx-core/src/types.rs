//! Small types that every room uses.

pub(crate) mod peer_name;
