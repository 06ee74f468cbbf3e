//! Finding with the variables that it is about.

use crate::report::Finding;

/// Finding with the variables that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remark {
    /// Names of the variables.
    pub variables: Vec<String>,
    /// Problem of the variables.
    pub finding: Finding,
}

impl Remark {
    /// Creates a remark of `finding` about `variables`.
    #[must_use]
    pub fn new(variables: &[&str], finding: Finding) -> Self {
        Self { variables: variables.iter().map(|&name| name.to_owned()).collect(), finding }
    }

    /// Returns whether the remark is about the variable of this name.
    #[must_use]
    pub fn is_about(&self, name: &str) -> bool {
        self.variables.iter().any(|variable| variable == name)
    }
}
