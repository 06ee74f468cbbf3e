//! Another process that serves memory of all its devices.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use tcpx_core::{LinkBytes, Operation, OperationKind, RemoteKey, Session};
use tcpx_testkit::{PATIENCE, process};

use super::groups::{Memories, crosswise, group, options, prepare};

/// Serves memory where this process has a role, which is that of the other one. Whether it has.
pub(crate) fn is_server() -> bool {
    if process::role().is_none() {
        return false;
    }
    let group = group("server");
    let memories = Memories::new(&group);
    memories.fill_all(&group, 6);
    let mut line = hex(&group.listen().expect("listen"));
    for key in &memories.keys {
        line += " ";
        line += &hex(&key.serialize());
    }
    println!("\nserves {line}");
    // Until the test kills this process.
    std::io::stdin().read_to_end(&mut Vec::new()).expect("stdin");
    true
}

/// A process that serves memory of all devices, and this end.
pub(crate) struct Served {
    pub(crate) child: process::Owned,
    pub(crate) client: Session,
    pub(crate) ours: Memories,
    pub(crate) keys: [RemoteKey; 3],
    pub(crate) info: Vec<u8>,
}

impl Served {
    /// Starts the server, which is the calling test again. All pairs are connected that
    /// [`crosswise`] has.
    pub(crate) fn new(mut server: Command) -> Self {
        server.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process::Owned::start(&mut server);
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let line = lines.find_map(|line| line.ok()?.strip_prefix("serves ").map(str::to_owned));
        let words: Vec<_> = line.expect("a line of text").split(' ').map(unhex).collect();
        // What travels on the link uses no memory once it is sent.
        let client =
            Session::new(options().name("client").link_bytes(LinkBytes::Most(0)).all_devices(true))
                .expect("the software plugin is always there");
        client.load_remote_conn_info("server", &words[0]).expect("its bytes load");
        let key = |at: usize| RemoteKey::deserialize(&words[at]).expect("a key");
        let keys = [1, 2, 3].map(key);
        let ours = Memories::new(&client);
        let info = words[0].clone();
        let served = Self { child, client, ours, keys, info };
        let read = served.prepare(OperationKind::Read);
        read.post(None).expect("it is not under way");
        read.wait(Some(PATIENCE)).expect("it succeeds");
        served
    }

    pub(crate) fn prepare(&self, kind: OperationKind) -> Operation {
        let memory = (&self.ours.ids, &self.keys);
        prepare(&self.client, "server", kind, memory, &crosswise()).expect("it fits")
    }

    /// All of its threads have stopped when this returns.
    pub(crate) fn stop(&self) {
        let pid = Pid::from_child(&self.child);
        self.child.signal(Signal::STOP);
        let waited = waitpid(Some(pid), WaitOptions::UNTRACED).expect("it is ours");
        assert!(waited.is_some_and(|(_, status)| status.stopped()), "it stops");
    }

    pub(crate) fn go_on(&self) {
        self.child.signal(Signal::CONT);
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digits).collect()
}
