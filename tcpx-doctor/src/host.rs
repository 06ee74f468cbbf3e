//! One machine, as the checks see it.

use std::path::Path;
use std::time::Duration;

use crate::environment::Env;
use crate::kernel::Kernel;
use crate::tree::Tree;

/// How long one question to RxDM or to a peer may take when nothing else is said.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(2);

/// One machine: its files below a root, an environment, and the running kernel's answers.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Where its file system starts, `/` for this machine.
    pub root: &'a Path,
    /// The environment that the plugin will see.
    pub env: &'a Env,
    /// What files do not tell.
    pub kernel: &'a dyn Kernel,
    /// How long one question to RxDM or to a peer may take.
    pub deadline: Duration,
}

impl<'a> Host<'a> {
    /// This machine, with two seconds for each question.
    #[must_use]
    pub fn this(env: &'a Env, kernel: &'a dyn Kernel) -> Self {
        Self { root: Path::new("/"), env, kernel, deadline: DEFAULT_DEADLINE }
    }

    pub(crate) fn tree(&self) -> Tree<'a> {
        Tree::new(self.root)
    }
}
