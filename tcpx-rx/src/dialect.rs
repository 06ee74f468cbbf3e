//! Two dialects of TCP device memory, and their numbers.
//!
//! The numbers are those of Linux on x86-64 and arm64. A few other architectures number their
//! socket options differently; neither dialect is in use there. docs/plugin-contract.md §3.4
//! describes how the plugin uses Google's dialect.

/// `cmsg_level` of every control message that describes a fragment.
pub const SOL_SOCKET: i32 = 1;

/// Flag of `recvmsg` that asks for device memory. Headers inside the kernel define it; libc does
/// not.
pub const MSG_SOCK_DEVMEM: i32 = 0x0200_0000;

/// Numbers of the out-of-tree kernels that Google's GPUDirect-TCPX hosts run.
///
/// Payload of both control messages: `{u32 frag_offset, u32 frag_size, u32 frag_token}`.
pub mod google {
    /// Option of `setsockopt` that gives fragments back.
    pub const SO_DEVMEM_DONTNEED: i32 = 97;
    /// `cmsg_type` of a linear fragment; only `frag_size` has a meaning.
    pub const SCM_DEVMEM_HEADER: i32 = 98;
    /// `cmsg_type` of a fragment in device memory.
    pub const SCM_DEVMEM_OFFSET: i32 = 99;
    /// Bytes of the payload of either.
    pub const PAYLOAD_BYTES: usize = 12;
}

/// Numbers of mainline Linux, since 6.12.
///
/// Payload of both control messages: `{u64 frag_offset, u32 frag_size, u32 frag_token,
/// u32 dmabuf_id, u32 flags}`, the flags being reserved.
pub mod mainline {
    /// `cmsg_type` of a linear fragment; only `frag_size` has a meaning.
    pub const SCM_DEVMEM_LINEAR: i32 = 78;
    /// `cmsg_type` of a fragment in device memory.
    pub const SCM_DEVMEM_DMABUF: i32 = 79;
    /// Option of `setsockopt` that gives fragments back.
    pub const SO_DEVMEM_DONTNEED: i32 = 80;
    /// Bytes of the payload of either.
    pub const PAYLOAD_BYTES: usize = 24;
}

/// Kernel interface of a socket.
///
/// The same bytes mean different things in each dialect, and nothing in them identifies the
/// dialect. The caller therefore has to know the dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// Google's out-of-tree kernels, see [`google`].
    Google,
    /// Mainline Linux, see [`mainline`].
    Mainline,
}

impl Dialect {
    /// Returns the `cmsg_type` of a fragment in device memory.
    #[must_use]
    pub const fn device_cmsg_type(self) -> i32 {
        match self {
            Self::Google => google::SCM_DEVMEM_OFFSET,
            Self::Mainline => mainline::SCM_DEVMEM_DMABUF,
        }
    }

    /// Returns the `cmsg_type` of a linear fragment.
    #[must_use]
    pub const fn linear_cmsg_type(self) -> i32 {
        match self {
            Self::Google => google::SCM_DEVMEM_HEADER,
            Self::Mainline => mainline::SCM_DEVMEM_LINEAR,
        }
    }

    /// Returns the option of `setsockopt` at [`SOL_SOCKET`] that takes an array of
    /// [`TokenRange`](crate::TokenRange)s.
    #[must_use]
    pub const fn dontneed_option(self) -> i32 {
        match self {
            Self::Google => google::SO_DEVMEM_DONTNEED,
            Self::Mainline => mainline::SO_DEVMEM_DONTNEED,
        }
    }

    /// Returns the length in bytes of the payload of one control message.
    #[must_use]
    pub const fn payload_bytes(self) -> usize {
        match self {
            Self::Google => google::PAYLOAD_BYTES,
            Self::Mainline => mainline::PAYLOAD_BYTES,
        }
    }

    /// Returns the bytes of control buffer that one fragment takes, with header and padding.
    ///
    /// Multiply the result by the number of fragments that one `recvmsg` should be able to report.
    #[must_use]
    pub const fn cmsg_space(self) -> usize {
        crate::cmsg::padded(crate::cmsg::HEADER_BYTES + self.payload_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_space_is_what_the_kernel_takes() {
        assert_eq!(Dialect::Google.cmsg_space(), 32);
        assert_eq!(Dialect::Mainline.cmsg_space(), 40);
    }

    #[test]
    fn each_dialect_has_its_own_numbers() {
        let [g, m] = [Dialect::Google, Dialect::Mainline];
        assert_eq!((g.linear_cmsg_type(), g.device_cmsg_type(), g.dontneed_option()), (98, 99, 97));
        assert_eq!((m.linear_cmsg_type(), m.device_cmsg_type(), m.dontneed_option()), (78, 79, 80));
    }
}
