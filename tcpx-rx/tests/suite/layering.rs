//! The crate stands on nothing: it must build where there is no operating system.

/// Names of the tables of the manifest that bring crates into the library or its build.
fn dependency_tables(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .filter_map(|line| line.trim().strip_prefix('[')?.strip_suffix(']'))
        .filter(|table| {
            let parts: Vec<_> = table.split('.').map(str::trim).collect();
            parts.iter().any(|part| matches!(*part, "dependencies" | "build-dependencies"))
        })
        .collect()
}

#[test]
fn the_library_has_no_dependencies() {
    assert_eq!(dependency_tables(include_str!("../../Cargo.toml")), Vec::<&str>::new());
}

#[test]
fn every_way_to_depend_is_seen() {
    let manifest = "[dependencies]\n[dependencies.libc]\n [target.'cfg(unix)'.dependencies] \n\
                    [build-dependencies]\n[dev-dependencies]\n[features]\n";
    assert_eq!(
        dependency_tables(manifest),
        [
            "dependencies",
            "dependencies.libc",
            "target.'cfg(unix)'.dependencies",
            "build-dependencies"
        ]
    );
}
