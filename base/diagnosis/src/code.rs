//! Stable number of a diagnosis.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Number of a diagnosis, shown as `TCPX-101`.
///
/// Numbers are never reused: scripts and reports may rely on them. They are grouped by hundreds: 1
/// environment, 2 plugin and CUDA, 3 topology, 4 kernel and NIC, 5 RxDM, 6 limits and network, 7
/// connections, 8 requests, 9 transfers, 10 NIXL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Code(u16);

/// A text that is no diagnosis code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a diagnosis code; codes look like TCPX-101")]
pub struct CodeError {
    text: String,
}

impl Code {
    pub(crate) const fn new(number: u16) -> Self {
        Self(number)
    }

    /// Returns the bare number, 101 for `TCPX-101`.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TCPX-{}", self.0)
    }
}

impl FromStr for Code {
    type Err = CodeError;

    /// Accepts `TCPX-101` in any case, and the bare number.
    fn from_str(text: &str) -> Result<Self, CodeError> {
        let trimmed = text.trim();
        let digits = match trimmed.get(..5) {
            Some(prefix) if prefix.eq_ignore_ascii_case("tcpx-") => &trimmed[5..],
            _ => trimmed,
        };
        // `parse` alone would also accept a sign.
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        match digits.parse() {
            Ok(number) if plain => Ok(Self(number)),
            _ => Err(CodeError { text: text.to_owned() }),
        }
    }
}

impl TryFrom<String> for Code {
    type Error = CodeError;

    fn try_from(text: String) -> Result<Self, CodeError> {
        text.parse()
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_back_from_what_it_shows() {
        let code = Code::new(101);
        assert_eq!(code.to_string().parse(), Ok(code));
        assert_eq!("tcpx-101".parse(), Ok(code));
        assert_eq!(" 101 ".parse(), Ok(code));
    }

    #[test]
    fn refuses_what_is_no_code() {
        for text in ["", "TCPX-", "TCPX-1x", "E101", "-1", "+101", "70000", "ТСРХ-101"] {
            assert!(text.parse::<Code>().is_err(), "{text}");
        }
    }
}
