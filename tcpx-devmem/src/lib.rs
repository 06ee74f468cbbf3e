//! The kernel's own device-memory TCP: what a transport over it is made of.
//!
//! - [`netlink`] is how the kernel is asked; [`nic`] what it says of a NIC.
//!
//! This crate never waits without a deadline, never prints, and trusts no number from the kernel.

pub mod netlink;
pub mod nic;
