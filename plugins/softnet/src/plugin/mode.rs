//! Role of the plugin for its caller: a transport of sessions, or one of NCCL, which unpacks or
//! does not. Also the values that NCCL's own settings must have where it unpacks. Pure.

use std::fmt;

use super::caller::Caller;
use super::nccl_mode::NcclMode;
use super::settings::Settings;
use super::variables::{SettingsError, Variables};
use crate::log;
use crate::memory::{BounceMemory, DeviceMemory};

/// Role of the plugin for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The original's contract, for a program that drives the table by itself.
    Program,
    /// NCCL, over host memory.
    NcclHost,
    /// NCCL, whose kernels unpack.
    NcclUnpack,
}

impl Mode {
    /// Returns whether receives are for a consumer that gets the places of the bytes.
    pub(crate) fn unpacks(self) -> bool {
        self != Self::NcclHost
    }

    /// Returns whether NCCL drives the table.
    pub(crate) fn is_nccls(self) -> bool {
        self != Self::Program
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program | Self::NcclUnpack => "receives are unpacked by the consumer",
            Self::NcclHost => "host memory only",
        })
    }
}

/// The first release of NCCL that has the algorithm PAT and does not keep it from a plugin whose
/// receives are unpacked: its kernels then never look for the bytes.
const FIRST_WITH_PAT: u32 = 22_400;
/// Setting of sessions, which the environment of a program may have for all that it runs.
const ENCRYPTION: &str = "TCPX_ENCRYPTION";
const PROTO: &str = "NCCL_PROTO";
const ALGO: &str = "NCCL_ALGO";
const GDR_READ: &str = "NCCL_NET_GDR_READ";

