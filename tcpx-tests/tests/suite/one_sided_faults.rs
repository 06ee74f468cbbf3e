//! One of two ends of a read or write is killed or frozen, in each phase of it: the other one gets
//! a typed error that names the peer, and its memory back; a third session moves its bytes on. And
//! memory that is taken back under fire is never touched again.
//!
//! The phase is exact, without a clock: a proxy on the control link holds the frame that comes
//! next, or the software plugin of the victim ends or stops its process at a scripted call.

use std::net::Ipv4Addr;

use rustix::process::Signal;
use tcpx_core::{
    Access, Error, ExportOptions, MemoryRange, MemoryType, Operation, OperationKind, RemoteAccess,
    RemoteProblem, RemoteRange,
};
use tcpx_testkit::PATIENCE;
use tcpx_tests::proxy::{Direction, LinkProxy, kind};
use tcpx_tests::script::{Command, Memory, Options, PATIENCE_MS};
use tcpx_tests::sessions::{join, lively, open};
use tcpx_tests::{Agent, Trio};

use crate::peers_to_run::faulty_agent as agent;

/// How long a peer may be silent: longer than a busy machine keeps a process from its processor.
const PEER_TIMEOUT_MS: u64 = 3_000;
/// 46 chunks.
const BYTES: u64 = 3_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum PeerFault {
    Die,
    Freeze,
}

/// When it falls.
#[derive(Clone, Copy, Debug)]
enum FaultMoment {
    /// When this frame is about to pass.
    Frame(Direction, u16),
    /// In this call of the victim's plugin.
    Call(&'static str),
}

use Direction::{ToConnector, ToListener};
use FaultMoment::{Call, Frame};

impl PeerFault {
    const BOTH: [Self; 2] = [Self::Die, Self::Freeze];

    fn faults(self, moment: FaultMoment) -> String {
        match (self, moment) {
            (_, Frame(..)) => String::new(),
            (Self::Die, Call(call)) => format!("die:{call}"),
            (Self::Freeze, Call(call)) => format!("freeze:{call}"),
        }
    }

    fn strike(self, victim: &Agent) {
        victim.signal(match self {
            Self::Die => Signal::KILL,
            Self::Freeze => Signal::STOP,
        });
    }

    fn wait_until_fallen(self, victim: &mut Agent) {
        let has_fallen = match self {
            Self::Die => victim.wait_until_ended(PATIENCE),
            Self::Freeze => victim.wait_until_stopped(PATIENCE),
        };
        assert!(has_fallen, "the victim came to its end");
    }

    fn words(self) -> &'static str {
        match self {
            Self::Die => "killed",
            Self::Freeze => "nothing was heard of it for",
        }
    }
}

/// Hub and victim, connected through a proxy, each with memory that it exports.
struct ProxiedTrio {
    trio: Trio,
    proxy: LinkProxy,
    /// Of the hub, and of the victim.
    memory: [u64; 2],
    keys: [Vec<u8>; 2],
}

impl ProxiedTrio {
    /// `on_link`: what is read and written travels on the link.
    fn new(faults: &str, on_link: bool) -> Self {
        let options = Options {
            link_bytes: Some(if on_link { BYTES } else { 0 }),
            channels: Some(1),
            chunk_bytes: Some(65_536),
            connect_timeout_ms: Some(PATIENCE_MS),
            close_timeout_ms: Some(PATIENCE_MS),
            peer_timeout_ms: Some(PEER_TIMEOUT_MS),
            progress_thread: true,
            ..Options::default()
        };
        let mut trio = Trio::with([agent(""), agent(faults), agent("")], options);
        let conn_info = trio.introduce();
        let proxy = LinkProxy::start(tcpx_tests::control_addresses(&conn_info)[0]);
        let port = proxy.address().port();
        let conn_info = tcpx_tests::with_address(&conn_info, Ipv4Addr::LOCALHOST, port);
        trio.hub.run(Command::Load { peer: "victim".into(), conn_info });
        trio.connect();
        let allocate = Command::Allocate { bytes: BYTES, memory: Memory::Device };
        let memory = [trio.hub.get(allocate.clone()), trio.victim.get(allocate)];
        let keys = [
            trio.hub.get(Command::Export { memory: memory[0] }),
            trio.victim.get(Command::Export { memory: memory[1] }),
        ];
        Self { trio, proxy, memory, keys }
    }

