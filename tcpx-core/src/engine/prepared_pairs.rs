//! Pairs of an operation: checked, with adjacent pairs merged. Pure.
//!
//! Operation that a program has prepared.

use std::sync::Arc;

use foldhash::HashMap;
use tcpx_protocol::error::RemoteProblem;
use tcpx_protocol::exports::capability::{ListedKey, ListedRange};
use tcpx_protocol::exports::remote_key::{RemoteKey, RemoteRange};
use tcpx_protocol::frames::conn_info::SessionId;
use tcpx_protocol::peer::one_sided::local_lists::PreparedList;
use tcpx_protocol::plans::pieces::{Piece, Pieces};
use tcpx_protocol::types::memory::{MemoryId, OperationKind};
use tcpx_protocol::types::{Access, MemoryType, RegistrationKey, Span};

use crate::error::Error;
use crate::transfer::MemoryRange;
use crate::types::PeerKey;

/// Largest number of pairs of an operation, after adjacent pairs were merged.
pub(crate) const MAX_PAIRS: usize = 1 << 20;

/// Reason why ranges make no operation.
#[derive(Debug)]
pub(crate) enum PairError {
    /// The two ends do not fit, or the remote one is invalid.
    Remote { memory: Option<MemoryId>, problem: RemoteProblem },
    /// The local end is invalid.
    Local(Error),
}

/// Both ends of all pairs.
#[derive(Debug)]
pub(crate) struct PreparedPairs {
    pub(crate) pieces: Pieces,
    /// Registrations of the local ranges, each once.
    pub(crate) memory: Box<[MemoryId]>,
    pub(crate) keys: Box<[ListedKey]>,
    pub(crate) key_bytes: Box<[u64]>,
    pub(crate) ranges: Box<[ListedRange]>,
    pub(crate) remote_memory: MemoryType,
}

impl PairError {
    /// Returns the error of an operation with this peer.
    pub(crate) fn of_peer(self, name: &str) -> Error {
        match self {
            Self::Remote { memory, problem } => {
                Error::Remote { peer: Some(name.to_owned()), memory, problem }
            }
            Self::Local(error) => error,
        }
    }
}

fn refuse(problem: RemoteProblem) -> PairError {
    PairError::Remote { memory: None, problem }
}

/// Pairs that are known so far.
#[derive(Default)]
struct Builder {
    owners: Vec<RegistrationKey>,
    memory: Vec<MemoryId>,
    owner_of: HashMap<RegistrationKey, u32>,
    pieces: Vec<Piece>,
    keys: Vec<ListedKey>,
    key_bytes: Vec<u64>,
    key_of: HashMap<(u64, [u8; 16]), u32>,
    ranges: Vec<ListedRange>,
    kinds: Option<(MemoryType, MemoryType)>,
}

impl PreparedPairs {
    /// Returns the pairs of these ranges, the first with the first. Empty pairs are left out.
    /// `span` returns the place of a local range that is needed for this access.
    pub(crate) fn new(
        kind: OperationKind,
        local: &[MemoryRange],
        remote: &[RemoteRange<'_>],
        span: impl Fn(&MemoryRange, Access) -> Result<Span, Error>,
    ) -> Result<Self, PairError> {
        if local.len() != remote.len() {
            let (local_bytes, remote_bytes) = (local.len() as u64, remote.len() as u64);
            let index = local.len().min(remote.len());
            return Err(refuse(RemoteProblem::LengthsDiffer { index, local_bytes, remote_bytes }));
        }
        let access = match kind {
            OperationKind::Write => Access::ReadOnly,
            OperationKind::Read => Access::ReadWrite,
        };
        let mut builder = Builder::default();
        for (index, (own, theirs)) in local.iter().zip(remote).enumerate() {
            let (local_bytes, remote_bytes) = (own.bytes, theirs.bytes);
            if local_bytes != remote_bytes {
                return Err(refuse(RemoteProblem::LengthsDiffer {
                    index,
                    local_bytes,
                    remote_bytes,
                }));
            }
            let memory = theirs.key.memory_id;
            theirs.check(index, kind).map_err(|problem| PairError::Remote { memory, problem })?;
            let place = span(own, access).map_err(PairError::Local)?;
            if local_bytes > 0 {
                builder.add(own.memory, place, theirs)?;
            }
        }
        builder.finish()
    }
}

impl Builder {
    fn add(
        &mut self,
        memory: MemoryId,
        place: Span,
        theirs: &RemoteRange<'_>,
    ) -> Result<(), PairError> {
        let kinds = (place.memory, theirs.key.memory);
        if *self.kinds.get_or_insert(kinds) != kinds {
            return Err(refuse(RemoteProblem::MixedMemory));
        }
        let owner = match self.owner_of.get(&place.registration) {
            Some(owner) => *owner,
            None => {
                let owner = self.owners.len() as u32;
                self.owners.push(place.registration);
                self.memory.push(memory);
                self.owner_of.insert(place.registration, owner);
                owner
            }
        };
        let key = self.key(theirs.key);
        if let (Some(piece), Some(range)) = (self.pieces.last_mut(), self.ranges.last_mut())
            && (piece.owner, piece.address + piece.bytes) == (owner, place.address)
            && (range.key, range.offset + range.bytes) == (key, theirs.offset)
        {
            piece.bytes += theirs.bytes;
            range.bytes += theirs.bytes;
            return Ok(());
        }
        if self.pieces.len() == MAX_PAIRS {
            let limit = MAX_PAIRS;
            return Err(refuse(RemoteProblem::TooMany { ranges: limit + 1, limit }));
        }
        let (offset, bytes) = (theirs.offset, theirs.bytes);
        self.pieces.push(Piece { owner, address: place.address, bytes });
        self.ranges.push(ListedRange { key, offset, bytes });
        Ok(())
    }

    fn key(&mut self, key: &RemoteKey) -> u32 {
        let name = (key.export.to_wire(), key.secret.to_wire());
        *self.key_of.entry(name).or_insert_with(|| {
            self.keys.push(ListedKey { export: key.export, secret: key.secret.clone() });
            self.key_bytes.push(key.bytes);
            self.keys.len() as u32 - 1
        })
    }

    fn finish(self) -> Result<PreparedPairs, PairError> {
        let nothing = || refuse(RemoteProblem::Nothing);
        let (memory, remote_memory) = self.kinds.ok_or_else(nothing)?;
        let pieces = Pieces::new(memory, self.owners, self.pieces).ok_or_else(nothing)?;
        Ok(PreparedPairs {
            pieces,
            memory: self.memory.into(),
            keys: self.keys.into(),
            key_bytes: self.key_bytes.into(),
            ranges: self.ranges.into(),
            remote_memory,
        })
    }
}

/// Prepared operation with its peer.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) list: Arc<PreparedList>,
    /// Name of the peer, and the session whose memory the operation uses; `None`: it uses none.
    pub(super) peer_name: Box<str>,
    pub(super) session: Option<SessionId>,
    /// Peer of the last post, or of a post now; null: the peer must be connected first.
    pub(super) peer: PeerKey,
    /// Registrations that the operation uses.
    pub(super) memory: Box<[MemoryId]>,
}
