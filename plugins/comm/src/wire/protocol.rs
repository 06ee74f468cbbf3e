//! Numbers and names that both ends know, and reading of fields.

/// "TCPXSOFT": the first eight bytes of every hello and answer, and a field of the handle.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TCPXSOFT");
/// Version of the handle and of the whole protocol.
pub const VERSION: u16 = 1;
/// Maximum number of data sockets of one comm.
pub const MAX_SOCKETS: u16 = 8;
/// Largest chunk that a sender may announce.
pub const MAX_CHUNK_BYTES: u32 = 1 << 30;
/// Largest payload that may follow a record on the control socket.
pub const MAX_INLINE_BYTES: u32 = 32 << 10;

/// End of a comm that this process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Send comms.
    Send,
    /// Receive comms.
    Recv,
}

/// Socket of a comm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketRole {
    /// The control socket.
    Control,
    /// A data socket, by index.
    Data(u16),
}

/// Returns the field of `N` bytes at `at`. All fields lie inside the bytes that were read.
pub(super) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}
