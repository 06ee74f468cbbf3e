//! Why settings are refused.

/// A setting that the plugin refuses to start with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The variable has no default that could be right.
    #[error("{variable} is not set; {reason}")]
    Unset {
        /// Name of the variable.
        variable: &'static str,
        /// Why it is needed.
        reason: &'static str,
    },
    /// The value is not one of those allowed.
    #[error("{variable} is {value:?}; allowed: {allowed}")]
    Invalid {
        /// Name of the variable, or of the field of [`crate::Settings`].
        variable: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// [`crate::configure`] came after `init`.
    #[error("the plugin is already initialised; settings are read once, by init")]
    TooLate,
}
