//! Check: a rule, the section of docs/plugin-contract.md that has the rule, and the function that
//! tries it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::harness::fixture::Fixture;
use crate::harness::verdict::Verdict;

/// The page whose sections checks cite, as a path from the root of tcpx's source tree: `§2.7` is
/// the heading `§2.7` there.
pub const CONTRACT: &str = "docs/plugin-contract.md";

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Group {
    /// Symbol, table, properties.
    Abi,
    /// `init` to `closeListen`.
    Lifecycle,
    /// `regMr`, `deregMr`, `getDeviceMr`.
    Registration,
    /// Arguments of `isend` and `irecv`, and how many fit.
    Requests,
    /// Order of `test` and `irecvConsumed`.
    Fifo,
    /// Message sizes.
    Sizes,
    /// Entries of the unpack queue.
    Entries,
    /// Slots of the unpack queue.
    Queue,
    /// What moves bytes, and for how long it keeps moving them.
    Progress,
    /// Host memory and its mixes.
    Host,
    /// A peer that goes away.
    Peer,
    /// Several comms at once.
    Comms,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Abi => "abi",
            Self::Lifecycle => "lifecycle",
            Self::Registration => "registration",
            Self::Requests => "requests",
            Self::Fifo => "fifo",
            Self::Sizes => "sizes",
            Self::Entries => "entries",
            Self::Queue => "queue",
            Self::Progress => "progress",
            Self::Host => "host",
            Self::Peer => "peer",
            Self::Comms => "comms",
        })
    }
}

/// One rule and the way to try it.
#[derive(Clone, Copy)]
pub struct Check {
    /// `group.rule`, unique.
    pub name: &'static str,
    /// Section of the plugin contract ([`CONTRACT`]), such as `§2.7`.
    pub section: &'static str,
    /// What it is about; the first part of the name.
    pub group: Group,
    /// Whether it crashes version 3.1.9.
    pub destructive: bool,
    /// The rule in one sentence.
    pub what: &'static str,
    pub(crate) body: fn(&Fixture<'_>) -> Verdict,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name, self.section, self.what)
    }
}

/// The checks of one file, as its `CHECKS`: name, section and the function that tries it, then the
/// rule. `#[destructive]` stands before those that crash version 3.1.9.
macro_rules! checks {
    ($group:ident: $(
        $(#[$mark:ident])? $name:literal, $section:literal, $body:expr => $what:literal;
    )*) => {
        pub(super) const CHECKS: &[$crate::check::Check] = &[$($crate::check::Check {
            name: $name,
            section: $section,
            group: $crate::check::Group::$group,
            destructive: $crate::check::checks!(@marked $($mark)?),
            what: $what,
            body: $body,
        }),*];
    };
    (@marked) => { false };
    (@marked destructive) => { true };
}
pub(crate) use checks;
