//! Files, environment and facts of one machine, together.

use std::path::Path;
use std::time::Duration;

use super::facts::Facts;
use super::live::LiveFacts;
use super::tree::Tree;
use crate::variables::Env;

/// Default deadline of one request to RxDM or to a peer.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(2);

/// File in which the kernel lists the CPUs of the machine.
const CPUS: &str = "/sys/devices/system/cpu/present";

/// One machine: its files below a root, an environment, and the facts to ask for.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Host<'a> {
    /// Root of the file system, `/` for this machine.
    pub root: &'a Path,
    /// Environment that the plugin will see.
    pub env: &'a Env,
    /// Facts that no file contains.
    pub facts: &'a dyn Facts,
    /// Deadline of one request to RxDM or to a peer.
    pub deadline: Duration,
}

impl<'a> Host<'a> {
    /// Returns this machine, with two seconds for each request.
    #[must_use]
    pub fn this(env: &'a Env) -> Self {
        Self { root: Path::new("/"), env, facts: &LiveFacts, deadline: DEFAULT_DEADLINE }
    }

    /// Returns the machine's files.
    #[must_use]
    pub fn tree(&self) -> Tree<'a> {
        Tree::new(self.root)
    }

    /// Returns the number of CPUs of the machine: one more than the highest of the kernel's list
    /// (`0-207`). Returns 0 when the number is unknown.
    #[must_use]
    pub fn cpu_count(&self) -> u32 {
        let list = self.tree().word(CPUS).unwrap_or_default();
        let numbers = list.split([',', '-']).filter_map(|number| number.parse::<u32>().ok());
        numbers.max().map_or(0, |highest| highest.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_counted_from_the_kernels_list() {
        let root = tempfile::tempdir().unwrap();
        let env = Env::new();
        let host = Host { root: root.path(), ..Host::this(&env) };
        assert_eq!(host.cpu_count(), 0, "there is no list");
        let file = root.path().join(CPUS.trim_start_matches('/'));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (list, expected) in [("0-207\n", 208), ("0", 1), ("0-3,8-11\n", 12), ("", 0), ("x", 0)]
        {
            std::fs::write(&file, list).unwrap();
            assert_eq!(host.cpu_count(), expected, "{list:?}");
        }
    }
}
