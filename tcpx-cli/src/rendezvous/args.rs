//! Which end of a command this process is, and where the other one is.

use std::net::SocketAddr;

use super::server_address::ServerAddress;
use crate::budget::Budget;
use crate::failure::{ConnectionError, Failure};
use crate::input::Seconds;
use crate::process;
use crate::session::SessionArgs;

/// The two ends, how they meet, and the session between them.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct EndsArgs {
    /// Which end this process is; without it both ends run here, as two processes over loopback
    #[arg(value_enum, value_name = "END")]
    end: Option<Role>,

    /// The server's host name or address, with :PORT if it is not --port [client only]
    // Text, not an address: of a server's the command can say more than that it cannot be read.
    #[arg(value_name = "ADDR")]
    address: Option<String>,

    /// TCP port on which the two ends meet; 0 lets the system choose [server, client]
    #[arg(long, default_value_t = 12345, value_name = "PORT", help_heading = "Connection")]
    pub(super) port: u16,

    /// Longest time for the whole command, from its start to its end: meeting the other end, the
    /// work, the goodbye, for which a quarter is kept (at most 5 s), and the end of a started
    /// process [default: none; each step has 30 s: until the other end comes, until both agree, one
    /// iteration, one answer; the goodbye has TCPX_CLOSE_TIMEOUT_MS or 5 s]
    #[arg(long, value_name = "SECONDS", help_heading = "Connection")]
    timeout: Option<Seconds>,

    /// Connect to this address instead of listening: the started end of a pair.
    #[arg(long, hide = true, requires = "parent")]
    pub(super) dial: Option<SocketAddr>,

    /// Process that started this one and must not be outlived.
    #[arg(long, hide = true)]
    parent: Option<u32>,

    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

/// What a process is of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// Wait for a client and receive
    Server,
    /// Connect to a server and send
    Client,
}

impl Role {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl EndsArgs {
    /// The process that runs both ends is the client.
    pub(crate) fn role(&self) -> Role {
        self.end.unwrap_or(Role::Client)
    }

    /// Whether another process of this command started this one and speaks for both.
    pub(crate) fn is_started_end(&self) -> bool {
        self.dial.is_some()
    }

    /// Checks what clap cannot, and ties this process to the one that started it. From now on the
    /// command's time runs. Returns where the server is, if this process is a client.
    pub(super) fn begin(&self, command: &str) -> Result<(Budget, Option<ServerAddress>), Failure> {
        let budget = Budget::new(self.timeout.map(|timeout| timeout.0));
        let server = match (self.end, &self.address) {
            (Some(Role::Client), Some(address)) => Some(server_address(address)?),
            (Some(Role::Client), None) => {
                return Err(Failure::Usage(format!(
                    "the client needs the server's address <ADDR>, for example: tcpx {command} client \
                 10.0.0.1"
                )));
            }
            (_, Some(address)) => {
                return Err(Failure::Usage(format!(
                    "the server takes no address (got {address}); it listens on every one. For a GPU \
                 say --gpu N, for a port --port N"
                )));
            }
            (_, None) => None,
        };
        self.parent.map_or(Ok(()), process::live_with)?;
        Ok((budget, server))
    }
}

fn server_address(text: &str) -> Result<ServerAddress, Failure> {
    let bad = |reason| ConnectionError::BadAddress { address: text.to_owned(), reason };
    Ok(text.parse().map_err(bad)?)
}
