//! Requests to the kernel over generic netlink, each with a deadline.
//!
//! - `socket`: a socket for one family, and a refusal in the kernel's words
//! - `message`: messages and attributes: encoding, and decoding that trusts no length. Pure
//! - `any_answer`: what holds for any bytes in an answer, for properties and a fuzz target

#[cfg(any(test, fuzzing))]
pub(crate) mod any_answer;
mod message;
mod socket;

pub use message::{Attribute, Request, attributes, generic_attributes, nested, text};
pub use socket::{Netlink, Refusal};
