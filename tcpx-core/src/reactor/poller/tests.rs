//! Tests of the set of descriptors, over real sockets and pipes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use super::*;
use crate::reactor::watch::{Events, Watched};

const LONG: Duration = Duration::from_secs(60);

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn told(poller: &Poller) -> Vec<IoEvent> {
    let mut events = Vec::new();
    poller.look(&mut events);
    events
}

/// Returns the events that come within a minute.
fn heard(poller: &Poller) -> Vec<IoEvent> {
    let (mut events, began) = (Vec::new(), Instant::now());
    while events.is_empty() {
        assert!(began.elapsed() < LONG, "nothing is reported");
        poller.wait(LONG, &mut events);
    }
    events
}

#[test]
fn what_happens_is_told_once_and_of_its_target() {
    let (poller, (near, mut far)) = (Arc::new(Poller::new().unwrap()), pair());
    let mut near = Watched::new(near);
    near.watch(&poller, Events::Read, Target::Listener);
    assert_eq!(told(&poller), []);
    let read = IoEvent { target: Target::Listener, is_hung_up: false };
    for _ in 0..2 {
        far.write_all(b"x").unwrap();
        assert_eq!(heard(&poller), [read]);
        assert_eq!(told(&poller), [], "it is still there, and was told");
    }
    (&*near).read_exact(&mut [0; 2]).unwrap();
    near.wait_for(Events::ReadWrite);
    assert_eq!(heard(&poller), [read], "there is room to write");
    drop(far);
    assert_eq!(heard(&poller), [IoEvent { is_hung_up: true, ..read }]);
}

#[test]
fn who_is_not_watched_any_more_is_not_told_of() {
    let (poller, (near, mut far)) = (Arc::new(Poller::new().unwrap()), pair());
    let mut watched = Watched::new(near);
    watched.watch(&poller, Events::Read, Target::Listener);
    far.write_all(b"x").unwrap();
    let near = watched.into_inner();
    assert_eq!(told(&poller), []);
    assert!(poller.targets().is_empty());
    drop(near);
}

#[test]
fn a_waiting_thread_is_woken_and_so_is_one_that_begins_to_wait() {
    let poller = Poller::new().unwrap();
    assert!(!poller.wake(), "no thread waits");
    let began = Instant::now();
    poller.wait(LONG, &mut Vec::new());
    poller.take_work();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                poller.wait(LONG, &mut Vec::new());
            }
        });
        while !poller.wake() {
            poller.take_work();
            assert!(began.elapsed() < LONG);
        }
        is_over.store(true, Ordering::SeqCst);
        poller.wake();
    });
    assert!(began.elapsed() < LONG, "both were woken");
}

#[test]
fn a_wait_ends_with_its_time() {
    let (poller, time) = (Poller::new().unwrap(), Duration::from_micros(300));
    for time in [time, 10 * time] {
        let began = Instant::now();
        poller.wait(time, &mut Vec::new());
        assert!(began.elapsed() >= time);
    }
}

/// A system that rounds waits up to whole milliseconds never does so.
#[test]
fn a_short_wait_takes_far_less_than_a_millisecond() {
    let (poller, began) = (Poller::new().unwrap(), Instant::now());
    let wait = || {
        let began = Instant::now();
        poller.wait_precisely(Duration::from_micros(20), &mut Vec::new());
        began.elapsed()
    };
    while wait() > Duration::from_micros(500) {
        assert!(began.elapsed() < LONG, "no wait was short");
    }
}

#[test]
fn an_event_ends_a_wait_however_short() {
    let (poller, (near, mut far)) = (Arc::new(Poller::new().unwrap()), pair());
    let mut near = Watched::new(near);
    near.watch(&poller, Events::Read, Target::Listener);
    let (mut events, began) = (Vec::new(), Instant::now());
    far.write_all(b"x").unwrap();
    while events.is_empty() {
        poller.wait(COARSE - Duration::from_millis(1), &mut events);
        assert!(began.elapsed() < LONG, "nothing is reported");
    }
    assert_eq!(told(&poller), []);
}

#[test]
fn precise_timers_leave_the_slack_of_the_thread() {
    set_current_timer_slack(NonZeroU64::new(70_000)).unwrap();
    let precise = PreciseTimers::begin();
    assert_eq!(current_timer_slack(), Ok(1));
    drop(precise);
    assert_eq!(current_timer_slack(), Ok(70_000));
}

#[test]
fn a_wake_is_for_the_leader_even_if_another_thread_polls_first() {
    let poller = Poller::new().unwrap();
    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let leader = scope.spawn(|| {
            poller.wait(LONG, &mut Vec::new());
            is_over.store(true, Ordering::SeqCst);
        });
        // Once `wake` has written the wake-up, this thread sees it in the set too.
        while !poller.wake() && !is_over.load(Ordering::SeqCst) {
            poller.take_work();
        }
        for _ in 0..1_000 {
            poller.poll_beside(&mut Vec::new());
        }
        leader.join().unwrap();
    });
    assert!(began.elapsed() < LONG, "it slept on");
}

#[test]
fn a_program_may_wait_on_the_set_by_itself() {
    let poller = Poller::new().unwrap();
    let is_readable = |timeout: Duration| {
        let mut set = [PollFd::new(&poller, PollFlags::IN)];
        poll(&mut set, Some(&timespec(timeout))).unwrap() > 0
    };
    assert!(!is_readable(Duration::ZERO));
    poller.export().unwrap();
    poller.export().unwrap();
    assert!(is_readable(LONG), "there may be something to do");
    assert_eq!(told(&poller), []);
    assert!(!is_readable(Duration::ZERO));
    poller.wake();
    assert!(is_readable(LONG));
    told(&poller);
    poller.set_alarm(Duration::ZERO);
    assert!(is_readable(LONG), "its time has come");
}
