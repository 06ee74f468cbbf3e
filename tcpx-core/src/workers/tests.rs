use std::sync::mpsc::{Receiver, channel};

use slotmap::SlotMap;
use tcpx_testkit::{PATIENCE, until};

use super::*;

/// Value whose drop waits until it may end, and is remembered.
struct SlowDrop {
    name: u32,
    may_end: Arc<AtomicBool>,
    dropped: Arc<Mutex<Vec<u32>>>,
}

impl Drop for SlowDrop {
    fn drop(&mut self) {
        while !self.may_end.load(Ordering::Acquire) {
            thread::yield_now();
        }
        self.dropped.lock().unwrap().push(self.name);
    }
}

#[derive(Clone, Default)]
struct DropLog {
    may_end: Arc<AtomicBool>,
    dropped: Arc<Mutex<Vec<u32>>>,
}

impl DropLog {
    fn slow(&self, name: u32) -> SlowDrop {
        let Self { may_end, dropped } = self.clone();
        SlowDrop { name, may_end, dropped }
    }

    fn let_go(&self) {
        self.may_end.store(true, Ordering::Release);
    }
}

fn wait_for(ticket: &Ticket) {
    until("it is over", || ticket.is_done());
}

fn received(of: &Receiver<()>) {
    of.recv_timeout(PATIENCE).expect("the callback is called");
}

#[test]
fn a_job_waits_neither_for_its_caller_nor_for_other_jobs() {
    let (workers, drops) = (Workers::default(), DropLog::default());
    let stuck: Vec<_> = (0..5).map(|name| workers.close(drops.slow(name))).collect();
    assert!(stuck.iter().all(|ticket| !ticket.is_done()));
    let quick = workers.close(());
    until("it does not wait for the others", || {
        workers.spawn_if_blocked();
        quick.is_done()
    });
    assert!(!workers.finish(Duration::from_millis(1)), "the other jobs still wait");
    drops.let_go();
    stuck.iter().for_each(wait_for);
    assert!(workers.finish(PATIENCE));
    let mut dropped = drops.dropped.lock().unwrap().clone();
    dropped.sort_unstable();
    assert_eq!(dropped, [0, 1, 2, 3, 4]);
}

#[test]
fn threads_can_be_waited_for_and_begin_anew() {
    let workers = Workers::default();
    assert!(workers.finish(Duration::ZERO), "none began");
    for _ in 0..2 {
        let task = workers.call(|| 7);
        assert!(workers.finish(PATIENCE));
        assert_eq!((task.is_done(), task.take(), task.take()), (true, Some(7), None));
        assert_eq!(workers.inner.state().queue.threads(), 0);
    }
}

#[test]
fn a_call_that_takes_too_long_goes_on_alone() {
    let (workers, drops) = (Workers::default(), DropLog::default());
    let slow = drops.slow(1);
    let ticket = workers.close(slow);
    assert!(!workers.wait(&ticket, Duration::from_millis(1)));
    drops.let_go();
    assert!(workers.wait(&ticket, PATIENCE));
}

#[test]
fn a_job_takes_steps_and_the_callback_runs_after_progress() {
    let workers = Workers::default();
    let (sender, calls) = channel();
    workers.on_moved(move |peer| sender.send(peer).unwrap());
    let mut steps = [JobStep::Later(Duration::ZERO), JobStep::Moved, JobStep::Done].into_iter();
    let peer = SlotMap::<PeerKey, ()>::with_key().insert(());
    let ticket = workers.for_peer(peer).run(move || steps.next().unwrap());
    wait_for(&ticket);
    let received = || calls.recv_timeout(PATIENCE).expect("the callback is called");
    assert_eq!([received(), received()], [Some(peer); 2], "with the peer of the job");
    wait_for(&workers.run(|| JobStep::Done));
    assert_eq!(received(), None, "the job has no peer");
    assert!(workers.finish(PATIENCE));
    assert!(calls.try_recv().is_err(), "a pause is no progress");
}

#[test]
fn what_may_not_be_dropped_yet_waits() {
    let workers = Workers::default();
    let may = Arc::new(AtomicBool::new(false));
    let (checks, checked) = channel();
    let ticket = workers.close_when(Arc::clone(&may), move |may| {
        checks.send(()).unwrap();
        may.load(Ordering::Acquire)
    });
    received(&checked);
    assert!(!ticket.is_done());
    may.store(true, Ordering::Release);
    wait_for(&ticket);
    assert_eq!(Arc::strong_count(&may), 1);
}

#[test]
fn after_a_stall_nothing_is_dropped() {
    let (workers, drops) = (Workers::default(), DropLog::default());
    let first = workers.close(drops.slow(0));
    workers.abandon();
    let second = workers.close(drops.slow(1));
    drops.let_go();
    assert!(workers.finish(PATIENCE), "the threads end all the same");
    assert!(!second.is_done(), "its memory may be in use");
    let dropped = drops.dropped.lock().unwrap();
    assert!(!dropped.contains(&1) && first.is_done() == dropped.contains(&0));
}
