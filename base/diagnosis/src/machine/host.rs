//! Files, environment and facts of one machine, together.

use std::path::Path;
use std::time::Duration;

use super::facts::Facts;
use super::live::LiveFacts;
use super::tree::Tree;
use crate::variables::Env;

/// How long one question to RxDM or to a peer may take when nothing else is said.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(2);

/// Where the kernel lists the CPUs that the machine has.
const CPUS: &str = "/sys/devices/system/cpu/present";

/// One machine: its files below a root, an environment, and what must be asked.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Host<'a> {
    /// Where its file system starts, `/` for this machine.
    pub root: &'a Path,
    /// The environment that the plugin will see.
    pub env: &'a Env,
    /// What files do not tell.
    pub facts: &'a dyn Facts,
    /// How long one question to RxDM or to a peer may take.
    pub deadline: Duration,
}

impl<'a> Host<'a> {
    /// This machine, with two seconds for each question.
    #[must_use]
    pub fn this(env: &'a Env) -> Self {
        Self { root: Path::new("/"), env, facts: &LiveFacts, deadline: DEFAULT_DEADLINE }
    }

    /// The machine's files.
    #[must_use]
    pub fn tree(&self) -> Tree<'a> {
        Tree::new(self.root)
    }

    /// How many CPUs the machine has: one more than the highest of the kernel's list (`0-207`). 0
    /// when it is unknown.
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