    /// The initiator posts, and waits; the fault falls on the victim. `hub_asks`: the hub is the
    /// initiator, else the victim.
    fn strike(&mut self, hub_asks: bool, is_write: bool, fault: PeerFault, moment: FaultMoment) {
        let Self { trio, proxy, memory, keys } = self;
        let (initiator, peer, memory, key) = match hub_asks {
            true => (&mut trio.hub, "victim", memory[0], keys[1].clone()),
            false => (&mut trio.victim, "hub", memory[1], keys[0].clone()),
        };
        let prepare = Command::Prepare { peer: peer.into(), is_write, memory, bytes: BYTES, key };
        let operation: usize = initiator.get(prepare);
        if let Frame(direction, frame) = moment {
            proxy.hold(direction, frame);
        }
        // It may be the victim's last call.
        initiator.send_command(Command::PostOperation { operation });
        if hub_asks {
            initiator.receive_reply(PATIENCE).expect("it is not under way");
            initiator.send_command(Command::WaitOperation { operation, timeout_ms: PATIENCE_MS });
        }
        if let Frame(..) = moment {
            assert!(proxy.wait_until_held(PATIENCE), "the operation comes to its frame");
            fault.strike(&trio.victim);
        }
        fault.wait_until_fallen(&mut trio.victim);
        proxy.release();
    }

    /// The hub has its memory back, and the next process of the victim's name works.
    fn recover(mut self) {
        let [memory, _] = self.memory;
        self.trio.hub.run(Command::Unexport { key: self.keys[0].clone() });
        self.trio.hub.run(Command::Deregister { memory });
        self.trio.victim.kill();
        self.trio.replace_victim(agent(""));
    }
}

impl FaultMoment {
    /// Whether it is one of what travels on the link.
    fn is_on_link(self) -> bool {
        matches!(self, Frame(_, kind::LINK_CHUNK))
    }
}

/// Whether the victim may have done its part when this frame is about to pass.
fn is_too_late(moment: FaultMoment) -> bool {
    matches!(moment, Frame(ToConnector, kind::CHUNKS | kind::LINK_CHUNK | kind::END))
}

fn target_struck(is_write: bool, fault: PeerFault, moment: FaultMoment) {
    let mut setup = ProxiedTrio::new(&fault.faults(moment), moment.is_on_link());
    let expected = setup.trio.expect_from_witness();
    setup.strike(true, is_write, fault, moment);
    setup.trio.serve();
    match setup.trio.hub.receive_reply(2 * PATIENCE) {
        // The system has all that it sent.
        Ok(_) => assert!(is_too_late(moment), "{moment:?}, {fault:?}: it goes well"),
        Err(refusal) => {
            let failure = refusal.failure();
            assert_eq!(failure.kind, "PeerGone", "{moment:?}, {fault:?}: {failure:?}");
            assert!(failure.text.contains(fault.words()), "{moment:?}, {fault:?}: {failure:?}");
            assert!(failure.text.contains("peer victim"), "{moment:?}, {fault:?}: {failure:?}");
        }
    }
    setup.trio.verify(expected);
    setup.recover();
}

fn initiator_struck(is_write: bool, fault: PeerFault, moment: FaultMoment) {
    let mut setup = ProxiedTrio::new(&fault.faults(moment), moment.is_on_link());
    let expected = setup.trio.expect_from_witness();
    setup.strike(false, is_write, fault, moment);
    setup.trio.serve();
    setup.trio.verify(expected);
    setup.recover();
}

/// All blows at all moments, at once: they are processes of their own.
fn table(case: fn(bool, PeerFault, FaultMoment), is_write: bool, moments: &[FaultMoment]) {
    std::thread::scope(|scope| {
        for (moment, fault) in
            moments.iter().flat_map(|it| PeerFault::BOTH.map(|fault| (*it, fault)))
        {
            scope.spawn(move || case(is_write, fault, moment));
        }
    });
}

