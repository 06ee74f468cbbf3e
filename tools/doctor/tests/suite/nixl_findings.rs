//! Findings about NIXL and about the backend that it would find.

use tcpx_diagnosis::{Finding, Severity};

use crate::fixture::host_tree::PLUGIN;
use crate::fixture::{codes, one, plugin_library};
use crate::machine::Machine;

const OWN: &str = env!("CARGO_PKG_VERSION");
/// A function of the C++ standard library as it is now, and as it was.
const NEW: &str = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm";
const OLD: &str = "_ZNSs6appendEPKcm";
const LIBCXX: &str = "_ZNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE6appendEPKc";

const SITE: &str = "/opt/serving/lib/python3.12/site-packages";
const FOLDER: &str = "/opt/serving/lib/python3.12/site-packages/.nixl_cu12.mesonpy.libs/plugins";

/// A host whose Python has the wheels of this NIXL.
fn with_nixl(version: &str) -> Machine {
    let mut machine = Machine::healthy();
    machine.set("PATH", "/usr/local/bin:relative:/opt/serving/bin");
    for distribution in ["nixl", "nixl_cu12", "numpy"] {
        machine.write(&format!("{SITE}/{distribution}-{version}.dist-info/METADATA"), "");
    }
    machine.write(&format!("{FOLDER}/libplugin_UCX.so"), "");
    machine
}

fn install(machine: &Machine, folder: &str, version: Option<&str>, needs: &str) {
    let library = plugin_library::nixl_backend(version, needs);
    machine.install(&format!("{folder}/libplugin_TCPX.so"), &library);
}

/// Returns the findings about NIXL; this machine has no others.
fn findings(machine: &Machine) -> Vec<Finding> {
    let findings = machine.examine();
    assert!(codes(&findings).iter().all(|code| code.starts_with("TCPX-10")), "{findings:#?}");
    findings
}

#[test]
fn a_backend_beside_nixls_own_is_found_with_its_version() {
    let machine = with_nixl("1.5.1");
    install(&machine, FOLDER, Some(OWN), NEW);
    let findings = findings(&machine);
    assert_eq!(codes(&findings), ["TCPX-1001", "TCPX-1005"]);
    assert_eq!(findings[0].seen, format!("NIXL 1.5.1 in {FOLDER} has libplugin_TCPX.so {OWN}"));
    assert!(findings.iter().all(|finding| finding.severity == Severity::Info));
}

#[test]
fn a_backend_in_the_place_of_another_is_a_warning() {
    let machine = with_nixl("1.5.1");
    let (ucx, path) = ("libplugin_UCX.so", format!("{FOLDER}/libplugin_UCX.so"));
    machine.write(&format!("{path}.original"), "");
    machine.install(&path, &plugin_library::nixl_backend(Some(OWN), NEW));
    let alone = findings(&machine);
    assert_eq!(codes(&alone), ["TCPX-1012"], "there is no {ucx} of NIXL to compete with");
    assert_eq!(alone[0].severity, Severity::Warning);
    assert_eq!(alone[0].seen, format!("{path} is the TCPX backend {OWN}"));
    assert!(alone[0].cure[1].ends_with("uninstall --as UCX"), "{}", alone[0]);

    install(&machine, FOLDER, Some(OWN), NEW);
    let both = findings(&machine);
    let mut all = codes(&both);
    all.sort();
    assert_eq!(all, ["TCPX-1001", "TCPX-1012"]);

    machine.install(&path, &plugin_library::nixl_backend(Some("0.0.1"), NEW));
    machine.remove(&format!("{FOLDER}/libplugin_TCPX.so"));
    assert_eq!(
        one(&findings(&machine), "TCPX-1010").seen,
        format!("{path} is 0.0.1, this is {OWN}")
    );
}

#[test]
fn each_variable_of_python_finds_its_nixl_once() {
    for (name, value) in [
        ("PYTHONPATH", SITE),
        ("VIRTUAL_ENV", "/opt/serving"),
        ("CONDA_PREFIX", "/opt/serving"),
        ("PATH", "/opt/serving/bin:/opt/serving/sbin"),
    ] {
        let mut machine = with_nixl("1.4.0");
        machine.set("PATH", "/usr/bin");
        machine.set(name, value);
        let findings = findings(&machine);
        assert_eq!(codes(&findings), ["TCPX-1002"], "{name}");
        assert_eq!(findings[0].seen, format!("NIXL 1.4.0 in {FOLDER} has no libplugin_TCPX.so"));
    }
    let machine = Machine::healthy();
    assert_eq!(findings(&machine), [], "there is no NIXL");
}

#[test]
fn the_variable_takes_the_place_of_nixls_own_folder() {
    let mut machine = with_nixl("1.5.1");
    machine.set("NIXL_PLUGIN_DIR", "/opt/backends");
    let missing = findings(&machine);
    assert_eq!(codes(&missing), ["TCPX-1003"]);
    assert_eq!(missing[0].cure[0], "ls -ld /opt/backends");
    assert_eq!(missing[0].severity, Severity::Error);

    machine.write("/opt/backends/libplugin_UCX.so", "");
    install(&machine, FOLDER, Some(OWN), NEW);
    assert_eq!(codes(&findings(&machine)), ["TCPX-1002"], "other folders do not count");

    install(&machine, "/opt/backends", Some(OWN), NEW);
    assert_eq!(codes(&findings(&machine)), ["TCPX-1001", "TCPX-1005"]);
    machine.remove("/opt/backends/libplugin_UCX.so");
    assert_eq!(codes(&findings(&machine)), ["TCPX-1001", "TCPX-1004"]);
}

