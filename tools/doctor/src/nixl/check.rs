//! Findings about NIXL's backends here.

use std::path::Path;

use tcpx_diagnosis::table::nixl as table;
use tcpx_diagnosis::variables::value;
use tcpx_diagnosis::{Finding, Host};

use super::backend_file::{self, Strings};
use super::installed::{Installed, installed};
use super::libraries;

/// Says where NIXL looks for backends, whatever it would find by itself.
const VARIABLE: &str = "NIXL_PLUGIN_DIR";
const TCPX: &str = "libplugin_TCPX.so";
const UCX: &str = "libplugin_UCX.so";

/// The first one with today's interface, and the last one that was tested.
const OLDEST: (u32, u32) = (1, 0);
const NEWEST_TESTED: (u32, u32) = (1, 5);

/// Examines every NIXL of this machine. Without any, and without the variable, there is nothing to
/// say.
pub(crate) fn check(host: &Host<'_>) -> Vec<Finding> {
    let tree = host.tree();
    let all = installed(host);
    let Some(wanted) = value(host.env, VARIABLE) else {
        return all.iter().flat_map(|nixl| check_installed(host, nixl)).collect();
    };
    let folder = Path::new(wanted);
    if !tree.path(folder).is_dir() {
        let seen = format!("{VARIABLE}={wanted} is no folder");
        return vec![Finding::new(&table::NIXL_PLUGIN_DIR_MISSING, seen).with("<FOLDER>", wanted)];
    }
    let whose = format!("{VARIABLE}={wanted}");
    let mut findings = check_folder(host, folder, &whose);
    if tree.exists(folder.join(TCPX)) {
        if !tree.exists(folder.join(UCX)) {
            let seen = format!("{whose} has no {UCX}");
            findings.push(Finding::new(&table::NIXL_BACKENDS_HIDDEN, seen));
        }
        findings.extend(all.iter().filter_map(check_version));
    }
    findings
}

/// One NIXL with its own folder.
fn check_installed(host: &Host<'_>, nixl: &Installed) -> Vec<Finding> {
    let tree = host.tree();
    let whose = format!("NIXL {} in {}", nixl.version, nixl.folder.display());
    let mut findings = check_folder(host, &nixl.folder, &whose);
    if tree.exists(nixl.folder.join(TCPX)) {
        findings.extend(check_version(nixl));
    }
    findings
}

/// Finds what is wrong in a folder of backends. `whose` names the reader of the folder.
fn check_folder(host: &Host<'_>, folder: &Path, whose: &str) -> Vec<Finding> {
    let tree = host.tree();
    let path = folder.join(TCPX);
    if !tree.exists(&path) {
        let seen = format!("{whose} has no {TCPX}");
        return vec![Finding::new(&table::NIXL_BACKEND_ABSENT, seen)];
    }
    let shown = path.display().to_string();
    let found = |diagnosis, seen: String| Finding::new(diagnosis, seen).with("<PATH>", &shown);
    let file = match backend_file::read(&tree.path(&path)) {
        Ok(file) => file,
        Err(why) => {
            return vec![found(&table::NIXL_BACKEND_NOT_LOADABLE, format!("{shown}: {why}"))];
        }
    };
    if let Some(why) = libraries::missing(host, &file.needs) {
        return vec![found(&table::NIXL_BACKEND_TOO_NEW, format!("{shown} {why}"))];
    }
    let strings = match file.strings {
        Strings::New => None,
        Strings::Old => Some("strings of libstdc++'s older layout"),
        Strings::OtherLibrary => Some("strings of libc++"),
    };
    if let Some(strings) = strings {
        return vec![found(&table::NIXL_BACKEND_OTHER_ABI, format!("{shown} has {strings}"))];
    }
    let own = env!("CARGO_PKG_VERSION");
    let version = file.version.unwrap_or_else(|| "of an unknown version".to_owned());
    let mut findings =
        vec![found(&table::NIXL_BACKEND_FOUND, format!("{whose} has {TCPX} {version}"))];
    if version != own {
        let seen = format!("{shown} is {version}, this is {own}");
        findings.push(found(&table::NIXL_BACKEND_OTHER_VERSION, seen));
    }
    if tree.exists(folder.join(UCX)) {
        let seen = format!("{whose} has {UCX} too");
        findings.push(Finding::new(&table::NIXL_BACKENDS_COMPETE, seen));
    }
    findings
}

fn check_version(nixl: &Installed) -> Option<Finding> {
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
