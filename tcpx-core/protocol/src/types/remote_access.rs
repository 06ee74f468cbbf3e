//! What an operation does with memory of the other end, and what an export allows.

use std::fmt;

use super::{Access, Direction};

/// What a one-sided operation does with the memory of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Brings its bytes here.
    Read,
    /// Puts bytes of this end there.
    Write,
}

impl OperationKind {
    /// Which way its bytes go.
    pub fn direction(self) -> Direction {
        match self {
            Self::Write => Direction::Send,
            Self::Read => Direction::Receive,
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// What peers may do with memory that is exported to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteAccess {
    /// Read it.
    Read,
    /// Write it, and not read it.
    Write,
    /// Both.
    ReadWrite,
}

const READ_BIT: u8 = 1;
const WRITE_BIT: u8 = 2;

impl RemoteAccess {
    /// Whether it allows this.
    #[must_use]
    pub fn allows(self, kind: OperationKind) -> bool {
        match kind {
            OperationKind::Read => self != Self::Write,
            OperationKind::Write => self != Self::Read,
        }
    }

    /// What the registration of such memory must allow.
    pub fn needs(self) -> Access {
        if self.allows(OperationKind::Write) { Access::ReadWrite } else { Access::ReadOnly }
    }

    /// Returns its bits as they travel.
    pub fn to_wire(self) -> u8 {
        match self {
            Self::Read => READ_BIT,
            Self::Write => WRITE_BIT,
            Self::ReadWrite => READ_BIT | WRITE_BIT,
        }
    }

    /// Returns the access with these bits.
    pub fn from_wire(bits: u8) -> Option<Self> {
        [Self::Read, Self::Write, Self::ReadWrite]
            .into_iter()
            .find(|access| access.to_wire() == bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_refused_and_writing_needs_memory_to_write() {
        use OperationKind::{Read, Write};
        for (access, allowed, needs, bits) in [
            (RemoteAccess::Read, [true, false], Access::ReadOnly, 1),
            (RemoteAccess::Write, [false, true], Access::ReadWrite, 2),
            (RemoteAccess::ReadWrite, [true, true], Access::ReadWrite, 3),
        ] {
            assert_eq!([Read, Write].map(|kind| access.allows(kind)), allowed);
            assert_eq!((access.needs(), access.to_wire()), (needs, bits));
            assert_eq!(RemoteAccess::from_wire(bits), Some(access));
        }
        assert_eq!((RemoteAccess::from_wire(0), RemoteAccess::from_wire(4)), (None, None));
        assert_eq!((Read.to_string(), Write.to_string()), ("read".into(), "write".into()));
    }
}
