//! Connects and accepts that nobody answers, with a short time for them.

mod support;

use std::time::{Duration, Instant};

use support::{Net, blank_device, poll, settings};

const DEADLINE: Duration = Duration::from_millis(500);

fn net() -> Net {
    support::net(|| {
        let mut settings = settings();
        settings.connect_timeout = DEADLINE;
        settings
    })
}

#[test]
fn nobody_waits_longer_than_the_deadline() {
    let net = net();
    let start = Instant::now();
    let (mut handle, listen) = net.listen();
    let (_, lonely) = net.listen();
    let (mut rc_accept, mut rc_connect) = (0, 0);
    poll(|| {
        if rc_connect == 0 {
            rc_connect = net.connect(&mut handle).0;
        }
        if rc_accept == 0 {
            rc_accept = net.accept(lonely, &mut blank_device()).0;
        }
        (rc_accept != 0 && rc_connect != 0).then_some(())
    });
    assert_eq!((rc_accept, rc_connect), (2, 2));
    assert!(start.elapsed() >= DEADLINE);
    assert_eq!((net.close_listen(listen), net.close_listen(lonely)), (0, 0));
}
