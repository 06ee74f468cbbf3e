//! Files, environment and facts of one machine, together.

use std::path::Path;
use std::time::Duration;

use super::facts::Facts;
use super::live::LiveFacts;
use super::tree::Tree;
use crate::variables::Env;

/// How long one question to RxDM or to a peer may take when nothing else is said.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(2);

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
}
