//! Check of the values of a set of variables.

use super::conflicts;
use super::env::Env;
use super::remark::Remark;
use super::values;
use crate::report::Finding;

/// Returns what is wrong with the values in `env` for the hardware plugin. Names that no table
/// contains are left out: they do nothing, so they cannot harm the plugin.
///
/// `interfaces` are the names of all interfaces with an address; with none given, names are not
/// checked. `cpus` is the number of CPUs of the machine, 0 when unknown.
#[must_use]
pub fn lint(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<Finding> {
    remarks(env, interfaces, cpus).into_iter().map(|remark| remark.finding).collect()
}

/// Returns the findings of [`lint`], each with its variables.
#[must_use]
pub fn remarks(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<Remark> {
    let mut remarks = values::each_variable(env);
    remarks.extend(conflicts::find(env, interfaces, cpus));
    remarks
}
