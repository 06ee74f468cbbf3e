//! Which lists are told, and when.
