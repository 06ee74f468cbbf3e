//! Everything that is wrong with the values of a set of variables.

use super::conflicts;
use super::env::Env;
use super::remark::Remark;
use super::values;
use crate::report::Finding;

/// What is wrong with the values in `env` for the hardware plugin. Names that no table knows are
/// left out: they do nothing, so they cannot harm it.
///
/// `interfaces` are the names of all interfaces that have an address; with none given, nothing is
/// said about names. `cpus` is how many CPUs the machine has, 0 when unknown.
#[must_use]
pub fn lint(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<Finding> {
    remarks(env, interfaces, cpus).into_iter().map(|remark| remark.finding).collect()
}

/// What [`lint`] finds, each with the variables that it is about.
#[must_use]
pub fn remarks(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<Remark> {
    let mut remarks = values::each_variable(env);
    remarks.extend(conflicts::find(env, interfaces, cpus));
    remarks
}
