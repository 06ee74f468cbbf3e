//! Properties of both forms of the library.

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Libraries of the system that the code needs, by `rustc --print native-static-libs` for Linux
/// with glibc.
pub(super) const SYSTEM_LIBRARIES: [&str; 7] = ["gcc_s", "util", "rt", "pthread", "m", "dl", "c"];

/// Choice about the debug information, which is most of a library's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DebugInfo {
    /// Strip it, and keep the symbol table, which gives backtraces their names.
    Strip,
    /// Keep it.
    Keep,
}
