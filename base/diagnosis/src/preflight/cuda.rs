//! The NVIDIA driver and its GPUs, from files and a search for the library.

use std::path::Path;

use crate::machine::facts::Facts;
use crate::machine::library_path;
use crate::machine::tree::Tree;
use crate::pci::Gpu;
use crate::report::Finding;
use crate::table::{plugin as table, topology};
use crate::variables::Env;

/// Oldest driver whose PTX compiler accepts our kernels.
const OLDEST_DRIVER: u32 = 535;
const DRIVER_LIBRARY: &str = "libcuda.so.1";
/// Directory in which A3 container images expect the driver's libraries.
const NVIDIA_DIRECTORY: &str = "/usr/local/nvidia/lib64";

pub(crate) fn check(tree: &Tree<'_>, env: &Env, facts: &dyn Facts, gpus: &[Gpu]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(reason) = facts.find_cuda() {
        findings.push(Finding::new(&table::CUDA_LIBRARY_MISSING, reason));
    }
    match tree.text("/proc/driver/nvidia/version") {
        Ok(text) => findings.extend(check_version(&text)),
        Err(error) => {
            let seen = format!("/proc/driver/nvidia/version: {error}");
            findings.push(Finding::new(&table::CUDA_DRIVER_NOT_LOADED, seen));
        }
    }
    if gpus.is_empty() {
        let seen = "no NVIDIA display controller on PCI and none in /proc/driver/nvidia/gpus";
        findings.push(Finding::new(&table::GPU_MISSING, seen));
    } else if !tree.exists("/dev/nvidiactl") {
        let seen = format!("{} GPUs on PCI, but no /dev/nvidiactl", gpus.len());
        findings.push(Finding::new(&table::GPU_NODES_MISSING, seen));
    }
    // Without any GPU in the driver's list, another finding is more specific.
    if gpus.iter().any(|gpu| gpu.has_driver) {
        findings.extend(gpus.iter().filter(|gpu| !gpu.has_driver).map(|gpu| {
            let seen = format!("{} is not in /proc/driver/nvidia/gpus", gpu.pci_bus_id);
            Finding::new(&topology::GPU_WITHOUT_DRIVER, seen)
        }));
    }
    findings.extend(check_library_path(tree, env));
    findings
}

fn check_version(text: &str) -> Option<Finding> {
    let version = driver_version(text)?;
    (version < OLDEST_DRIVER)
        .then(|| Finding::new(&table::CUDA_DRIVER_OLD, format!("the driver has version {version}")))
}

/// Returns the major version in the line `NVRM version: NVIDIA UNIX x86_64 Kernel Module
/// 535.183.01  Sun May 12 …`. The open modules print `NVIDIA UNIX Open Kernel Module for x86_64
/// 550.90.07  …`.
fn driver_version(text: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    line.split_whitespace().find_map(|word| {
        let (major, rest) = word.split_once('.')?;
        let is_version = rest.starts_with(|c: char| c.is_ascii_digit());
        major.parse().ok().filter(|_| is_version)
    })
}

fn check_library_path(tree: &Tree<'_>, env: &Env) -> Vec<Finding> {
    let directories = library_path::from_env(env);
    let is_there = tree.exists(Path::new(NVIDIA_DIRECTORY).join(DRIVER_LIBRARY));
    let found = library_path::find(tree, env, &[], Path::new("/"), DRIVER_LIBRARY);
    let mut findings = Vec::new();
    if is_there && found.is_none() {
        let seen =
            format!("{DRIVER_LIBRARY} lies in {NVIDIA_DIRECTORY}, where it is not looked for");
        findings.push(Finding::new(&table::LIBRARY_PATH_WITHOUT_NVIDIA, seen));
    }
    findings.extend(directories.iter().filter(|directory| !tree.exists(directory)).map(
        |directory| {
            let directory = directory.display().to_string();
            Finding::new(
                &table::LIBRARY_PATH_MISSING_DIRECTORY,
                format!("LD_LIBRARY_PATH names {directory}, which does not exist"),
            )
            .with("<PATH>", &directory)
        },
    ));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_both_kinds_of_module() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n\
                      GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build\n";
        assert_eq!(driver_version(closed), Some(535));
        assert_eq!(driver_version(open), Some(550));
        assert_eq!(driver_version("GCC version: 12.2.0"), None);
    }
}
