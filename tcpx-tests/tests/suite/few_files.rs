//! A session whose process may open few files, and many stray connections at its control port.

use std::net::TcpStream;
use std::process::Command as Process;

use tcpx_testkit::PATIENCE;
use tcpx_tests::Agent;
use tcpx_tests::script::{Command, Options};

use crate::peers_to_run;

fn agent(limit: u32) -> Agent {
    let mut process = Process::new("sh");
    process.args(["-c", &format!("ulimit -n {limit}; exec \"$0\"")]);
    process.arg(peers_to_run::PROGRAM).env("TCPX_PEER_LOOPBACK", "1");
    Agent::start_with(process)
}

#[test]
fn peers_connect_past_silent_connections_to_a_process_with_few_files() {
    let mut listener = agent(64);
    listener.run(Command::New(Options { progress_thread: true, ..Options::default() }));
    let conn_info: Vec<u8> = listener.get(Command::Listen);
    let address = tcpx_tests::control_addresses(&conn_info)[0];
    let strays: Vec<TcpStream> =
        (0..500).map(|_| TcpStream::connect(address).expect("the system takes it in")).collect();
    // One after the other: five peers at once would need more files than there are.
    for number in 0..5 {
        let name = format!("peer{number}");
        let mut peer = agent(1024);
        peer.run(Command::New(Options::default()));
        peer.run(Command::Load { peer: "listener".into(), conn_info: conn_info.clone() });
        listener.send_command(Command::Accept { peer: name.clone() });
        peer.send_command(Command::Connect { peer: "listener".into() });
        peer.receive_reply(PATIENCE).unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
        listener.receive_reply(PATIENCE).unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
        listener.send_command(Command::Disconnect { peer: name });
        peer.run(Command::Disconnect { peer: "listener".into() });
        listener.receive_reply(PATIENCE).expect("a goodbye");
    }
    drop(strays);
}
