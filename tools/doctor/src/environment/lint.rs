//! Findings about a set of variables: values, and unknown names.

use super::library_lint;
use tcpx_diagnosis::Finding;
use tcpx_diagnosis::table::environment as table;
use tcpx_diagnosis::variables::{
    self, Effect, Env, LibrarySetting, Remark, find_library_setting, find_variable,
    library_settings, variables,
};

/// Prefixes that only the plugin uses: an unknown name below them is a mistake.
const PLUGIN_PREFIXES: [&str; 2] = ["NCCL_GPUDIRECTTCPX_", "NCCL_TCPX_"];
/// The same for this library.
const LIBRARY_PREFIXES: [&str; 2] = ["TCPX_", "UCCL_TCPX_"];
/// What only tests of this project and their plugins read.
const TEST_PREFIXES: [&str; 6] = [
    "TCPX_TEST_",
    "TCPX_FAKE_CUDA_",
    "TCPX_NULL_",
    "TCPX_ORIGINAL_",
    "TCPX_BROKEN",
    "TCPX_PEER_LOOPBACK",
];

/// What is wrong with `env` for the hardware plugin: its values, as
/// [`tcpx_diagnosis::variables::lint`] judges them, and names that look like the plugin's and are
/// not.
///
/// `interfaces` are the names of all interfaces that have an address; with none given, nothing is
/// said about names of interfaces. `cpus` is how many CPUs the machine has, 0 when unknown.
#[must_use]
pub fn lint(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<Finding> {
    remarks(env, interfaces, cpus).into_iter().map(|remark| remark.finding).collect()
}

/// What [`lint`] finds, each with the variables that it is about.
pub(super) fn remarks(env: &Env, interfaces: &[&str], cpus: u32) -> Vec<Remark> {
    let mut remarks = variables::remarks(env, interfaces, cpus);
    remarks.extend(own(env));
    remarks
}

/// Returns the remarks that hold for every plugin: on this library's own variables, and on unknown
/// names.
pub(crate) fn own(env: &Env) -> Vec<Remark> {
    let mut remarks = library_lint::remarks(env);
    remarks.extend(unknown_names(env));
    remarks
}

/// Variables that are set and that the table lacks, where that is a mistake.
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

/// A name that the tables lack: a mistake if only the plugin or this library could mean it, or if
/// it is almost a known name.
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
                format!("{name} is set; did you mean {nearest}?"),
            );
            finding.cure.insert(0, format!("export {nearest}=\"${name}\""));
            finding
        }
        None if is_ours => Finding::new(&table::VARIABLE_UNKNOWN, format!("{name} is set")),
        None => return None,
    };
    Some(finding.with("<VARIABLE>", name))
}

/// The known variable with the fewest edits from `name`, and how many these are. Names outside
/// NCCL's prefix and this library's are other programs' business.
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
