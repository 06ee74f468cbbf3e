//! Requirements for a crate to be published, or the word that it is not.

use std::collections::BTreeSet;
use std::path::Path;

use cargo_metadata::Package;

#[test]
fn a_crate_is_ready_to_be_published_or_says_that_it_is_not() {
    let mut published = BTreeSet::new();
    let mut wrong = String::new();
    for (name, package) in super::workspace() {
        // What `publish = false` becomes.
        if package.publish == Some(Vec::new()) {
            continue;
        }
        for fault in faults(package) {
            wrong += &format!("{name}: {fault}\n");
        }
        published.insert(name.as_str());
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    for name in ["tcpx-core", "tcpx-capi", "tcpx-cli"] {
        assert!(published.contains(name), "{name} is for users");
    }
}

fn faults(package: &Package) -> Vec<String> {
    let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate lies in a folder");
    let is_of_root = |name: &str| {
        let read = |folder: &Path| std::fs::read(folder.join(name)).ok();
        read(folder.as_std_path()).is_some_and(|bytes| Some(bytes) == read(root))
    };
    let mut faults = Vec::new();
    let mut demand = |is_fine: bool, fault: &str| {
        if !is_fine {
            faults.push(fault.to_owned());
        }
    };
    demand(package.description.is_some(), "no description");
    demand(package.license.is_some(), "no license");
    demand(is_of_root("LICENSE"), "LICENSE is not that of the workspace");
    demand(package.readme.is_some(), "no readme");
    let readme = package.readme.as_ref().is_none_or(|readme| folder.join(readme).is_file());
    demand(readme, "the readme is not there");
    demand((1..=5).contains(&package.keywords.len()), "crates.io takes 1 to 5 keywords");
    demand(!package.categories.is_empty(), "no categories");
    let mut headers = root.join("include").read_dir().expect("there are headers");
    let has_headers = headers.all(|entry| {
        let name = entry.expect("it is read").file_name();
        is_of_root(&format!("include/{}", name.display()))
    });
    demand(package.name != "tcpx-capi" || has_headers, "the headers are not in the package");
    faults
}
