//! What carries payload between hosts.

use std::str::FromStr;

use crate::parse_error::ParseError;

/// What carries payload between hosts. Both ends speak the same, so each may choose for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Plain TCP sockets, from which the processor copies.
    #[default]
    Tcp,
    /// The kernel's device-memory TCP: a NIC puts payload where it belongs, and takes it from
    /// there. See docs/devmem.md for what it needs.
    Devmem,
}

impl FromStr for Transport {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "devmem" => Ok(Self::Devmem),
            _ => Err(ParseError::new("tcp or devmem")),
        }
    }
}
