//! What has to be asked before the plugin is loaded, because no file tells it.

use std::io;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Which dialects of device memory TCP the kernel speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialects {
    /// Google's, of the COS images of A3 hosts: options 97 to 99. The only one that plugin 3.1.9
    /// can use.
    pub google: bool,
    /// Upstream Linux, 6.12 and newer: options 78 to 80.
    pub upstream: bool,
}

/// Questions whose answers no file below `/proc` or `/sys` holds. Each is a few system calls that
/// do not wait. [`LiveFacts`](crate::LiveFacts) asks this machine; tests answer as they like.
pub trait Facts {
    /// Pairs of interface name and IPv4 address.
    ///
    /// # Errors
    /// When the system does not list its interfaces.
    fn addresses(&self) -> io::Result<Vec<(String, Ipv4Addr)>>;

    /// The dialects of device memory TCP.
    ///
    /// # Errors
    /// When no TCP socket can be made.
    fn dialects(&self) -> io::Result<Dialects>;

    /// Looks for libcuda.so.1 as the dynamic linker does, without initialising CUDA.
    ///
    /// # Errors
    /// The linker's words.
    fn find_cuda(&self) -> Result<(), String>;
}
