//! Resources that a session keeps open for peers that have left: none. The descriptors are the
//! whole process's, so the test runs in one of its own.

use std::time::Instant;

use tcpx_testkit::{PATIENCE, in_own_process};
use tcpx_tests::sessions::{lively, open};

const PEERS: usize = 40;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs is mounted").count()
}

#[test]
fn peers_that_leave_take_their_descriptors_along() {
    in_own_process!();
    let hub = open(lively().connect_channels(true).accept_all(true).name("hub"));
    let info = hub.listen().expect("listen");
    let before = descriptors();
    for says_goodbye in [true, false] {
        let peers: Vec<_> = (0..PEERS)
            .map(|number| {
                let peer = open(lively().name(format!("peer{number}")));
                peer.load_remote_conn_info("hub", &info).expect("own bytes load");
                peer.connect("hub").expect("the hub accepts every peer");
                peer
            })
            .collect();
        let with_peers = descriptors();
        assert!(with_peers > before + PEERS, "{before}, {with_peers}");
        if says_goodbye {
            peers.iter().for_each(|peer| peer.disconnect("hub").expect("the hub answers"));
        }
        drop(peers);
        let begin = Instant::now();
        while descriptors() > before {
            assert!(begin.elapsed() < PATIENCE, "{before} before, {} now", descriptors());
            std::thread::yield_now();
        }
    }
}
