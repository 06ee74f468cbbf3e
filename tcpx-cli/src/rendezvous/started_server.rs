//! Both ends on one machine: the client starts the server as a child process.
//!
//! The server connects back to an ephemeral port of loopback, so there is no port to agree on and
//! nothing to wait for by guess. The kernel kills it when this process dies in whatever way; it
//! also ends when the connection does.

use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use super::link::Link;
use super::socket;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::process::{ChildProcess, Log};
use crate::session::SessionArgs;

/// How long a server that has nothing left to do may take to end.
const GRACE: Duration = Duration::from_secs(3);

/// The server of a command.
pub(super) struct StartedServer(ChildProcess);

impl StartedServer {
    /// Starts the server of `command` and waits until it has connected.
    pub(super) fn start(
        command: &str,
        session: &SessionArgs,
        timeout: Duration,
    ) -> Result<(Link, Self), Failure> {
        let listener = socket::bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address =
            listener.local_addr().map_err(Failure::io("asking for the listener's address"))?;
        let executable = std::env::current_exe().map_err(Failure::io("finding this executable"))?;
        let mut line = Command::new(executable);
        line.args([command, "server", "--dial", &address.to_string()])
            .args(["--parent", &std::process::id().to_string()])
            .args(["--timeout", &timeout.as_secs_f64().to_string()])
            .args(session.plugin.iter().flat_map(|it| ["--plugin".to_owned(), it.to_string()]))
            .args(session.gpu.iter().flat_map(|gpu| ["--gpu".to_owned(), gpu.to_string()]));
        let mut process = ChildProcess::start(&mut line, Log::Shown)?;
        let stream = socket::accept(&listener, Some(&mut process), Deadline::after(timeout))?;
        Ok((Link::new(stream, timeout)?, Self(process)))
    }

    /// Waits for the server to end, and kills it if it does not. `outcome`: how it went for this
    /// end.
    pub(super) fn conclude<T>(self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        let Self(mut process) = self;
        let Some(status) = process.wait(GRACE)? else {
            let pid = process.id();
            let text = format!("process {pid} did not end within {GRACE:?} and was killed");
            return outcome.and(Err(Failure::OtherEnd(text)));
        };
        match outcome {
            outcome if status.success() => outcome,
            // A process that was killed explains everything; one that gave up may have done so
            // because of this end.
            Err(failure) if status.signal().is_none() && !failure.may_be_a_symptom() => {
                Err(failure)
            }
            _ => Err(process.cause()),
        }
    }
}
