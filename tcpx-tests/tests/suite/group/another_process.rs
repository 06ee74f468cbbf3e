//! A group in a process of its own, which serves, and is killed.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

use tcpx_core::{Error, OperationKind, RemoteKey, Session};
use tcpx_testkit::{PATIENCE, again, process};

use super::{DEVICES, export, group, is_full_of, memory, notification, options, prepare, run};
use crate::group_several::served::{hex, unhex};

/// What the other process of the next test does.
fn serve_another_process() {
    let group = group("server");
    let memories = DEVICES.map(|device| memory(&group, device, 2, 100_000));
    let mut line = hex(&group.listen().expect("listen"));
    for memory in memories {
        line += " ";
        line += &hex(&export(&group, memory).serialize());
    }
    println!("\nserves {line}");
    for _ in DEVICES {
        assert_eq!(notification(&group).peer, "client");
    }
    let full = memories.map(|memory| is_full_of(&group, memory, 1, 100_000));
    println!("\nfull {full:?}");
    // Until the test kills this process.
    std::io::stdin().read_to_end(&mut Vec::new()).expect("stdin");
}

#[test]
fn a_group_in_another_process_serves_and_dies() {
    if process::role().is_some() {
        return serve_another_process();
    }
    let mut server = again!("server");
    let mut child = process::Owned::start(server.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut read_value = |word: &str| {
        let line = lines.find_map(|line| line.ok()?.strip_prefix(word).map(str::to_owned));
        line.expect("a line of the other process")
    };
    let words: Vec<Vec<u8>> = read_value("serves ").split(' ').map(unhex).collect();
    // A tenth of this is how long a peer that cannot be reached may come in by itself.
    let time = Duration::from_secs(30);
    let client = Session::new(options().name("client").connect_timeout(time).all_devices(true))
        .expect("a group");
    client.load_remote_conn_info("server", &words[0]).expect("its bytes load");
    let mut writes = Vec::new();
    for (device, key) in DEVICES.into_iter().zip(&words[1..]) {
        let here = memory(&client, device, 1, 100_000);
        let key = RemoteKey::deserialize(key).expect("a key");
        let write = prepare(&client, "server", OperationKind::Write, here, &key);
        writes.push(write.expect("it is known"));
        run(writes.last().expect("one"), Some(b"done"));
    }
    assert_eq!(read_value("full "), "[true, true, true]");
    child.kill().expect("it lives");
    child.wait().expect("it is ours");
    let posts: Vec<_> = writes.iter().map(|write| write.post(None)).collect();
    for (write, posted) in writes.iter().zip(posts) {
        let gone = posted.and_then(|()| write.wait(Some(PATIENCE))).expect_err("it was killed");
        // Before its end is known here, and after that.
        let (Error::PeerGone { peer, .. } | Error::Unreachable { peer, .. }) = &gone else {
            panic!("{gone}");
        };
        assert!(peer.starts_with("server"), "{gone}");
    }
}
