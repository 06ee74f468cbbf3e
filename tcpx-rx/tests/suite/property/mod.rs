//! Properties of the public functions, each a plain function that panics when it fails.
//!
//! The property tests feed them with generated values, the fuzz targets with bytes. Each file ends
//! in a `run` that turns any bytes into input for all of its properties.

pub(crate) mod cmsg;
pub(crate) mod descriptors;
pub(crate) mod tokens;
