//! Failed unpack, or failed copy of scattered outgoing messages, with its chunk.

use std::fmt;

use tcpx_protocol::types::memory::MemoryId;
use tcpx_unpack::UnpackError;

/// Chunk whose bytes could not be copied out of the bounce buffer, or gathered to be sent.
///
/// A GPU reports a failed copy or kernel only later, and does not say which one in flight it was.
/// Then this is the oldest chunk in flight, and `others` counts the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnpackFailure {
    /// Whether the chunk was to be sent: the unpack backend gathers scattered small messages.
    pub is_send: bool,
    /// Peer that sent the chunk, or that the chunk is for.
    pub peer: String,
    /// Channel that the chunk came over, or was to go over.
    pub channel: u16,
    /// Registration that the chunk was to be copied into. For an outgoing chunk, one that it was to
    /// be copied from. `None` if it is gone already.
    pub registration: Option<MemoryId>,
    /// Tag of the message. For an outgoing chunk, the tag of one of its messages.
    pub tag: i64,
    /// Number of the chunk in its message, from 0; 0 for a shared chunk.
    pub chunk: u64,
    /// Number of bytes of the chunk.
    pub chunk_bytes: u64,
    /// Number of other chunks that may be the one that failed.
    pub others: usize,
    /// What failed, with the driver call if there was one.
    pub source: UnpackError,
}

impl fmt::Display for UnpackFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_send, peer, channel, registration, tag, chunk, chunk_bytes, others, source } =
            self;
        let registration = registration.map_or(0, MemoryId::get);
        if *is_send {
            write!(
                f,
                "unpack: gathering for peer {peer}, channel {channel}, small messages in a chunk of {chunk_bytes} bytes, \
                 one of them with tag {tag}, out of registration {registration}"
            )?;
        } else {
            write!(
                f,
                "unpack: peer {peer}, channel {channel}, chunk {chunk} of {chunk_bytes} bytes with tag {tag} into \
                 registration {registration}"
            )?;
        }
        if *others > 0 {
            write!(f, ", or one of {others} other chunks under way")?;
        }
        write!(f, ": {source}")
    }
}

#[cfg(test)]
mod tests {
    use tcpx_unpack::Backend;

    use super::*;

    #[test]
    fn the_text_names_the_chunk_and_its_doubt() {
        let source = UnpackError::Unavailable { backend: Backend::Kernel, reason: "off".into() };
        let sure = UnpackFailure {
            is_send: false,
            peer: "b".into(),
            channel: 3,
            registration: MemoryId::new(7),
            tag: -1,
            chunk: 12,
            chunk_bytes: 524_288,
            others: 0,
            source,
        };
        let text = sure.to_string();
        for words in ["peer b", "channel 3", "chunk 12", "registration 7", "tag -1", "off"] {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("other chunks"), "{text}");
        let text = UnpackFailure { others: 4, ..sure.clone() }.to_string();
        assert!(text.contains("or one of 4 other chunks"), "{text}");
        let text = UnpackFailure { is_send: true, ..sure }.to_string();
        for words in ["gathering for peer b", "channel 3", "tag -1", "out of registration 7"] {
            assert!(text.contains(words), "{text}");
        }
    }
}
