//! A range of remote memory that an operation names, and what can be said of it before the other
//! end is asked.

use super::exported_range::is_part;
use super::remote_key::RemoteKey;
use crate::error::remote_problem::RemoteProblem;
use crate::types::remote_access::OperationKind;

/// A range of what a key leads to.
#[derive(Clone, Copy, Debug)]
pub struct RemoteRange<'a> {
    /// The key.
    pub key: &'a RemoteKey,
    /// Where in the exported memory it begins, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

impl RemoteRange<'_> {
    /// Checks it by what the key says of itself. The other end checks by what it knows.
    pub fn check(&self, index: usize, wanted: OperationKind) -> Result<(), RemoteProblem> {
        let Self { key, offset, bytes } = *self;
        if !key.access().allows(wanted) {
            return Err(RemoteProblem::Access { wanted });
        }
        let exported_bytes = key.bytes();
        if !is_part(offset, bytes, exported_bytes) {
            return Err(RemoteProblem::OutOfRange { index, offset, bytes, exported_bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::remote_key::tests::sample;
    use crate::types::remote_access::RemoteAccess;

    #[test]
    fn what_the_key_does_not_allow_is_refused_by_name() {
        use OperationKind::{Read, Write};
        let key = RemoteKey { bytes: 100, access: RemoteAccess::Read, ..sample() };
        let check =
            |offset, bytes, wanted| RemoteRange { key: &key, offset, bytes }.check(7, wanted);
        assert_eq!(check(0, 100, Read), Ok(()));
        assert_eq!(check(99, 1, Read), Ok(()));
        assert_eq!(check(0, 1, Write), Err(RemoteProblem::Access { wanted: Write }));
        for (offset, bytes) in [(0, 101), (100, 1), (1, u64::MAX), (u64::MAX, 1)] {
            let problem =
                RemoteProblem::OutOfRange { index: 7, offset, bytes, exported_bytes: 100 };
            assert_eq!(check(offset, bytes, Read), Err(problem));
        }
    }
}
