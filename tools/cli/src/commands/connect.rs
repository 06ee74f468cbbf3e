//! `tcpx connect`: the handshake of two ends and nothing else.

use serde::Serialize;

use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::rendezvous::{ConnectedEnd, EndsArgs, Program};

/// Connect two ends and say goodbye again: a test of plugin, network and handshake.
///
/// Alone it runs both ends here, as two processes over loopback. For two hosts start
/// `tcpx connect server` on one and `tcpx connect client ADDR` on the other. Exit status: 0 when
/// every channel was connected and closed.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ConnectArgs {
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    pub(crate) ends: EndsArgs,
}

/// Connects, and prints the channels and NICs.
pub(crate) fn run(args: &ConnectArgs) -> Result<(), Failure> {
    let program = Program {
        command: "connect",
        ends: &args.ends,
        is_over_plugin: false,
        make_plan: &|| Ok(()),
        check_plan: &|()| Ok(()),
        body: &|connected, ()| Ok(describe(connected)),
        several: None,
    };
    program.run(
        |connection| {
            if args.json { print_json(&connection) } else { print(&connection.in_words()) }
        },
    )
}

/// Outcome that the two ends agreed on.
#[derive(Debug, Serialize)]
struct Connection {
    transport: String,
    plugin_name: String,
    channels: usize,
    /// NIC of each channel.
    channel_nics: Vec<String>,
    chunk_bytes: u32,
}

fn describe(connected: &ConnectedEnd<'_>) -> Connection {
    let stats = connected.session.stats();
    let peer = stats.peers.into_iter().find(|peer| peer.name == connected.peer());
    let chunk_bytes = peer.as_ref().map_or(0, |peer| peer.chunk_bytes);
    let channels = peer.into_iter().flat_map(|peer| peer.channels);
    let channel_nics: Vec<String> = channels.map(|channel| channel.nic).collect();
    let (transport, plugin_name) = (stats.transport, stats.plugin_name);
    let channels = channel_nics.len();
    Connection { transport, plugin_name, channels, channel_nics, chunk_bytes }
}

impl Connection {
    fn in_words(&self) -> String {
        format!(
            "connected and closed: {} plugin {}, {} channels over {}, chunk {} bytes",
            self.transport,
            self.plugin_name,
            self.channels,
            self.channel_nics.join(", "),
            self.chunk_bytes
        )
    }
}
