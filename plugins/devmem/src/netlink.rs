//! Requests to the kernel over generic netlink, each with a deadline.
//!
//! - `socket`: a socket for one family, and a refusal in the kernel's words
//! - `message`: messages and attributes: encoding, and decoding that trusts no length. Pure

pub(crate) mod message;
mod socket;

pub use message::{Attribute, Request, attributes, generic_attributes, nested, text};
pub use socket::{Netlink, Refusal};
