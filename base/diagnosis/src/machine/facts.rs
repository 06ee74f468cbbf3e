//! Facts that no file contains, and that must be asked before the plugin is loaded.

use std::io;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Dialects of device memory TCP that the kernel supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialects {
    /// Google's, of the COS images of A3 hosts: options 97 to 99. The only one that plugin 3.1.9
    /// can use.
    pub google: bool,
    /// Mainline Linux, 6.12 and newer: options 78 to 80.
    pub mainline: bool,
}

/// Queries whose answers no file below `/proc` or `/sys` holds. Each is a few system calls that do
/// not wait. [`LiveFacts`](crate::LiveFacts) asks this machine; tests choose the answers.
pub trait Facts {
    /// Returns pairs of interface name and IPv4 address.
    ///
    /// # Errors
    /// Returns an error when the system does not list its interfaces.
    fn addresses(&self) -> io::Result<Vec<(String, Ipv4Addr)>>;

    /// Returns the dialects of device memory TCP.
    ///
    /// # Errors
    /// Returns an error when no TCP socket can be made.
    fn dialects(&self) -> io::Result<Dialects>;

    /// Looks for libcuda.so.1 as the dynamic linker does, without initialising CUDA.
    ///
    /// # Errors
    /// Returns the linker's words.
    fn find_cuda(&self) -> Result<(), String>;
}
