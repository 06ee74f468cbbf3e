//! Fragments: the pieces of the byte stream as the kernel landed them.

/// Piece of the stream that lies in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DeviceFragment {
    /// Offset of the first byte from the start of the region that the socket's queue is bound to.
    pub offset: u64,
    /// Length in bytes, not 0.
    pub bytes: u32,
    /// Token that gives the fragment back to the kernel, on the socket that it came from.
    pub token: u32,
    /// Dma-buf that the offset refers to. Mainline reports an id; the Google dialect has one region
    /// per socket and reports none.
    pub dmabuf_id: Option<u32>,
}

impl DeviceFragment {
    /// Creates a fragment of `bytes` bytes at `offset` of the region, or of dma-buf `dmabuf_id`.
    #[must_use]
    pub const fn new(offset: u64, bytes: u32, token: u32, dmabuf_id: Option<u32>) -> Self {
        Self { offset, bytes, token, dmabuf_id }
    }
}

/// Piece of the stream. Fragments come in byte order: each begins where the previous one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fragment {
    /// The piece is in device memory.
    Device(DeviceFragment),
    /// The piece was copied to the host buffer of the same `recvmsg`, after the linear pieces
    /// before it. It holds no device memory and has no token.
    Linear {
        /// Length in bytes, not 0.
        bytes: u32,
    },
}

impl Fragment {
    /// Returns the length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        match *self {
            Self::Device(DeviceFragment { bytes, .. }) | Self::Linear { bytes } => bytes,
        }
    }
}
