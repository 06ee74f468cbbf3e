//! A peer with the secret that says what no correct one says about exported memory. A proxy on the
//! control link says it in the name of a correct peer. Whatever it is, nothing outside exports is
//! read or written, another session moves its bytes on, and memory stays bounded.

mod arena;
mod breaches;
mod flooding;
mod refusals;
mod scene;
mod turns;
mod words;
