//! What a program may ask while another thread is inside the session, for however long.

use std::sync::mpsc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tcpx_testkit::PATIENCE;

use super::{connected, open, soft};
use crate::engine::Engine;
use crate::session::wait::WaitLimit;
use crate::{Access, Error, Post, Session, SessionOptions, Transfer};

fn options() -> SessionOptions {
    soft().eager_bytes(0)
}

#[test]
fn whoever_waits_beside_a_thread_that_leads_looks_only_when_it_is_told() {
    let session = open(soft().progress_thread(true));
    // The progress thread leads the second time at the latest, and nothing moves.
    for _ in 0..2 {
        let mut looks = 0;
        let deadline = session.shared.wait(
            WaitLimit::for_time(Duration::from_millis(200)),
            |_| {
                looks += 1;
                Ok(Poll::<()>::Pending)
            },
            |_, _, _| Error::Cancelled,
        );
        assert!(matches!(deadline, Err(Error::Cancelled)));
        assert!(looks < 100, "{looks} looks in 200 ms");
    }
}

/// A round. Whether there is word for those who wait for peers.
fn round(session: &Session) -> bool {
    let mut events = Vec::new();
    session.shared.poller().look(&mut events);
    let mut engine = session.shared.engine().expect("no fork");
    engine.progress(Instant::now(), &mut events);
    engine.take_news()
}

#[test]
fn whoever_waits_for_peers_hears_of_them_and_not_of_messages() {
    let [left, right] = connected(options());
    let give_up_at = Instant::now() + PATIENCE;
    let memory = [&left, &right]
        .map(|session| session.register_buffer(vec![0; 8], Access::ReadWrite).expect("memory"));
    let send = left.create_transfer("right").expect("it is up");
    let receive = right.create_transfer("left").expect("it is up");
    for tag in 0..20 {
        receive.post_recv(Post { memory: memory[1], offset: 0, bytes: 8, tag }).expect("it fits");
        send.post_send(Post { memory: memory[0], offset: 0, bytes: 8, tag }).expect("it fits");
        let goes_on = |transfer: &Transfer| {
            let counts = transfer.counts().expect("no fork");
            counts.operations_done < counts.operations_posted
        };
        while goes_on(&send) || goes_on(&receive) {
            assert!(!round(&left) && !round(&right));
            assert!(Instant::now() < give_up_at, "they do not arrive");
        }
    }
    let mut engine = left.shared.engine().expect("no fork");
    engine.begin_disconnect("right", Instant::now()).expect("it is up");
    assert!(engine.take_news(), "it is left");
    let key = engine.peer("right").expect("it is known").0;
    engine.fail_peer(key, Error::Closed);
    assert!(engine.take_news() && !engine.take_news(), "it is over, and that is told once");
}

#[test]
fn a_transfer_answers_while_another_thread_has_the_engine() {
    let [left, _right] = connected(options());
    let memory = left.register_buffer(vec![0; 8], Access::ReadOnly).expect("memory");
    let post = Post { memory, offset: 0, bytes: 8, tag: 1 };
    let [waits, failed] = [(), ()].map(|()| left.create_transfer("right").expect("it is up"));
    failed.report_completions(1).expect("no fork");
    for transfer in [&waits, &failed] {
        transfer.post_send(post).expect("it fits");
    }
    failed.cancel();
    // Whoever waits for it here waits forever.
    let engine = left.shared.engine().expect("no fork");
    assert!(!waits.is_complete().expect("it goes on"));
    assert!(waits.error().is_none());
    assert_eq!(waits.counts().expect("no fork").operations_posted, 1);
    assert_eq!(waits.round_counts().expect("no fork").operations_done, 0);
    assert!(matches!(failed.is_complete(), Err(Error::Cancelled)));
    assert!(matches!(failed.wait(None), Err(Error::Cancelled)));
    assert!(matches!(failed.error(), Some(Error::Cancelled)));
    failed.report_completions(2).expect("no fork");
    left.event_fd().expect("a descriptor");
    let mut completions = Vec::new();
    assert_eq!(left.poll_completions(&mut completions, 9).expect("no fork"), 1);
    assert_eq!((completions[0].context, completions[0].rounds), (2, 1));
    drop(engine);
}

/// Has a thread rest that leads. Returns whether it is woken when another lets go of the engine,
/// after it has done this.
fn is_woken_by(session: &Session, act: impl FnOnce(&Engine)) -> bool {
    // It rests for far longer than this takes on any machine.
    let now = Instant::now() + Duration::from_secs(3600);
    let mut engine = session.shared.engine().expect("no fork");
    engine.progress(now, &mut Vec::new());
    engine.rest(now);
    act(&engine);
    session.shared.poller().take_work();
    drop(engine);
    session.shared.poller().has_work()
}

#[test]
fn whoever_rests_is_woken_when_something_is_due_sooner() {
    let session = open(options());
    assert!(!is_woken_by(&session, |_| {}));
    let (hold, held) = mpsc::channel::<()>();
    // Somebody has to see whether the workers are held up.
    let is_woken = is_woken_by(&session, |engine| {
        drop(engine.commons.workers.call(move || held.recv()));
    });
    assert!(is_woken);
    drop(hold);
}
