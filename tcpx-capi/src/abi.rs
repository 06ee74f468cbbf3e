//! The number that the soname carries. Read by the build script and by `xtask` too.

/// Version of the binary interface: the number in the soname, `libtcpx_p2p.so.N`. It goes up when a program that was
/// compiled against an older header would break.
pub const TCPX_ABI_VERSION: u32 = 1;
