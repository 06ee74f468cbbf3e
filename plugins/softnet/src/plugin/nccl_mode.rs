//! Setting for the way in which receives reach GPU memory under NCCL.

use std::str::FromStr;

use crate::parse_error::ParseError;

/// How receives reach GPU memory when NCCL has loaded the plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NcclMode {
    /// NCCL gives the plugin host memory only, and its kernels copy. Nothing of CUDA is called.
    #[default]
    Host,
    /// NCCL's kernels unpack what lies in the bounce region, as over the original. NCCL must be
    /// told to keep to what can unpack, `NCCL_PROTO=Simple` and from 2.24 on `NCCL_ALGO=Ring`, and
    /// to send from host memory, `NCCL_NET_GDR_READ=0`.
    Unpack,
}

impl FromStr for NcclMode {
    type Err = ParseError;

    fn from_str(word: &str) -> Result<Self, ParseError> {
        match word {
            "host" => Ok(Self::Host),
            "unpack" => Ok(Self::Unpack),
            _ => Err(ParseError::new("host or unpack")),
        }
    }
}
