//! A peer with the secret that sends frames about exported memory as no correct peer does. A proxy
//! on the control link sends them in the name of a correct peer. Whatever it is, nothing outside
//! exports is read or written, another session moves its bytes on, and memory stays bounded.

mod arena;
mod breaches;
mod fairness;
mod flooding;
mod frames;
mod refusals;
mod target;
