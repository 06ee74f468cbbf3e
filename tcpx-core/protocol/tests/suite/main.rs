//! Properties of the crate, through what it shows to other crates. Fuzz targets run the same ones.

mod any_peer;
mod any_wire;
mod decoders;
mod records;
mod stories;
