//! A peer that proves itself and then says nothing more.

use std::time::Instant;

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_testkit::PATIENCE;

use super::{open, soft};
use crate::control::connector::Connector;

#[test]
fn a_place_among_the_unclaimed_is_not_kept_for_who_never_comes_up() {
    let [server, client] = [(); 2].map(|()| open(soft().connect_channels(true)));
    let info = ConnInfo::decode(&server.listen().expect("listen")).expect("own bytes load");
    let mut connector = Connector::new(info, 0);
    let give_up_at = Instant::now() + PATIENCE;
    let _link = loop {
        let now = Instant::now();
        assert!(now < give_up_at, "the server is {}", connector.state());
        server.progress();
        let outcome = connector.poll(
            "server",
            now,
            &client.shared.engine().expect("no fork").commons.session.identity,
        );
        if let Some(reached) = outcome.expect("it is welcomed") {
            break reached.link;
        }
    };
    let waiting = server.stats().peers;
    assert!(waiting.len() == 1 && waiting[0].name.contains("not accepted"), "{waiting:?}");
    let late = Instant::now() + server.options().connect_timeout;
    // One round ends it, the next forgets it.
    server.shared.progress_at(late);
    server.shared.progress_at(late);
    assert!(server.stats().peers.is_empty());
    assert_eq!(server.stats().peers_failed, 1);
}
