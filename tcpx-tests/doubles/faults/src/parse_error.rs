//! Why a word of a script was refused.

/// The text is none of the allowed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of those allowed: {allowed}")]
pub struct ScriptError {
    /// What the text may be.
    pub allowed: &'static str,
}

impl ScriptError {
    pub(crate) const fn new(allowed: &'static str) -> Self {
        Self { allowed }
    }
}
