//! Another process that serves memory of all its devices.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tcpx_core::{Group, LinkBytes, Operation, OperationKind, RemoteKey};

use super::groups::{Memories, PATIENCE, crosswise, group, options, prepare};

/// Set in a process that is to serve memory.
const SERVES: &str = "TCPX_TEST_SEVERAL_SERVES";

/// What the other process of the next tests does.
#[test]
fn serves_another_process() {
    if std::env::var_os(SERVES).is_none() {
        return;
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
}

/// A process that serves memory of all devices, and this end.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) client: Group,
    pub(crate) ours: Memories,
    pub(crate) keys: [RemoteKey; 3],
    pub(crate) info: Vec<u8>,
}

impl Served {
    /// All pairs are connected that [`crosswise`] has.
    pub(crate) fn new() -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "group_several::served::serves_another_process", "--nocapture"])
            .env(SERVES, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let line = lines.find_map(|line| line.ok()?.strip_prefix("serves ").map(str::to_owned));
        let words: Vec<_> = line.expect("it says so").split(' ').map(unhex).collect();
        // What travels on the link uses no memory once it is sent.
        let client = Group::new(options().name("client").link_bytes(LinkBytes::Most(0)))
            .expect("the software plugin is always there");
        client.load_remote_conn_info("server", &words[0]).expect("its bytes load");
        let key = |at: usize| RemoteKey::deserialize(&words[at]).expect("a key");
        let keys = [1, 2, 3].map(key);
        let ours = Memories::new(&client);
        let info = words[0].clone();
        let served = Self { child, client, ours, keys, info };
        let read = served.prepare(OperationKind::Read);
        read.post(None).expect("it is not under way");
        read.wait(PATIENCE).expect("it goes well");
        served
    }

    pub(crate) fn prepare(&self, kind: OperationKind) -> Operation {
        let memory = (&self.ours.ids, &self.keys);
        prepare(&self.client, "server", kind, memory, &crosswise()).expect("it fits")
    }

    /// All of its threads have stopped when this returns.
    pub(crate) fn stop(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).expect("it lives");
        let told = waitpid(Some(pid), WaitOptions::UNTRACED).expect("it is ours");
        assert!(told.is_some_and(|(_, status)| status.stopped()), "it stops");
    }

    pub(crate) fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("it lives");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digits).collect()
}
