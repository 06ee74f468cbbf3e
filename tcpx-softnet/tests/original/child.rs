//! Runs an ignored test of this binary in a process of its own.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tcpx_softnet::Settings;

use crate::support::{self, Memory, Net, PATIENCE, Receiver, Sender, Word, peer_command};

const ORIGINAL: &str = "TCPX_SOFT_ORIGINAL";

/// How a child ended, and all that it said.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) text: String,
}

impl Ended {
    /// Whether its test passed.
    pub(crate) fn passed(&self) -> bool {
        self.status.success() && self.text.contains("1 passed")
    }

    /// The signal that ended it.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

/// Runs `test` with these quirks, none when empty, and variables.
pub(crate) fn run(test: &str, quirks: &str, variables: &[(&str, &str)]) -> Ended {
    let mut all = vec![(ORIGINAL, quirks), ("TCPX_SOFT_IFNAME", "=lo"), ("TCPX_SOFT_HELPERS", "0")];
    all.extend(variables);
    let mut child = peer_command(test, &all).stderr(Stdio::piped()).spawn().expect("child");
    // Read what it says, or a full pipe would stop it.
    let said = reader(child.stdout.take().expect("stdout"));
    // That of a child which is to fail would look like a fault of the parent.
    let complained = reader(child.stderr.take().expect("stderr"));
    let status = ends_in_time(&mut child);
    let text = [said, complained].map(|reader| reader.join().expect("reader")).concat();
    Ended { status, text }
}

fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("output");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A child has limits of its own, in all that it waits for; this one is for what hangs.
fn ends_in_time(child: &mut Child) -> ExitStatus {
    let give_up_at = Instant::now() + 10 * PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("child") {
            return status;
        }
        if Instant::now() > give_up_at {
            child.kill().expect("it runs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `test` passes with the quirk, and does not pass without it.
pub(crate) fn proves(test: &str, quirk: &str, variables: &[(&str, &str)]) {
    let with = run(test, quirk, variables);
    assert!(with.passed(), "with {quirk}: {}", with.text);
    let without = run(test, "", variables);
    assert!(!without.passed(), "without {quirk}: {}", without.text);
    assert!(without.text.contains("FAILED"), "it ran, and failed: {}", without.text);
}

/// The plugin as the environment wants it.
pub(crate) fn net() -> Net {
    support::net(|| Settings::from_env_or(512 << 10).expect("good variables"))
}

/// A pair with one buffer, registered as memory of one kind on both ends.
pub(crate) struct Pair {
    pub(crate) net: Net,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) memory: Memory,
    pub(crate) mhandle: Word,
}

impl Pair {
    pub(crate) fn new(bytes: usize, kind: i32) -> Self {
        let net = net();
        let (sender, receiver) = net.pair();
        support::sockets::level();
        let mut memory = Memory::patterned(bytes, 7);
        let (rc, mhandle) = net.register(sender.comm, memory.data(), bytes, kind);
        assert_eq!(rc, 0);
        Self { net, sender, receiver, memory, mhandle }
    }

    pub(crate) fn isend(&mut self, bytes: usize) -> Word {
        let data = self.memory.data();
        let (rc, request) = self.net.isend(self.sender.comm, data, bytes as i32, self.mhandle);
        assert_eq!(rc, 0);
        request
    }

    pub(crate) fn irecv(&mut self, bytes: usize) -> (u64, Word) {
        let data = self.memory.data();
        self.receiver.post(data, bytes, self.mhandle)
    }

    pub(crate) fn consumed(&self, request: Word) -> i32 {
        self.net.consumed(self.receiver.comm, request)
    }

    pub(crate) fn close(self) {
        assert_eq!((self.net.close(self.sender.comm), self.net.close(self.receiver.comm)), (0, 0));
    }
}
