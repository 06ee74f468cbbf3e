//! A stand-in for RxDM that answers, refuses, hangs or closes, socket by socket.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use socket2::SockRef;

/// How one socket behaves.
#[derive(Clone, Debug)]
pub(crate) enum Manner {
    /// Answers a request for metadata with these bytes, frame and all.
    Answer(Vec<u8>),
    /// Accepts and closes at once.
    Close,
    /// Accepts and says nothing.
    Hang,
    /// Leaves a socket file behind that nobody listens to.
    Refuse,
}

/// The answer for 4 GiB of receive memory, aligned to 2 MiB.
pub(crate) fn metadata_answer() -> Vec<u8> {
    framed_metadata(1 << 32, 2 << 20)
}

pub(crate) fn framed_metadata(size: u64, alignment: u64) -> Vec<u8> {
    let mut bytes = vec![0, 26, 0x0a, 24, 5, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend(size.to_ne_bytes());
    bytes.extend(alignment.to_ne_bytes());
    bytes
}

/// The sockets of one daemon, until it is dropped.
pub(crate) struct RxdmServer {
    directory: PathBuf,
    sockets: BTreeMap<String, (UnixListener, JoinHandle<()>)>,
}

impl RxdmServer {
    /// Listens under `directory` for everything that the plugin uses with `gpus`.
    pub(crate) fn start(directory: &Path, gpus: &[&str]) -> Self {
        fs::create_dir_all(directory).expect("a directory");
        let mut server = Self { directory: directory.to_owned(), sockets: BTreeMap::new() };
        let names = gpus
            .iter()
            .flat_map(|gpu| [format!("get_gpu_fd_{gpu}"), format!("get_gpu_metadata_{gpu}")])
            .chain(["rx_rule_manager".to_owned(), "rx_rule_uninstall".to_owned()]);
        for name in names {
            server.listen(&name, Manner::Answer(metadata_answer()));
        }
        server
    }

    /// Replaces a socket by one of another manner.
    pub(crate) fn change(&mut self, name: &str, manner: Manner) {
        self.end(name);
        self.listen(name, manner);
    }

    /// Takes a socket away.
    pub(crate) fn end(&mut self, name: &str) {
        let path = self.directory.join(name);
        if let Some((listener, thread)) = self.sockets.remove(name) {
            // Ends a waiting accept.
            SockRef::from(&listener).shutdown(Shutdown::Both).expect("the listener ends");
            thread.join().expect("the daemon's thread ends well");
        }
        let _ = fs::remove_file(path);
    }

    fn listen(&mut self, name: &str, manner: Manner) {
        let listener = UnixListener::bind(self.directory.join(name)).expect("a socket");
        // A refusing daemon has ended: its listener is gone, its file is not.
        if matches!(manner, Manner::Refuse) {
            return;
        }
        let kept = listener.try_clone().expect("a second descriptor");
        let expected = name.strip_prefix("get_gpu_metadata_").map(str::to_owned);
        let thread = std::thread::spawn(move || serve(&listener, &manner, expected.as_deref()));
        self.sockets.insert(name.to_owned(), (kept, thread));
    }
}

impl Drop for RxdmServer {
    fn drop(&mut self) {
        for name in self.sockets.keys().cloned().collect::<Vec<_>>() {
            self.end(&name);
        }
    }
}

fn serve(listener: &UnixListener, manner: &Manner, bus_id: Option<&str>) {
    let mut held = Vec::new();
    while let Ok((mut stream, _)) = listener.accept() {
        match manner {
            Manner::Answer(answer) => {
                // A connection without a request is a look at the socket, and closes by itself.
                let Some(bus_id) = bus_id else { continue };
                let mut request = vec![0; 4 + bus_id.len()];
                stream.read_exact(&mut request).expect("a whole request");
                let length = u8::try_from(bus_id.len()).expect("a short address");
                assert_eq!(request[..4], [0, length + 2, 0x0a, length], "the frame's head");
                assert_eq!(&request[4..], bus_id.as_bytes(), "the GPU asked about");
                stream.write_all(answer).expect("the asker waits");
            }
            Manner::Hang => held.push(stream),
            Manner::Close | Manner::Refuse => {}
        }
    }
}
