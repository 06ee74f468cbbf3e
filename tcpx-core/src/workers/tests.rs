use std::sync::mpsc::{Receiver, channel};

use slotmap::SlotMap;
use tcpx_testkit::{PATIENCE, until};

use super::*;

/// Value whose drop waits until it may end, and is remembered.
struct Slow {
    name: u32,
    may_end: Arc<AtomicBool>,
    dropped: Arc<Mutex<Vec<u32>>>,
}

impl Drop for Slow {
    fn drop(&mut self) {
        while !self.may_end.load(Ordering::Acquire) {
            thread::yield_now();
        }
        self.dropped.lock().unwrap().push(self.name);
    }
}

#[derive(Clone, Default)]
struct Scene {
    may_end: Arc<AtomicBool>,
    dropped: Arc<Mutex<Vec<u32>>>,
}

impl Scene {
    fn slow(&self, name: u32) -> Slow {
        let Self { may_end, dropped } = self.clone();
        Slow { name, may_end, dropped }
    }

    fn let_go(&self) {
        self.may_end.store(true, Ordering::Release);
    }
}

fn wait_for(ticket: &Ticket) {
    until("it is over", || ticket.is_done());
}

fn told(of: &Receiver<()>) {
    of.recv_timeout(PATIENCE).expect("somebody is told");
}

#[test]
fn nobody_waits_for_what_is_handed_over_nor_for_somebody_elses() {
    let (workers, scene) = (Workers::default(), Scene::default());
    let stuck: Vec<_> = (0..5).map(|name| workers.close(scene.slow(name))).collect();
    assert!(stuck.iter().all(|ticket| !ticket.is_done()));
    let quick = workers.close(());
    until("it does not wait for the others", || {
        workers.tend();
        quick.is_done()
    });
    assert!(!workers.finish(Duration::from_millis(1)), "the others still wait");
    scene.let_go();
    stuck.iter().for_each(wait_for);
    assert!(workers.finish(PATIENCE));
    let mut dropped = scene.dropped.lock().unwrap().clone();
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
    let (workers, scene) = (Workers::default(), Scene::default());
    let slow = scene.slow(1);
    let ticket = workers.close(slow);
    assert!(!workers.wait(&ticket, Duration::from_millis(1)));
    scene.let_go();
    assert!(workers.wait(&ticket, PATIENCE));
}

#[test]
fn a_job_takes_steps_and_somebody_is_told_of_those_that_come_to_something() {
    let workers = Workers::default();
    let (tells, hears) = channel();
    workers.on_moved(move |peer| tells.send(peer).unwrap());
    let mut steps = [Step::Later(Duration::ZERO), Step::Moved, Step::Done].into_iter();
    let peer = SlotMap::<PeerKey, ()>::with_key().insert(());
    let ticket = workers.for_peer(peer).run(move || steps.next().unwrap());
    wait_for(&ticket);
    let told = || hears.recv_timeout(PATIENCE).expect("somebody is told");
    assert_eq!([told(), told()], [Some(peer); 2], "and whom it concerns");
    wait_for(&workers.run(|| Step::Done));
    assert_eq!(told(), None, "it may be anybody");
    assert!(workers.finish(PATIENCE));
    assert!(hears.try_recv().is_err(), "a pause is nothing to tell");
}

#[test]
fn what_may_not_be_dropped_yet_waits() {
    let workers = Workers::default();
    let may = Arc::new(AtomicBool::new(false));
    let (looks, looked) = channel();
    let ticket = workers.close_when(Arc::clone(&may), move |may| {
        looks.send(()).unwrap();
        may.load(Ordering::Acquire)
    });
    told(&looked);
    assert!(!ticket.is_done());
    may.store(true, Ordering::Release);
    wait_for(&ticket);
    assert_eq!(Arc::strong_count(&may), 1);
}

#[test]
fn after_a_stall_nothing_is_dropped() {
    let (workers, scene) = (Workers::default(), Scene::default());
    let first = workers.close(scene.slow(0));
    workers.abandon();
    let second = workers.close(scene.slow(1));
    scene.let_go();
    assert!(workers.finish(PATIENCE), "the threads end all the same");
    assert!(!second.is_done(), "its memory may be in use");
    let dropped = scene.dropped.lock().unwrap();
    assert!(!dropped.contains(&1) && first.is_done() == dropped.contains(&0));
}
