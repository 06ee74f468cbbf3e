//! A finding with the variables that it is about.

use crate::report::Finding;

/// A finding with the variables that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remark {
    /// The names of the variables.
    pub variables: Vec<String>,
    /// What is wrong with them.
    pub finding: Finding,
}

impl Remark {
    /// Says `finding` about `variables`.
    #[must_use]
    pub fn new(variables: &[&str], finding: Finding) -> Self {
        Self { variables: variables.iter().map(|&name| name.to_owned()).collect(), finding }
    }

    /// Whether it is about the variable of this name.
    #[must_use]
    pub fn is_about(&self, name: &str) -> bool {
        self.variables.iter().any(|variable| variable == name)
    }
}
