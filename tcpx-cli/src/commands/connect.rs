//! `tcpx connect`: the handshake and nothing else.

use std::io::Write;

use tcpx_core::Session;

use crate::bootstrap::{Link, Program};
use crate::end::{EndArgs, Role};
use crate::failure::Failure;
use crate::meeting::{self, Agreement};
use crate::session::SessionArgs;

/// Connect two ends and say goodbye again: a test of plugin, network and handshake.
///
/// Alone it runs both ends here, as two processes over loopback. For two hosts start `tcpx connect server` on one and
/// `tcpx connect client ADDR` on the other. Exit status: 0 when every channel was connected and closed.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ConnectArgs {
    #[command(flatten)]
    pub(crate) end: EndArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

/// Connects, and prints over what.
pub(crate) fn run(args: &ConnectArgs) -> Result<(), Failure> {
    args.end.begin()?;
    let text = match args.end.role() {
        Role::Client => meeting::as_client(&args.end, &args.session, Program::Connect, describe)?,
        Role::Server => {
            meeting::as_server(&args.end, &args.session, "connect", |_| Ok(()), describe)?
        }
    };
    if args.end.is_started_end() {
        return Ok(());
    }
    writeln!(std::io::stdout().lock(), "{text}").map_err(Failure::io("writing to stdout"))
}

fn describe(_: &mut Link, session: &Session, agreement: &Agreement) -> Result<String, Failure> {
    let stats = session.stats();
    let nics: Vec<&str> = stats
        .peers
        .iter()
        .filter(|peer| peer.name == agreement.peer())
        .flat_map(|peer| &peer.channels)
        .map(|channel| channel.nic.as_str())
        .collect();
    Ok(format!(
        "connected and closed: {} plugin {}, {} channels over {}, chunk {} bytes",
        stats.transport,
        stats.plugin_name,
        nics.len(),
        nics.join(", "),
        session.options().chunk_bytes
    ))
}
