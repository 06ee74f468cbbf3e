//! What a program posts.

use tcpx_protocol::types::memory_id::MemoryId;

/// One send or receive to post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// The registration that the bytes lie in.
    pub memory: MemoryId,
    /// Byte offset in the registration.
    pub offset: u64,
    /// Bytes. The other end must post the same number.
    pub bytes: u64,
    /// Tag. The other end's post with the same tag is the counterpart; equal tags match in the
    /// order of posting.
    pub tag: i64,
}
