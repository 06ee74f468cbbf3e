//! Error for a word in a setting that was refused.

/// The text is none of the allowed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of those allowed: {allowed}")]
#[non_exhaustive]
pub struct ParseError {
    /// What the text may be.
    pub allowed: &'static str,
}

impl ParseError {
    pub(crate) const fn new(allowed: &'static str) -> Self {
        Self { allowed }
    }
}
