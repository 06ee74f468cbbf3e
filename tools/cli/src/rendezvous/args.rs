//! Arguments that say which end of a command this process is, and where the other end is.

use std::net::{IpAddr, SocketAddr};

use super::role::Role;
use super::server_address::ServerAddress;
use super::token::{Token, TokenChoice, token_choice};
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
    // Text, not an address: the command has better errors about it than clap.
    #[arg(value_name = "ADDR")]
    address: Option<String>,

    /// TCP port on which the two ends meet; 0 lets the system choose [server, client]
    #[arg(long, default_value_t = 12345, value_name = "PORT", help_heading = "Connection")]
    pub(super) port: u16,

    /// Address on which the server listens; :: for IPv6 and IPv4 [default: 0.0.0.0] [server only]
    #[arg(long, value_name = "IP", help_heading = "Connection")]
    pub(super) bind: Option<IpAddr>,

    /// Connect only ends that know the same token: auto (the server makes one and shows it), a
    /// token of at least 12 letters, or @FILE, which holds one. It is proven, never sent. Without
    /// it any host that reaches the server's port can connect: for trusted networks only [server,
    /// client]
    #[arg(long, value_name = "auto|@FILE|TOKEN", value_parser = token_choice,
          help_heading = "Connection")]
    token: Option<TokenChoice>,

    /// Serve one client after the other until interrupted; a client that connects meanwhile waits
    /// 3 s for its turn, and is then refused because the server is busy. --timeout is for each
    /// client then [server only]
    #[arg(long, help_heading = "Connection")]
    pub(crate) forever: bool,

    /// Longest time for the whole command, from its start to its end: meeting the other end, the
    /// work, the goodbye, for which a quarter is kept (at most 5 s), and the end of a started
    /// process [default: none; each step has 30 s: until the other end comes, until both agree, one
    /// iteration, one answer; the goodbye has TCPX_CLOSE_TIMEOUT_MS or 5 s]
    #[arg(long, value_name = "SECONDS", help_heading = "Connection")]
    timeout: Option<Seconds>,

    /// Connect to this address instead of listening: the started end of a pair.
    #[arg(long, hide = true, requires = "parent")]
    pub(super) dial: Option<SocketAddr>,

    /// Process that started this one; this one dies with it.
    #[arg(long, hide = true)]
    parent: Option<u32>,

    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

impl EndsArgs {
    /// Returns the role of this process; one that runs both ends is the client.
    pub(crate) fn role(&self) -> Role {
        self.end.unwrap_or(Role::Client)
    }

    /// Returns whether this process is the client of a server that the user started.
    pub(crate) fn is_remote_client(&self) -> bool {
        self.end == Some(Role::Client)
    }

    /// Returns whether another process of this command started this one and prints for both.
    pub(crate) fn is_started_end(&self) -> bool {
        self.dial.is_some()
    }

    /// Checks rules that clap cannot check, makes this process die with its parent, and starts the
    /// command's time. Returns the address of the server, if this process is a client.
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
        if self.role() == Role::Client {
            self.refuse_servers_flags()?;
        }
        self.parent.map_or(Ok(()), process::die_with_parent)?;
        Ok((budget, server))
    }
}

impl EndsArgs {
    /// Returns the token, if this end has one.
    pub(super) fn token(&self) -> Result<Option<Token>, Failure> {
        self.token.as_ref().map(|choice| choice.token(self.role())).transpose()
    }

    /// Starts the time of one rendezvous of several.
    pub(crate) fn budget(&self) -> Budget {
        Budget::new(self.timeout.map(|timeout| timeout.0))
    }

    fn refuse_servers_flags(&self) -> Result<(), Failure> {
        let is_pair = self.end.is_none();
        let given = [
            ("--bind", self.bind.is_some()),
            ("--forever", self.forever),
            ("--token", self.token.is_some() && is_pair),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((flag, _)) if is_pair => Err(Failure::Usage(format!(
                "{flag} is for a server; two ends on this machine meet over loopback"
            ))),
            Some((flag, _)) => Err(Failure::Usage(format!("{flag} is for the server"))),
        }
    }
}

fn server_address(text: &str) -> Result<ServerAddress, Failure> {
    let bad = |reason| ConnectionError::BadAddress { address: text.to_owned(), reason };
    Ok(text.parse().map_err(bad)?)
}
