//! A finding with the variables that it is about.

use super::Env;
use crate::finding::Finding;

/// A finding with the variables that it is about.
pub(super) struct Remark {
    pub(super) variables: Vec<String>,
    pub(super) finding: Finding,
}

impl Remark {
    pub(super) fn new(variables: &[&str], finding: Finding) -> Self {
        Self { variables: variables.iter().map(|&name| name.to_owned()).collect(), finding }
    }

    pub(super) fn is_about(&self, name: &str) -> bool {
        self.variables.iter().any(|variable| variable == name)
    }
}

/// Everything that there is to say about `env`; see [`super::lint`] for the other arguments.
pub(super) fn remarks(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<Remark> {
    let mut remarks = super::lint::each_variable(env);
    remarks.extend(super::conflicts::find(env, interfaces, cpus));
    remarks
}
