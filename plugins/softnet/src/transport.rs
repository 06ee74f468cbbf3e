//! Carrier of payload between hosts.

use std::str::FromStr;

use crate::parse_error::ParseError;

/// Carrier of payload between hosts. Both ends speak the same, so each may choose for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Plain TCP sockets, from which the processor copies.
    #[default]
    Tcp,
    /// The kernel's device-memory TCP: a NIC puts payload where it belongs, and takes it from
    /// there. See docs/devmem.md for what it needs.
    Devmem,
    /// Device memory for a GPU's, over NICs that can, if the GPU's driver hands it out; plain
    /// sockets for all else. Why is said in the log, once for each NIC and GPU.
    Auto,
    /// Plain TCP sockets. A NIC puts what comes into host memory of the process, by io_uring's
    /// zero-copy receive, and GPUs read it there. What is sent is copied. See docs/devmem.md for
    /// what it needs.
    IoUring,
}

/// Whether a NIC reaches memory of a GPU, with [`Transport::Auto`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuReach {
    /// Its name.
    pub nic: String,
    /// What is missing, with the id of its diagnosis; `None`: it reaches it.
    pub refusal: Option<String>,
}

impl FromStr for Transport {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "devmem" => Ok(Self::Devmem),
            "auto" => Ok(Self::Auto),
            "io_uring" => Ok(Self::IoUring),
            _ => Err(ParseError::new("tcp, devmem, auto or io_uring")),
        }
    }
}
