//! `tcpx connect`: the handshake and nothing else.

use crate::failure::Failure;
use crate::output::print;
use crate::rendezvous::{Agreed, EndsArgs, Program};

/// Connect two ends and say goodbye again: a test of plugin, network and handshake.
///
/// Alone it runs both ends here, as two processes over loopback. For two hosts start
/// `tcpx connect server` on one and `tcpx connect client ADDR` on the other. Exit status: 0 when
/// every channel was connected and closed.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ConnectArgs {
    #[command(flatten)]
    pub(crate) ends: EndsArgs,
}

/// Connects, and prints over what.
pub(crate) fn run(args: &ConnectArgs) -> Result<(), Failure> {
    let program = Program {
        command: "connect",
        ends: &args.ends,
        is_over_plugin: false,
        make_plan: &|| Ok(()),
        check_plan: &|()| Ok(()),
        body: &|agreed, ()| Ok(describe(agreed)),
        several: None,
    };
    program.run(|text| print(&text))
}

fn describe(agreed: &Agreed<'_>) -> String {
    let stats = agreed.session.stats();
    let peer = stats.peers.iter().find(|peer| peer.name == agreed.peer());
    let chunk_bytes = peer.map_or(0, |peer| peer.chunk_bytes);
    let channels = peer.into_iter().flat_map(|peer| &peer.channels);
    let nics: Vec<&str> = channels.map(|channel| channel.nic.as_str()).collect();
    format!(
        "connected and closed: {} plugin {}, {} channels over {}, chunk {} bytes",
        stats.transport,
        stats.plugin_name,
        nics.len(),
        nics.join(", "),
        chunk_bytes
    )
}
