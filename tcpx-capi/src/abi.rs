//! Number in the soname. The build script and `xtask` read this file too.

/// Version of the binary interface, which is the number in the soname `libtcpx_p2p.so.N`.
///
/// It goes up when a program that was compiled against an older header would break.
pub const TCPX_ABI_VERSION: u32 = 2;