/// Each fault falls once on what travels on the link, and once on what channels carry.
#[test]
fn the_target_of_a_write_and_the_initiator_of_a_read_are_struck() {
    std::thread::scope(|scope| {
        scope.spawn(|| target_struck(true, PeerFault::Die, Frame(ToListener, kind::LINK_CHUNK)));
        scope.spawn(|| target_struck(true, PeerFault::Freeze, Call("irecv@10")));
        scope.spawn(|| {
            initiator_struck(false, PeerFault::Freeze, Frame(ToListener, kind::LINK_CHUNK))
        });
        scope.spawn(|| initiator_struck(false, PeerFault::Die, Call("irecv@10")));
    });
}

#[test]
#[ignore = "deep: thirty processes"]
fn the_target_of_a_write_is_struck() {
    let moments = [
        Frame(ToListener, kind::LIST),
        Frame(ToListener, kind::LINK_CHUNK),
        Frame(ToConnector, kind::CLEAR_TO_SEND),
        Call("irecv@10"),
        Frame(ToConnector, kind::END),
    ];
    table(target_struck, true, &moments);
}

#[test]
#[ignore = "deep: thirty processes"]
fn the_target_of_a_read_is_struck() {
    let moments = [
        Frame(ToListener, kind::READ),
        Frame(ToConnector, kind::CHUNKS),
        Frame(ToConnector, kind::LINK_CHUNK),
        Call("isend@10"),
    ];
    table(target_struck, false, &moments);
}

#[test]
#[ignore = "deep: thirty processes"]
fn the_initiator_of_a_write_is_struck() {
    let moments = [
        Frame(ToConnector, kind::LIST),
        Frame(ToConnector, kind::LINK_CHUNK),
        Frame(ToListener, kind::CLEAR_TO_SEND),
        Call("isend@10"),
        Frame(ToListener, kind::END),
    ];
    table(initiator_struck, true, &moments);
}

#[test]
#[ignore = "deep: thirty processes"]
fn the_initiator_of_a_read_is_struck() {
    let moments = [
        Frame(ToConnector, kind::READ),
        Frame(ToListener, kind::CHUNKS),
        Frame(ToListener, kind::LINK_CHUNK),
        Call("irecv@10"),
    ];
    table(initiator_struck, false, &moments);
}