#[test]
fn a_file_that_nixl_cannot_load_is_an_error() {
    let machine = with_nixl("1.5.1");
    let file = format!("{FOLDER}/libplugin_TCPX.so");
    machine.write(&file, "text");
    let truncated = findings(&machine);
    let finding = one(&truncated, "TCPX-1006");
    assert!(finding.seen.starts_with(&file), "{finding}");
    assert_eq!(finding.cure[0], format!("file -L {file}"));
    machine.install(&file, &plugin_library::no_table());
    let other = findings(&machine);
    assert!(one(&other, "TCPX-1006").seen.contains("does not export nixl_plugin_init"));
    machine.remove(&file);
    machine.write(&format!("{file}/inside"), "");
    assert!(one(&findings(&machine), "TCPX-1006").seen.contains("not a regular file"));
}

#[test]
fn a_backend_for_another_standard_library_is_an_error() {
    for (needs, what) in [(OLD, "older layout"), (LIBCXX, "libc++")] {
        let machine = with_nixl("1.5.1");
        install(&machine, FOLDER, Some(OWN), needs);
        let findings = findings(&machine);
        assert_eq!(codes(&findings), ["TCPX-1007"]);
        assert!(findings[0].seen.contains(what), "{}", findings[0]);
        assert_eq!(findings[0].severity, Severity::Error);
    }
}

/// Built over a later library than the one that is here.
fn with_library(name: &str, has: &[&str], needs: &[&str]) -> Machine {
    let machine = with_nixl("1.5.1");
    let built_over = plugin_library::system_library(name, needs);
    machine.install(
        &format!("{FOLDER}/libplugin_TCPX.so"),
        &plugin_library::nixl_backend_over(OWN, &built_over),
    );
    let folder = plugin_library::system_folder();
    machine.install(&format!("{folder}/{name}"), &plugin_library::system_library(name, has));
    machine
}

#[test]
fn a_backend_for_later_libraries_is_an_error() {
    for (name, has, needs, missing) in [
        ("libc.so.6", &["GLIBC_2.28"][..], &["GLIBC_2.28"][..], None),
        ("libc.so.6", &["GLIBC_2.28", "GLIBC_2.36"], &["GLIBC_2.28"], None),
        (
            "libc.so.6",
            &["GLIBC_2.28"],
            &["GLIBC_2.28", "GLIBC_2.9", "GLIBC_2.38"],
            Some("GLIBC_2.38"),
        ),
        (
            "libstdc++.so.6",
            &["GLIBCXX_3.4.9"],
            &["GLIBCXX_3.4.9", "GLIBCXX_3.4.32"],
            Some("GLIBCXX_3.4.32"),
        ),
    ] {
        let machine = with_library(name, has, needs);
        let findings = findings(&machine);
        let Some(missing) = missing else {
            assert_eq!(codes(&findings), ["TCPX-1001", "TCPX-1005"]);
            continue;
        };
        assert_eq!(codes(&findings), ["TCPX-1011"]);
        let path = format!("{}/{name}", plugin_library::system_folder());
        let seen =
            format!("{FOLDER}/libplugin_TCPX.so needs {missing}, which {path} does not have");
        assert_eq!(findings[0].seen, seen);
        assert_eq!(findings[0].severity, Severity::Error);
    }
}

#[test]
fn the_library_that_the_process_would_load_counts() {
    let versions = ["GLIBCXX_3.4.9", "GLIBCXX_3.4.32"];
    for (variable, value) in [("LD_LIBRARY_PATH", "relative:/opt/new"), ("CONDA_PREFIX", "/opt")] {
        let mut machine = with_library("libstdc++.so.6", &versions[..1], &versions);
        let new = plugin_library::system_library("libstdc++.so.6", &versions);
        let folder = if value == "/opt" { "/opt/lib" } else { "/opt/new" };
        machine.write(&format!("{folder}/libc.so.6"), "not a library");
        machine.install(&format!("{folder}/libstdc++.so.6"), &new);
        assert_eq!(codes(&findings(&machine)), ["TCPX-1011"]);
        machine.set(variable, value);
        // The variables are worth a word too.
        let mut said = codes(&machine.examine());
        said.retain(|code| code.starts_with("TCPX-10"));
        assert_eq!(said, ["TCPX-1001", "TCPX-1005"], "{variable}");
    }
}

#[test]
fn versions_that_do_not_fit_are_named() {
    for (nixl, backend, expected) in [
        ("0.10.1", Some(OWN), Some("TCPX-1008")),
        ("1.0.1", Some(OWN), None),
        ("1.6.0", Some(OWN), Some("TCPX-1009")),
        ("2.0", Some(OWN), Some("TCPX-1009")),
        ("unknown", Some(OWN), None),
        ("1.5.1", Some("0.0.1"), Some("TCPX-1010")),
        ("1.5.1", None, Some("TCPX-1010")),
    ] {
        let machine = with_nixl(nixl);
        install(&machine, FOLDER, backend, NEW);
        let findings = findings(&machine);
        let others = ["TCPX-1001", "TCPX-1005"];
        let rest: Vec<String> =
            codes(&findings).into_iter().filter(|code| !others.contains(&code.as_str())).collect();
        assert_eq!(rest, expected.into_iter().collect::<Vec<_>>(), "{nixl} {backend:?}");
    }
    // Without the backend there is no check whether it would fit.
    assert_eq!(codes(&findings(&with_nixl("0.10.1"))), ["TCPX-1002"]);
}

#[test]
fn the_software_plugin_does_not_make_it_milder() {
    let mut machine = with_nixl("1.5.1");
    machine.install(PLUGIN, plugin_library::software());
    machine.set("NIXL_PLUGIN_DIR", "/nowhere");
    assert_eq!(one(&machine.examine(), "TCPX-1003").severity, Severity::Error);
}
