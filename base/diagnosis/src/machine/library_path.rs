//! Search path of the dynamic linker.

use std::path::{Path, PathBuf};

use super::tree::Tree;
use crate::variables::{Env, value};

/// Directories that the linker searches by default, on Debian, Red Hat and COS alike.
#[cfg(target_arch = "aarch64")]
const DEFAULT_DIRECTORIES: [&str; 6] = [
    "/lib64",
    "/usr/lib64",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib",
    "/usr/lib",
];
/// Directories that the linker searches by default, on Debian, Red Hat and COS alike.
#[cfg(not(target_arch = "aarch64"))]
const DEFAULT_DIRECTORIES: [&str; 6] = [
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib",
    "/usr/lib",
];

/// Depth to which `include` lines of `ld.so.conf` are followed.
const MAX_INCLUDES: usize = 4;

/// Returns the directories of `LD_LIBRARY_PATH`, in order, without empty ones.
pub(crate) fn from_env(env: &Env) -> Vec<PathBuf> {
    let list = value(env, "LD_LIBRARY_PATH").unwrap_or_default();
    list.split([':', ';']).filter(|directory| !directory.is_empty()).map(PathBuf::from).collect()
}

/// Returns the path at which the linker finds the library `name` that a library in `origin` with
/// `run_paths` needs.
///
/// Directories of `ld.so.conf` stand for the linker's cache, which is made from them.
pub(crate) fn find(
    tree: &Tree<'_>,
    env: &Env,
    run_paths: &[String],
    origin: &Path,
    name: &str,
) -> Option<PathBuf> {
    let run_paths = run_paths.iter().map(|path| {
        let origin = origin.to_string_lossy();
        PathBuf::from(path.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
    });
    from_env(env)
        .into_iter()
        .chain(run_paths)
        .chain(configured(tree, Path::new("/etc/ld.so.conf"), 0))
        .chain(DEFAULT_DIRECTORIES.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|path| tree.exists(path))
}

fn configured(tree: &Tree<'_>, file: &Path, depth: usize) -> Vec<PathBuf> {
    let text = tree.text(file).unwrap_or_default();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut directories = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        match line.strip_prefix("include") {
            Some(pattern) if depth < MAX_INCLUDES => {
                for file in included(tree, pattern.trim()) {
                    directories.extend(configured(tree, &file, depth + 1));
                }
            }
            Some(_) => {}
            None => directories.push(PathBuf::from(line)),
        }
    }
    directories
}

/// Returns the files of an `include`. Its only pattern in use is `directory/*.conf`.
fn included(tree: &Tree<'_>, pattern: &str) -> Vec<PathBuf> {
    let path = Path::new(pattern);
    match (path.parent(), path.file_name().and_then(|name| name.to_str())) {
        (Some(directory), Some(name)) if name.starts_with('*') => tree
            .names(directory)
            .into_iter()
            .filter(|candidate| candidate.ends_with(&name[1..]))
            .map(|candidate| directory.join(candidate))
            .collect(),
        _ => vec![path.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_kind_of_directory_is_searched() {
        let root = tempfile::tempdir().expect("a directory");
        for file in [
            "etc/ld.so.conf.d/a.conf",
            "opt/here/liba.so",
            "conf/libb.so",
            "lib/libc.so",
            "env/libd.so",
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, if file.ends_with("conf") { "/conf # ours\n" } else { "" })
                .expect("a file");
        }
        fs::write(root.path().join("etc/ld.so.conf"), "include /etc/ld.so.conf.d/*.conf\n")
            .expect("a file");
        let tree = Tree::new(root.path());
        let env = Env::from([("LD_LIBRARY_PATH".to_owned(), ":/none:/env".to_owned())]);
        let found = |name: &str| {
            find(&tree, &env, &["$ORIGIN/here".to_owned()], Path::new("/opt"), name)
                .map(|path| path.to_string_lossy().into_owned())
        };
        assert_eq!(found("liba.so").as_deref(), Some("/opt/here/liba.so"));
        assert_eq!(found("libb.so").as_deref(), Some("/conf/libb.so"));
        assert_eq!(found("libc.so").as_deref(), Some("/lib/libc.so"));
        assert_eq!(found("libd.so").as_deref(), Some("/env/libd.so"));
        assert_eq!(found("libe.so"), None);
    }
}
