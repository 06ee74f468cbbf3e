//! The exported functions, under the names and with the types of `cuda.h`. Each is as unsafe as
//! the driver's own: pointers are what the manual of the driver says.

mod context;
mod copies;
mod device;
mod errors;
mod events;
mod mapping;
mod memory;
mod modules;
mod pointer;
mod registering;
mod streams;
