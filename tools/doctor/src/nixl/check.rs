//! Findings about the backends of NIXL on this machine.

use std::path::Path;

use tcpx_diagnosis::table::nixl as table;
use tcpx_diagnosis::variables::value;
use tcpx_diagnosis::{Finding, Host};

use super::backend_file::{self, StringAbi};
use super::installed::{InstalledNixl, installed};
use super::libraries;

/// Variable with the folder in which every NIXL looks for backends.
const VARIABLE: &str = "NIXL_PLUGIN_DIR";
const TCPX: &str = "libplugin_TCPX.so";
const UCX: &str = "libplugin_UCX.so";
/// What the name of a backend stands between in the name of its file.
const PREFIX: &str = "libplugin_";
const SUFFIX: &str = ".so";

/// First version with the current interface, and the last version that was tested.
const OLDEST: (u32, u32) = (1, 0);
const NEWEST_TESTED: (u32, u32) = (1, 5);

/// Examines every NIXL of this machine. Without a NIXL and without the variable there are no
/// findings.
pub(crate) fn check(host: &Host<'_>) -> Vec<Finding> {
    let all = installed(host);
    let Some(wanted) = value(host.env, VARIABLE) else {
        return all.iter().flat_map(|nixl| check_installed(host, nixl)).collect();
    };
    let folder = Path::new(wanted);
    if !host.tree().path(folder).is_dir() {
        let seen = format!("{VARIABLE}={wanted} is no folder");
        return vec![Finding::new(&table::NIXL_PLUGIN_DIR_MISSING, seen).with("<FOLDER>", wanted)];
    }
    let reader = format!("{VARIABLE}={wanted}");
    let own = own_files(host, folder);
    let mut findings = check_folder(host, folder, &own, &reader);
    if !own.is_empty() {
        if !host.tree().exists(folder.join(UCX)) {
            let seen = format!("{reader} has no {UCX}");
            findings.push(Finding::new(&table::NIXL_BACKENDS_HIDDEN, seen));
        }
        findings.extend(all.iter().filter_map(check_version));
    }
    findings
}

/// Returns the findings about one NIXL with its own folder.
fn check_installed(host: &Host<'_>, nixl: &InstalledNixl) -> Vec<Finding> {
    let reader = format!("NIXL {} in {}", nixl.version, nixl.folder.display());
    let own = own_files(host, &nixl.folder);
    let mut findings = check_folder(host, &nixl.folder, &own, &reader);
    if !own.is_empty() {
        findings.extend(check_version(nixl));
    }
    findings
}

/// Returns the names of this project's files in a folder of backends: its own one, and those of
/// other backends whose place it has.
fn own_files(host: &Host<'_>, folder: &Path) -> Vec<String> {
    let tree = host.tree();
    let is_own = |name: &String| {
        let is_plugin = name.starts_with(PREFIX) && name.ends_with(SUFFIX);
        let read = || backend_file::read(&tree.path(folder.join(name)));
        name == TCPX || (is_plugin && read().is_ok_and(|file| file.version.is_some()))
    };
    tree.names(folder).into_iter().filter(is_own).collect()
}

/// Returns the findings about a folder of backends with these files of this project. `reader` names
/// the NIXL that reads it.
fn check_folder(host: &Host<'_>, folder: &Path, own: &[String], reader: &str) -> Vec<Finding> {
    if own.is_empty() {
        let seen = format!("{reader} has no {TCPX}");
        return vec![Finding::new(&table::NIXL_BACKEND_ABSENT, seen)];
    }
    let mut findings: Vec<Finding> =
        own.iter().flat_map(|name| check_file(host, folder, name, reader)).collect();
    let is_found = findings.iter().any(|it| it.id == table::NIXL_BACKEND_FOUND.code);
    if is_found && host.tree().exists(folder.join(UCX)) && !own.iter().any(|name| name == UCX) {
        let seen = format!("{reader} has {UCX} too");
        findings.push(Finding::new(&table::NIXL_BACKENDS_COMPETE, seen));
    }
    findings
}

/// Returns the findings about a file of this project in a folder of backends.
fn check_file(host: &Host<'_>, folder: &Path, name: &str, reader: &str) -> Vec<Finding> {
    let tree = host.tree();
    let path = folder.join(name);
    let shown = path.display().to_string();
    let found = |diagnosis, seen: String| Finding::new(diagnosis, seen).with("<PATH>", &shown);
    let file = match backend_file::read(&tree.path(&path)) {
        Ok(file) => file,
        Err(why) => {
            return vec![found(&table::NIXL_BACKEND_NOT_LOADABLE, format!("{shown}: {why}"))];
        }
    };
    if let Some(why) = libraries::missing(host, &file.requires) {
        return vec![found(&table::NIXL_BACKEND_TOO_NEW, format!("{shown} {why}"))];
    }
    let strings = match file.strings {
        StringAbi::Current => None,
        StringAbi::PreCxx11 => Some("strings of libstdc++'s older layout"),
        StringAbi::Libcxx => Some("strings of libc++"),
    };
    if let Some(strings) = strings {
        return vec![found(&table::NIXL_BACKEND_OTHER_ABI, format!("{shown} has {strings}"))];
    }
    let own = env!("CARGO_PKG_VERSION");
    let version = file.version.unwrap_or_else(|| "of an unknown version".to_owned());
    let backend = name.trim_start_matches(PREFIX).trim_end_matches(SUFFIX);
    let mut findings = vec![if name == TCPX {
        found(&table::NIXL_BACKEND_FOUND, format!("{reader} has {TCPX} {version}"))
    } else {
        let seen = format!("{shown} is the TCPX backend {version}");
        found(&table::NIXL_BACKEND_STANDS_IN, seen).with("<NAME>", backend)
    }];
    if version != own {
        let seen = format!("{shown} is {version}, this is {own}");
        findings.push(found(&table::NIXL_BACKEND_OTHER_VERSION, seen));
    }
    findings
}

/// Returns the finding about the version of a NIXL, unless it is a tested one.
fn check_version(nixl: &InstalledNixl) -> Option<Finding> {
    let mut numbers = nixl.version.split('.').map(|part| part.parse::<u32>().ok());
    let version = (numbers.next()??, numbers.next()??);
    let diagnosis = if version < OLDEST {
        &table::NIXL_TOO_OLD
    } else if version > NEWEST_TESTED {
        &table::NIXL_UNTESTED
    } else {
        return None;
    };
    let seen = format!("NIXL {} in {}", nixl.version, nixl.folder.display());
    Some(Finding::new(diagnosis, seen))
}
