//! Fragments: the pieces of the byte stream as the kernel landed them.

/// A piece of the stream that lies in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceFragment {
    /// First byte, counted from the start of the region the socket's queue is bound to.
    pub offset: u64,
    /// Length in bytes, not 0.
    pub bytes: u32,
    /// What gives the fragment back to the kernel, on the socket it came from.
    pub token: u32,
    /// Which dma-buf the offset counts in. Mainline says so; the Google dialect has one region
    /// per socket and says nothing.
    pub dmabuf_id: Option<u32>,
}

/// One piece of the stream. Fragments come in byte order: each begins where the one before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Length in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        match *self {
            Self::Device(DeviceFragment { bytes, .. }) | Self::Linear { bytes } => bytes,
        }
    }
}