/// Both ends live, and nothing of one way between them does.
#[derive(Clone, Copy, Debug)]
enum PathCut {
    /// The control link, when this frame is about to pass.
    Link(Direction, u16),
    /// The socket of a channel, as a script of the victim's plugin says.
    Channel(&'static str),
}

/// Starts an operation at the hub and cuts it off. Both ends receive the error and get their memory
/// back.
fn cut_off(is_write: bool, cut: PathCut) {
    let script = match cut {
        PathCut::Link(..) => "",
        PathCut::Channel(script) => script,
    };
    let mut setup = ProxiedTrio::new(script, matches!(cut, PathCut::Link(_, kind::LINK_CHUNK)));
    let expected = setup.trio.expect_from_witness();
    let ProxiedTrio { trio, proxy, memory, keys } = &mut setup;
    let (key, peer) = (keys[1].clone(), "victim".into());
    let prepare = Command::Prepare { peer, is_write, memory: memory[0], bytes: BYTES, key };
    let operation: usize = trio.hub.get(prepare);
    if let PathCut::Link(direction, frame) = cut {
        proxy.hold(direction, frame);
    }
    trio.hub.run(Command::PostOperation { operation });
    trio.hub.send_command(Command::WaitOperation { operation, timeout_ms: PATIENCE_MS });
    if let PathCut::Link(..) = cut {
        assert!(proxy.wait_until_held(PATIENCE), "the operation comes to its frame");
        proxy.cut();
        proxy.release();
    }
    trio.serve();
    let at_the_hub = trio.hear_failure();
    let at_the_victim = trio.victim_failure();
    for failure in [at_the_hub, at_the_victim] {
        assert!(["PeerGone", "Plugin"].contains(&&*failure.kind), "{cut:?}: {failure:?}");
        assert!(failure.text.contains("[TCPX-7"), "{cut:?}: {failure:?}");
    }
    trio.victim.run(Command::Unexport { key: keys[1].clone() });
    trio.victim.run(Command::Deregister { memory: memory[1] });
    trio.verify(expected);
    setup.recover();
}

fn cut_off_at_once(cases: &[(bool, PathCut)]) {
    std::thread::scope(|scope| {
        for &(is_write, cut) in cases {
            scope.spawn(move || cut_off(is_write, cut));
        }
    });
}

#[test]
fn the_way_of_a_write_is_cut() {
    cut_off_at_once(&[
        (true, PathCut::Link(ToListener, kind::LINK_CHUNK)),
        (true, PathCut::Channel("cut:recv.data0@500000")),
    ]);
}

#[test]
#[ignore = "deep: thirty processes"]
fn the_way_between_both_ends_is_cut() {
    cut_off_at_once(&[
        (true, PathCut::Link(ToListener, kind::LIST)),
        (true, PathCut::Link(ToConnector, kind::CLEAR_TO_SEND)),
        (true, PathCut::Link(ToListener, kind::CHUNKS)),
        (true, PathCut::Link(ToListener, kind::LINK_CHUNK)),
        (false, PathCut::Link(ToConnector, kind::LINK_CHUNK)),
        (true, PathCut::Link(ToConnector, kind::END)),
        (false, PathCut::Link(ToListener, kind::READ)),
        (true, PathCut::Channel("cut:recv.data0@500000")),
        (false, PathCut::Channel("cut:send.data0@500000")),
    ]);
}

/// Posts it until it is refused.
fn fire(operation: &Operation) -> Error {
    loop {
        operation.post(None).expect("it is not under way");
        if let Err(error) = operation.wait(Some(PATIENCE)) {
            return error;
        }
    }
}

#[test]
fn memory_that_is_taken_back_under_fire_is_never_touched_again() {
    const PEERS: [&str; 4] = ["north", "east", "south", "west"];
    let target = open(lively());
    let peers = PEERS.map(|name| {
        let peer = open(lively());
        join((&peer, name), (&target, "target"));
        peer
    });
    for bytes in [3_000, 100_000, BYTES] {
        let lent = vec![1; bytes as usize];
        let memory = target.register_buffer(lent, Access::ReadWrite).expect("it has bytes");
        let options = ExportOptions::new(RemoteAccess::ReadWrite);
        let key = target.export(memory, options).expect("it is registered");
        // Two write, two read.
        let operations: Vec<Operation> = peers
            .iter()
            .zip([OperationKind::Write, OperationKind::Read].into_iter().cycle())
            .map(|(peer, kind)| {
                let own = peer.allocate(bytes, MemoryType::Host).expect("memory");
                let local = [MemoryRange { memory: own, offset: 0, bytes }];
                let remote = [RemoteRange { key: &key, offset: 0, bytes }];
                peer.prepare("target", kind, &local, &remote).expect("it fits")
            })
            .collect();
        std::thread::scope(|scope| {
            let fires: Vec<_> =
                operations.iter().map(|operation| scope.spawn(|| fire(operation))).collect();
            let has_hit = |it: &Operation| it.counts().expect("no fork").operations_done >= 3;
            while !operations.iter().all(has_hit) {
                std::thread::yield_now();
            }
            let mut back = target.take_buffer(memory).expect("what uses it is stopped");
            back.fill(0xee);
            for fire in fires {
                let error = fire.join().expect("no panic");
                let problem =
                    matches!(error, Error::Remote { problem: RemoteProblem::Revoked, .. });
                assert!(problem, "{bytes} bytes: {error}");
            }
            assert!(back.iter().all(|byte| *byte == 0xee), "{bytes} bytes: written afterwards");
        });
    }
}
