//! Properties of both forms of the library.

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What the code needs of the system: `rustc --print native-static-libs` for Linux with glibc.
pub(super) const SYSTEM_LIBRARIES: [&str; 7] = ["gcc_s", "util", "rt", "pthread", "m", "dl", "c"];

/// What becomes of the debug information, most of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debug {
    /// It goes. The symbol table, which gives backtraces their names, stays.
    Strip,
    Keep,
}
