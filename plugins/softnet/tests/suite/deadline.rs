//! Connects and accepts that get no answer, with a short time for them.

use std::time::{Duration, Instant};

use tcpx_testkit::{in_own_process, scaled, until};

use crate::support::{self, blank_device};

#[test]
fn connect_and_accept_end_at_the_deadline() {
    in_own_process!();
    let deadline = scaled(Duration::from_millis(200));
    let net = support::net(|settings| settings.connect_timeout = deadline);
    let start = Instant::now();
    let (mut handle, listen) = net.listen();
    let (_, lonely) = net.listen();
    let (mut rc_accept, mut rc_connect) = (0, 0);
    until("both have given up", || {
        if rc_connect == 0 {
            rc_connect = net.connect(&mut handle).0;
        }
        if rc_accept == 0 {
            rc_accept = net.accept(lonely, &mut blank_device()).0;
        }
        rc_accept != 0 && rc_connect != 0
    });
    assert_eq!((rc_accept, rc_connect), (2, 2));
    assert!(start.elapsed() >= deadline);
    assert_eq!((net.close_listen(listen), net.close_listen(lonely)), (0, 0));
}
