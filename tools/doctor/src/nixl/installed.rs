//! Installed NIXLs: wheels in the folders that this environment's Python searches.

use std::path::{Path, PathBuf};

use tcpx_diagnosis::variables::{Env, value};
use tcpx_diagnosis::{Host, Tree};

/// An installed NIXL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstalledNixl {
    /// Version of its wheel.
    pub(super) version: String,
    /// Folder of backends, unless `NIXL_PLUGIN_DIR` names another.
    pub(super) folder: PathBuf,
}

/// Distributions of NIXL: the first one was for all, later ones are for a major version of CUDA.
const DISTRIBUTIONS: [&str; 3] = ["nixl", "nixl_cu12", "nixl_cu13"];

/// Returns every NIXL once, in the order in which Python searches.
pub(super) fn installed(host: &Host<'_>) -> Vec<InstalledNixl> {
    let tree = host.tree();
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for site in sites(&tree, host.env) {
        // One folder may have several names.
        let Ok(real) = tree.canonical(&site) else { continue };
        if !seen.contains(&real) {
            seen.push(real);
            found.extend(tree.names(&site).iter().filter_map(|name| wheel(&tree, &site, name)));
        }
    }
    found
}

/// Returns the NIXL of an entry of a site folder, if it is one.
fn wheel(tree: &Tree<'_>, site: &Path, entry: &str) -> Option<InstalledNixl> {
    let (distribution, version) = entry.strip_suffix(".dist-info")?.split_once('-')?;
    if !DISTRIBUTIONS.contains(&distribution) {
        return None;
    }
    let folder = site.join(format!(".{distribution}.mesonpy.libs/plugins"));
    // The distribution that only chooses among the others has no libraries.
    tree.exists(&folder).then(|| InstalledNixl { version: version.to_owned(), folder })
}

/// Returns the folders of Python's packages: those of `PYTHONPATH`, then those beside the programs.
fn sites(tree: &Tree<'_>, env: &Env) -> Vec<PathBuf> {
    let list = |name: &str| -> Vec<PathBuf> {
        let all = value(env, name).unwrap_or_default();
        all.split(':').filter(|path| path.starts_with('/')).map(PathBuf::from).collect()
    };
    let beside = list("PATH");
    let prefixes = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().flat_map(|name| list(name));
    let prefixes = prefixes.chain(beside.iter().filter_map(|bin| Some(bin.parent()?.to_owned())));
    let mut sites = list("PYTHONPATH");
    for prefix in prefixes {
        for libraries in [prefix.join("lib"), prefix.join("lib64")] {
            let names = tree.names(&libraries).into_iter();
            for python in names.filter(|name| name.starts_with("python3")) {
                let folder = libraries.join(python);
                sites.extend(["site-packages", "dist-packages"].map(|name| folder.join(name)));
            }
        }
    }
    sites
}
