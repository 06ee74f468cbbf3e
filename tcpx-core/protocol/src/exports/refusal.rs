//! Refusal of a request of a peer, as it travels on the control link.

use crate::error::RemoteProblem;
use crate::types::memory::OperationKind;

/// Reason why an end does not do what the other one asks of it, or stops doing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No export has this id and secret.
    UnknownKey,
    /// The range was exported, and is not any more.
    Revoked,
    /// A range reaches past the end of what is exported.
    OutOfRange,
    /// The range is exported, but not for this use.
    Access,
    /// There is no memory for the list.
    NoMemory,
    /// The memory cannot be received into.
    ReceiveIntoHostMemory,
    /// The end that asked has given it up.
    Cancelled,
    /// The session is leaving.
    Leaves,
    /// Its ranges are in memory of different kinds.
    MixedMemory,
}

/// Reason why a list, or a request of it, is refused, and the range that the refusal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub why: Refusal,
    /// Index of the range in its list.
    pub range: u32,
}

/// The range of a list that a refusal is about.
#[derive(Clone, Copy, Debug)]
pub struct AskedRange {
    /// Index of the range in its list.
    pub index: usize,
    /// Offset in the export at which the range begins.
    pub offset: u64,
    /// Bytes of the range.
    pub bytes: u64,
    /// Bytes of the export.
    pub exported_bytes: u64,
    /// Kind of operation that was asked for.
    pub wanted: OperationKind,
}

impl Refusal {
    /// In the order of their numbers, from 1.
    const ALL: [Self; 9] = [
        Self::UnknownKey,
        Self::Revoked,
        Self::OutOfRange,
        Self::Access,
        Self::NoMemory,
        Self::ReceiveIntoHostMemory,
        Self::Cancelled,
        Self::Leaves,
        Self::MixedMemory,
    ];

    /// Returns its number as it travels.
    pub fn to_wire(self) -> u8 {
        self as u8 + 1
    }

    /// Returns the refusal with this number.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Returns the reason, for the operator of the session that refuses.
    pub fn reason(self) -> &'static str {
        match self {
            Self::UnknownKey => "it has no key of an export",
            Self::Revoked => "the export was taken back",
            Self::OutOfRange => "it reaches past what is exported",
            Self::Access => "the export does not allow it",
            Self::NoMemory => "there is no memory for its list",
            Self::ReceiveIntoHostMemory => "the plugin cannot receive into host memory",
            Self::Cancelled => "the peer has given it up",
            Self::Leaves => "the session is leaving",
            Self::MixedMemory => "its ranges are in memory of different kinds",
        }
    }

    /// Returns whether the refusal is due to a mistake of a program, and not to the normal course
    /// of things when memory is taken back.
    pub fn is_mistake(self) -> bool {
        !matches!(self, Self::Revoked | Self::Cancelled | Self::Leaves)
    }

    /// Returns the problem that the end that asked reports; `None`: that end knows, because it has
    /// given up itself.
    pub fn problem(self, asked: &AskedRange) -> Option<RemoteProblem> {
        let AskedRange { index, offset, bytes, exported_bytes, wanted } = *asked;
        Some(match self {
            Self::UnknownKey => RemoteProblem::UnknownKey,
            Self::Revoked => RemoteProblem::Revoked,
            Self::OutOfRange => RemoteProblem::OutOfRange { index, offset, bytes, exported_bytes },
            Self::Access => RemoteProblem::Access { wanted },
            Self::NoMemory => RemoteProblem::NoMemory,
            Self::ReceiveIntoHostMemory => RemoteProblem::ReceiveIntoHostMemory,
            Self::Cancelled => return None,
            Self::Leaves => RemoteProblem::Leaves,
            Self::MixedMemory => RemoteProblem::MixedMemory,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_the_number_that_the_wire_gives_it() {
        use Refusal as R;
        for (number, refusal) in [
            (1, R::UnknownKey),
            (2, R::Revoked),
            (3, R::OutOfRange),
            (4, R::Access),
            (5, R::NoMemory),
            (6, R::ReceiveIntoHostMemory),
            (7, R::Cancelled),
            (8, R::Leaves),
            (9, R::MixedMemory),
        ] {
            assert_eq!((R::from_wire(number), refusal.to_wire()), (Some(refusal), number));
        }
        for number in [0, 10, u8::MAX] {
            assert_eq!(R::from_wire(number), None);
        }
    }

    #[test]
    fn each_but_the_askers_own_is_a_problem_of_its_own() {
        let asked = AskedRange {
            index: 3,
            offset: 8,
            bytes: 9,
            exported_bytes: 16,
            wanted: OperationKind::Write,
        };
        let problems = Refusal::ALL.map(|refusal| refusal.problem(&asked));
        for (at, problem) in problems.iter().enumerate() {
            assert!(!problems[..at].contains(problem), "{problem:?}");
            assert_eq!(problem.is_none(), Refusal::ALL[at] == Refusal::Cancelled);
        }
        let past_end =
            RemoteProblem::OutOfRange { index: 3, offset: 8, bytes: 9, exported_bytes: 16 };
        assert_eq!(Refusal::OutOfRange.problem(&asked), Some(past_end));
        let wanted = OperationKind::Write;
        assert_eq!(Refusal::Access.problem(&asked), Some(RemoteProblem::Access { wanted }));
    }
}
