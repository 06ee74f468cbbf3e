//! Findings about a set of variables: their values, and unknown names.

use super::library_lint;
use tcpx_diagnosis::Finding;
use tcpx_diagnosis::table::environment as table;
use tcpx_diagnosis::variables::{
    self, Effect, Env, LibrarySetting, Remark, find_library_setting, find_variable,
    library_settings, variables,
};

/// Prefixes that only the plugin uses: an unknown name with one is a mistake.
const PLUGIN_PREFIXES: [&str; 2] = ["NCCL_GPUDIRECTTCPX_", "NCCL_TCPX_"];
/// Prefixes that only this library uses.
const LIBRARY_PREFIXES: [&str; 2] = ["TCPX_", "UCCL_TCPX_"];
/// Prefixes of variables that only tests of this project and their plugins read.
const TEST_PREFIXES: [&str; 6] = [
    "TCPX_TEST_",
    "TCPX_FAKE_CUDA_",
    "TCPX_NULL_",
    "TCPX_ORIGINAL_",
    "TCPX_BROKEN",
    "TCPX_PEER_LOOPBACK",
];

/// Text of a finding before the known name.
const DID_YOU_MEAN: &str = "did you mean ";

/// Returns the findings about `env` for the hardware plugin: about values, by
/// [`tcpx_diagnosis::variables::lint`], and about unknown names that resemble the plugin's.
///
/// `interfaces` are the names of all interfaces that have an address; if it is empty, names of
/// interfaces are not checked. `cpus` is the number of the machine's CPUs, 0 when unknown.
#[must_use]
pub fn lint(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<Finding> {
    remarks(env, interfaces, cpus).into_iter().map(|remark| remark.finding).collect()
}

/// Returns the findings of [`lint`], each with its variables.
pub(super) fn remarks(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<Remark> {
    let mut remarks = variables::remarks(env, interfaces, cpus);
    remarks.extend(library_remarks(env));
    remarks
}

/// Returns the remarks that hold for every plugin: on this library's own variables, and on unknown
/// names.
pub(crate) fn library_remarks(env: &Env) -> Vec<Remark> {
    let mut remarks = library_lint::remarks(env);
    remarks.extend(unknown_names(env));
    remarks
}

/// Returns the remarks on variables that are set, that the tables lack, and that are mistakes.
fn unknown_names(env: &Env) -> Vec<Remark> {
    let set = env.iter().filter(|(_, value)| !value.is_empty());
    set.filter(|(name, _)| !is_known(name))
        .filter_map(|(name, _)| Some(Remark::new(&[name], lint_unknown(name)?)))
        .collect()
}

/// Returns whether it is a variable of the plugin's or of this library's, or one of this project's
/// tests.
pub(super) fn is_known(name: &str) -> bool {
    find_variable(name).is_some()
        || find_library_setting(name).is_some()
        || TEST_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the findings about variables of `env` whose names are similar to known ones and have a
/// prefix of the plugin or of this library: they have no effect.
#[must_use]
pub fn misspelt_variables(env: &Env) -> Vec<Finding> {
    let remarks = unknown_names(env).into_iter();
    remarks.map(|remark| remark.finding).filter(|it| it.seen.contains(DID_YOU_MEAN)).collect()
}

/// Returns the finding about a name that the tables lack: it is a mistake if it has a prefix of the
/// plugin or of this library, or is similar to a known name.
fn lint_unknown(name: &str) -> Option<Finding> {
    let prefixes = PLUGIN_PREFIXES.iter().chain(&LIBRARY_PREFIXES);
    let is_ours = prefixes.into_iter().any(|prefix| name.starts_with(prefix));
    let nearest = nearest_name(name);
    let allowed_distance = if is_ours { 4 } else { 2 };
    let nearest = nearest.filter(|&(distance, _)| distance <= allowed_distance);
    let finding = match nearest {
        Some((_, nearest)) => {
            let mut finding = Finding::new(
                &table::VARIABLE_UNKNOWN,
                format!("{name} is set; {DID_YOU_MEAN}{nearest}?"),
            );
            finding.cure.insert(0, format!("export {nearest}=\"${name}\""));
            finding
        }
        None if is_ours => Finding::new(&table::VARIABLE_UNKNOWN, format!("{name} is set")),
        None => return None,
    };
    Some(finding.with("<VARIABLE>", name))
}

/// Returns the known variable with the fewest edits from `name`, with their number. Names without
/// NCCL's prefix or this library's have none.
#[must_use]
pub fn nearest_name(name: &str) -> Option<(usize, &'static str)> {
    let plugins = variables()
        .iter()
        .filter(|variable| variable.effect != Effect::Missing)
        .map(|variable| variable.name)
        .filter(|_| name.starts_with("NCCL_"));
    let own = library_settings()
        .iter()
        .flat_map(LibrarySetting::names)
        .filter(|_| LIBRARY_PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    plugins.chain(own).map(|known| (strsim::damerau_levenshtein(name, known), known)).min()
}