/// The mode that `settings` ask for, made fit for it.
///
/// # Errors
/// A variable of NCCL's with which unpacking would hang, or give wrong data.
pub(super) fn choose(
    caller: Caller,
    settings: &mut Settings,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<Mode, SettingsError> {
    if caller != Caller::Program {
        check_encryption(&Variables { get: variables })?;
    }
    match (caller, settings.nccl) {
        (Caller::Program, _) => Ok(Mode::Program),
        (Caller::Nccl { .. }, NcclMode::Host) => {
            // No GPU is asked for, so that no call waits for one.
            settings.memory = DeviceMemory::Emulated;
            Ok(Mode::NcclHost)
        }
        (Caller::Nccl { version }, NcclMode::Unpack) => {
            check_unpack(version, &Variables { get: variables })?;
            if settings.bounce != BounceMemory::Host {
                return Err(SettingsError::Invalid {
                    variable: "TCPX_SOFT_BOUNCE",
                    value: "device".to_owned(),
                    allowed: "host, with TCPX_SOFT_NCCL=unpack: what is copied up to the GPU waits \
                              for the driver, which may wait for it",
                });
            }
            Ok(Mode::NcclUnpack)
        }
    }
}

/// Refuses what NCCL's table cannot keep: both ends of a comm would need a secret, and NCCL has
/// none to give. Its handles cross the network in clear.
fn check_encryption(variables: &Variables<'_>) -> Result<(), SettingsError> {
    match variables.text(ENCRYPTION).as_deref() {
        None | Some("off") => Ok(()),
        Some("require") => Err(SettingsError::Invalid {
            variable: ENCRYPTION,
            value: "require".to_owned(),
            allowed: "off or prefer under NCCL, which gives the plugin no secret: what NCCL sends \
                      over it is not encrypted",
        }),
        Some(_) => {
            log::warn!("{ENCRYPTION} has no effect under NCCL: what it sends is not encrypted");
            Ok(())
        }
    }
}

fn check_unpack(version: u32, variables: &Variables<'_>) -> Result<(), SettingsError> {
    require(
        variables,
        PROTO,
        &["simple"],
        "TCPX_SOFT_NCCL=unpack needs NCCL_PROTO=Simple: LL and LL128 cannot unpack, and hang",
    )?;
    // What is sent from GPU memory is copied down by the driver, post by post. A thread of the
    // program that loads a module, or frees memory, holds the driver's lock while it waits for
    // NCCL's kernel, which waits for that copy.
    require(
        variables,
        GDR_READ,
        &["0"],
        "TCPX_SOFT_NCCL=unpack needs NCCL_NET_GDR_READ=0: sends from GPU memory wait for the \
         driver, which may wait for them",
    )?;
    if version >= FIRST_WITH_PAT {
        let why = "TCPX_SOFT_NCCL=unpack needs NCCL_ALGO=Ring from NCCL 2.24 on: PAT does not \
                   unpack, and gives wrong data";
        require(variables, ALGO, &["ring", "tree"], why)?;
    }
    Ok(())
}

/// A list of NCCL's that has to be set, to nothing but these words.
fn require(
    variables: &Variables<'_>,
    variable: &'static str,
    words: &[&str],
    why: &'static str,
) -> Result<(), SettingsError> {
    let Some(value) = variables.text(variable) else {
        return Err(SettingsError::Unset { variable, reason: why });
    };
    let is_fine = |word: &str| words.contains(&word.trim().to_ascii_lowercase().as_str());
    match value.split(',').all(is_fine) {
        true => Ok(()),
        false => Err(SettingsError::Invalid { variable, value, allowed: why }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(caller: Caller, nccl: NcclMode, set: &[(&str, &str)]) -> Result<Mode, String> {
        let mut settings = Settings { nccl, ..Settings::default() };
        let get = |name: &str| {
            set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        choose(caller, &mut settings, &get).map_err(|error| error.to_string())
    }

    #[test]
    fn nccl_gets_host_memory_unless_it_asks_and_a_program_never_does() {
        let nccl = Caller::Nccl { version: 22_809 };
        assert_eq!(chosen(nccl, NcclMode::Host, &[]), Ok(Mode::NcclHost));
        for mode in [NcclMode::Host, NcclMode::Unpack] {
            assert_eq!(chosen(Caller::Program, mode, &[]), Ok(Mode::Program));
        }
    }

    #[test]
    fn nccl_is_refused_encryption_that_it_would_not_get() {
        let nccl = Caller::Nccl { version: 22_809 };
        let with = |caller, word| chosen(caller, NcclMode::Host, &[(ENCRYPTION, word)]);
        for word in ["off", "prefer", ""] {
            assert_eq!(with(nccl, word), Ok(Mode::NcclHost), "{word}");
        }
        let refused = with(nccl, "require").expect_err("refused");
        assert!(refused.contains("no secret"), "{refused}");
        // A session gives its comms a secret.
        assert_eq!(with(Caller::Program, "require"), Ok(Mode::Program));
    }

    #[test]
    fn host_mode_never_asks_the_driver() {
        let mut settings = Settings { memory: DeviceMemory::Cuda, ..Settings::default() };
        let mode = choose(Caller::Nccl { version: 21_903 }, &mut settings, &|_| None);
        assert_eq!((mode, settings.memory), (Ok(Mode::NcclHost), DeviceMemory::Emulated));
    }

    #[test]
    fn unpacking_copies_nothing_up() {
        let mut settings = Settings {
            nccl: NcclMode::Unpack,
            bounce: BounceMemory::Device,
            ..Settings::default()
        };
        let set = |name: &str| Some(if name == GDR_READ { "0" } else { "Simple" }.to_owned());
        let refused = choose(Caller::Nccl { version: 21_903 }, &mut settings, &set);
        let is_named = |error: &SettingsError| error.to_string().starts_with("TCPX_SOFT_BOUNCE");
        assert!(refused.as_ref().is_err_and(is_named), "{refused:?}");
        settings.bounce = BounceMemory::Host;
        let mode = choose(Caller::Nccl { version: 21_903 }, &mut settings, &set);
        assert_eq!(mode, Ok(Mode::NcclUnpack));
    }

    #[test]
    fn unpacking_needs_what_can_unpack_and_the_refusal_names_the_variable() {
        let simple = ("NCCL_PROTO", "Simple");
        let from_host = ("NCCL_NET_GDR_READ", "0");
        for (version, set, missing) in [
            (21_903, &[from_host][..], Some("NCCL_PROTO is not set")),
            (21_903, &[from_host, ("NCCL_PROTO", "LL128")], Some("NCCL_PROTO is \"LL128\"")),
            (21_903, &[from_host, ("NCCL_PROTO", "Simple,LL")], Some("NCCL_PROTO is")),
            (21_903, &[from_host, ("NCCL_PROTO", "^LL128")], Some("NCCL_PROTO is")),
            (21_903, &[simple], Some("NCCL_NET_GDR_READ is not set")),
            (21_903, &[simple, ("NCCL_NET_GDR_READ", "1")], Some("NCCL_NET_GDR_READ is \"1\"")),
            (21_903, &[simple, from_host], None),
            (22_305, &[simple, from_host], None),
            (22_403, &[simple, from_host], Some("NCCL_ALGO is not set")),
            (22_403, &[simple, from_host, ("NCCL_ALGO", "")], Some("NCCL_ALGO is not set")),
            (22_809, &[simple, from_host, ("NCCL_ALGO", "PAT")], Some("NCCL_ALGO is \"PAT\"")),
            (22_809, &[simple, from_host, ("NCCL_ALGO", "Ring,PAT")], Some("NCCL_ALGO is")),
            (22_809, &[simple, from_host, ("NCCL_ALGO", "^Tree")], Some("NCCL_ALGO is")),
            (22_809, &[simple, from_host, ("NCCL_ALGO", "RING")], None),
            (22_809, &[simple, from_host, ("NCCL_ALGO", "Ring,Tree")], None),
        ] {
            let found = chosen(Caller::Nccl { version }, NcclMode::Unpack, set);
            match missing {
                None => assert_eq!(found, Ok(Mode::NcclUnpack), "{version} {set:?}"),
                Some(text) => {
                    let refused = found.expect_err("refused");
                    assert!(refused.starts_with(text), "{version} {set:?}: {refused}");
                }
            }
        }
    }
}
