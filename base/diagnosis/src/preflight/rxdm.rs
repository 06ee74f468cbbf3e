//! Checks of RxDM, the daemon that owns the GPU's receive memory: its sockets, and its answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::rxdm_request::{Failure, RxdmRequest, ask};
use crate::diagnosis::Diagnosis;
use crate::machine::tree::Tree;
use crate::pci::Gpu;
use crate::report::Finding;
use crate::table::daemon as table;
use crate::variables::{Env, value};

const PREFIX_VARIABLE: &str = "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX";
/// The plugin's own default.
const DEFAULT_PREFIX: &str = "/tmp";
/// Directories in which RxDM's sockets may be, in search order.
const KNOWN_PREFIXES: [&str; 2] = ["/run/tcpx", "/tmp"];
/// Socket that takes steering rules: the plugin cannot receive without it.
const RULE_SOCKET: &str = "rx_rule_manager";
/// Variable that, set to 1, makes init register the process at the socket below. Init fails when it
/// cannot.
const REPORT_VARIABLE: &str = "NCCL_GPUDIRECTTCPX_REPORT_LIFECYCLE";
const REGISTRY_SOCKET: &str = "rxdm_application_registry";
/// Socket at which the plugin has rules removed when a comm closes.
const UNINSTALL_SOCKET: &str = "rx_rule_uninstall";

/// Check of the sockets that take steering rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleSockets {
    /// Whether a process listens. Good before anything is wrong: RxDM does not notice.
    Look,
    /// Whether the sockets answer. Where RxDM serves no GPU of this machine, only an answer
    /// distinguishes a working RxDM from a hanging one.
    Ask,
}

/// Checks the sockets that the plugin will use for `gpus`, and requests each GPU's metadata. Every
/// request takes at most `deadline`, and is made only when the iterator reaches its finding.
/// Nothing is installed, registered or taken.
pub(crate) fn check<'a>(
    tree: &'a Tree<'_>,
    env: &Env,
    gpus: &[&Gpu],
    rules: RuleSockets,
    deadline: Duration,
) -> impl Iterator<Item = Finding> + 'a {
    let prefix = PathBuf::from(value(env, PREFIX_VARIABLE).unwrap_or(DEFAULT_PREFIX));
    let has_rules = tree.exists(prefix.join(RULE_SOCKET));
    let without = (!has_rules).then(|| why_no_rule_socket(tree, &prefix));
    let sockets = if has_rules { sockets(env, gpus, rules) } else { Vec::new() };
    let found = sockets.into_iter().filter_map(move |(name, request)| {
        let path = prefix.join(&name);
        if !tree.exists(&path) {
            return Some(missing(&path));
        }
        let failure = ask(&tree.path(&path), &request, deadline).err()?;
        Some(finding(failure.diagnosis(), format!("{}: {failure}", path.display()), &path))
    });
    without.into_iter().chain(found)
}

/// Returns the sockets by name, and the request to each.
fn sockets(env: &Env, gpus: &[&Gpu], rules: RuleSockets) -> Vec<(String, RxdmRequest)> {
    let of_rules = match rules {
        RuleSockets::Look => RxdmRequest::Connect,
        RuleSockets::Ask => RxdmRequest::Answer,
    };
    let mut sockets: Vec<(String, RxdmRequest)> =
        vec![(RULE_SOCKET.to_owned(), of_rules.clone()), (UNINSTALL_SOCKET.to_owned(), of_rules)];
    if value(env, REPORT_VARIABLE) == Some("1") {
        sockets.push((REGISTRY_SOCKET.to_owned(), RxdmRequest::Connect));
    }
    for gpu in gpus {
        let bus_id = &gpu.pci_bus_id;
        sockets.push((format!("get_gpu_fd_{bus_id}"), RxdmRequest::Connect));
        sockets.push((format!("get_gpu_metadata_{bus_id}"), RxdmRequest::Metadata(bus_id.clone())));
    }
    sockets
}

/// Returns the reason why there is no rule socket under `prefix`.
fn why_no_rule_socket(tree: &Tree<'_>, prefix: &Path) -> Finding {
    let elsewhere = KNOWN_PREFIXES
        .iter()
        .map(Path::new)
        .find(|&known| known != prefix && tree.exists(known.join(RULE_SOCKET)));
    let shown = prefix.display();
    match elsewhere {
        Some(found) => {
            let found = found.display().to_string();
            let seen = format!("the plugin will look in {shown}, RxDM's sockets are in {found}");
            Finding::new(&table::RXDM_PREFIX_WRONG, seen).with("<PATH>", &found)
        }
        None if tree.exists(prefix) && prefix != Path::new(DEFAULT_PREFIX) => {
            missing(&prefix.join(RULE_SOCKET))
        }
        // /tmp always exists, so an unset prefix and no sockets anywhere means that there is no
        // RxDM.
        None => {
            let seen = format!("no RxDM socket in {shown}");
            Finding::new(&table::RXDM_DIRECTORY_MISSING, seen).with("<PATH>", &shown.to_string())
        }
    }
}

fn missing(path: &Path) -> Finding {
    finding(&table::RXDM_SOCKET_MISSING, format!("{} does not exist", path.display()), path)
}

fn finding(diagnosis: &Diagnosis, seen: String, path: &Path) -> Finding {
    let directory = path.parent().unwrap_or(Path::new("/")).display().to_string();
    Finding::new(diagnosis, seen)
        .with("<PATH>", &path.display().to_string())
        .with("<DIRECTORY>", &directory)
}

impl Failure {
    fn diagnosis(&self) -> &'static Diagnosis {
        match self {
            Self::Refused => &table::RXDM_REFUSES,
            Self::Hangs => &table::RXDM_HANGS,
            Self::Closes => &table::RXDM_CLOSES,
            Self::BadAnswer(_) => &table::RXDM_BAD_ANSWER,
            Self::Denied => &table::RXDM_DENIED,
            Self::NoSocket(_) => &table::RXDM_SOCKET_PATH,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn each_failure_has_its_diagnosis() {
        for (kind, expected) in [
            (io::ErrorKind::ConnectionRefused, &table::RXDM_REFUSES),
            (io::ErrorKind::WouldBlock, &table::RXDM_HANGS),
            (io::ErrorKind::TimedOut, &table::RXDM_HANGS),
            (io::ErrorKind::UnexpectedEof, &table::RXDM_CLOSES),
            (io::ErrorKind::BrokenPipe, &table::RXDM_CLOSES),
            (io::ErrorKind::PermissionDenied, &table::RXDM_DENIED),
            (io::ErrorKind::InvalidInput, &table::RXDM_SOCKET_PATH),
        ] {
            assert_eq!(
                Failure::from(io::Error::from(kind)).diagnosis().code,
                expected.code,
                "{kind:?}"
            );
        }
    }
}
