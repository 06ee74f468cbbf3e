//! A target with exports in guarded memory, a peer that must not notice anything, and peers that
//! are made to break the protocol.

use std::net::Ipv4Addr;
use std::time::Duration;

use tcpx_core::{
    Error, ExportOptions, MemoryId, MemoryRange, MemoryType, OperationKind, RemoteAccess,
    RemoteKey, RemoteRange, Session,
};
use tcpx_testkit::{PATIENCE, until};
use tcpx_tests::proxy::{Direction, LinkProxy, kind};
use tcpx_tests::sessions::{drop_all, join_by, lively, open};
use tcpx_wire::frame;

use super::arena::{Arena, BYTES, MARGIN};
use super::frames::{self, EndFrame, WireKey};

/// Time in which users of memory that is taken back have to give it up.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
pub(crate) const CHUNK_BYTES: u32 = 65_536;
/// Longer than what travels on the control link: the proxy knows frames alone.
pub(crate) const LONG: u64 = 100_000;
/// Answers of the target to requests that the peer's session has not made.
const ANSWERS: [u16; 5] =
    [kind::CLEAR_TO_SEND, kind::END, kind::STOPPED, kind::CANCEL, kind::CHUNKS];

fn session() -> Session {
    let options = lively().close_timeout(CLOSE_TIMEOUT);
    open(options.chunk_bytes(CHUNK_BYTES).channels(1))
}

pub(crate) struct TargetSetup {
    pub(crate) target: Session,
    pub(crate) witness: Session,
    conn_info: Vec<u8>,
    arena: Arena,
    pub(crate) memory: MemoryId,
    pub(crate) readable: RemoteKey,
    pub(crate) writable: RemoteKey,
}

/// Correct peer, and a proxy that sends frames in its name.
pub(crate) struct HostilePeer {
    name: String,
    session: Session,
    proxy: LinkProxy,
    pub(crate) read_key: WireKey,
    pub(crate) write_key: WireKey,
}

impl TargetSetup {
    pub(crate) fn new() -> Self {
        let [target, witness] = [session(), session()];
        let conn_info = target.listen().expect("listen");
        join_by((&witness, "witness"), (&target, "target"), &conn_info);
        let arena = Arena::new();
        let memory = arena.register(&target);
        let export = |access| {
            let options = ExportOptions::new(access).range(MARGIN, BYTES);
            target.export(memory, options).expect("it is registered")
        };
        let (readable, writable) = (export(RemoteAccess::Read), export(RemoteAccess::Write));
        Self { target, witness, conn_info, arena, memory, readable, writable }
    }

    /// Returns a peer that has read and written, and breaks the protocol from now on.
    pub(crate) fn hostile(&self, name: &str) -> HostilePeer {
        let proxy = LinkProxy::start(tcpx_tests::control_addresses(&self.conn_info)[0]);
        let port = proxy.address().port();
        let proxied = tcpx_tests::with_address(&self.conn_info, Ipv4Addr::LOCALHOST, port);
        let session = session();
        join_by((&session, name), (&self.target, "target"), &proxied);
        let own = session.allocate(LONG, MemoryType::Host).expect("memory");
        let behave = |kind, key| {
            let local = [MemoryRange { memory: own, offset: 0, bytes: LONG }];
            let remote = [RemoteRange { key, offset: 0, bytes: LONG }];
            let operation = session.prepare("target", kind, &local, &remote).expect("it fits");
            operation.post(None).expect("it is not under way");
            operation.wait(Some(PATIENCE)).expect("it is allowed");
            // Not forgotten, so that nothing but what is injected goes to the target.
            std::mem::forget(operation);
            let lists = proxy.passed(Direction::ToListener, kind::LIST);
            let body = &lists.last().expect("it has sent its list")[frame::HEADER_BYTES..];
            // Behind its number, how many keys are here, and what it comes to.
            body[24..48].try_into().expect("one key")
        };
        let read_key = behave(OperationKind::Read, &self.readable);
        let write_key = behave(OperationKind::Write, &self.writable);
        ANSWERS.into_iter().for_each(|answer| proxy.withhold(Direction::ToConnector, answer));
        HostilePeer { name: name.to_owned(), session, proxy, read_key, write_key }
    }

    /// A key of another session, to memory that is as long.
    pub(crate) fn key_of_another_session(&self) -> WireKey {
        let memory = self.witness.allocate(BYTES, MemoryType::Host).expect("memory");
        let options = ExportOptions::new(RemoteAccess::ReadWrite);
        frames::wire_key(&self.witness.export(memory, options).expect("it is registered"))
    }

    /// Returns whether the target has disconnected a peer for its frames.
    pub(crate) fn has_disconnected(&self, hostile: &HostilePeer) -> bool {
        match self.target.create_transfer(&hostile.name) {
            Err(Error::Protocol { .. }) => true,
            Ok(_) | Err(Error::PeerState { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Asserts that the target disconnects a peer for its frames.
    pub(crate) fn assert_disconnected(&self, hostile: &HostilePeer, case: &str) {
        until(&format!("{case}: it is disconnected"), || self.has_disconnected(hostile));
    }

    /// Asserts that nothing but exported bytes has changed, and that all other peers are served.
    pub(crate) fn assert_unharmed(&self, case: &str) {
        assert!(self.arena.is_whole(), "{case}: outside");
        let (here, there) = (
            self.witness.allocate(LONG, MemoryType::Host).expect("memory"),
            self.target.allocate(LONG, MemoryType::Device).expect("memory"),
        );
        let options = ExportOptions::new(RemoteAccess::ReadWrite);
        let key = self.target.export(there, options).expect("it is registered");
        self.witness.write_memory(here, 0, &vec![7; LONG as usize]).expect("it is ours");
        let local = [MemoryRange { memory: here, offset: 0, bytes: LONG }];
        let remote = [RemoteRange { key: &key, offset: 0, bytes: LONG }];
        let kind = OperationKind::Write;
        let write = self.witness.prepare("target", kind, &local, &remote).expect("it fits");
        write.post(None).expect("it is not under way");
        write.wait(Some(PATIENCE)).expect("the witness is served");
        drop(write);
        self.target.unexport(&key).expect("nothing uses it");
        let mut moved = vec![0; LONG as usize];
        self.target.read_memory(there, 0, &mut moved).expect("nothing uses it");
        assert!(moved.iter().all(|byte| *byte == 7), "{case}: the witness's bytes");
        self.target.deregister_memory(there).expect("nothing uses it");
        self.witness.deregister_memory(here).expect("nothing uses it");
    }

    /// The memory comes back, and all peers but the hostile ones have ended well.
    pub(crate) fn end(self, case: &str) {
        for key in [&self.readable, &self.writable] {
            match self.target.unexport(key) {
                Ok(()) | Err(Error::Remote { .. }) => {}
                Err(error) => panic!("{case}: {error}"),
            }
        }
        self.target.deregister_memory(self.memory).expect("nothing uses it");
        self.assert_unharmed(case);
        drop_all([self.target, self.witness]);
    }
}

impl HostilePeer {
    pub(crate) fn send_frames(&self, frames: &[u8]) {
        // Once the target has given up, no thread reads any more.
        let _ = self.proxy.inject(Direction::ToListener, frames);
    }

    /// Stops reading the frames of the target.
    pub(crate) fn stop_reading(&self) {
        self.proxy.swallow();
    }

    /// Withholds frames of this kind from the peer's session, and leaves them to `receive_frame`.
    pub(crate) fn withhold(&self, kind: u16) {
        self.proxy.withhold(Direction::ToConnector, kind);
    }

    /// Returns the body of the next frame of this kind from the target.
    pub(crate) fn receive_frame(&self, answer: u16) -> Vec<u8> {
        let frame = self.proxy.take_withheld(Direction::ToConnector, answer, PATIENCE);
        frame.expect("the target answers")[frame::HEADER_BYTES..].to_vec()
    }

    /// Waits for a frame of this kind, and drops all frames that the target has sent by then.
    /// Returns how many they are.
    pub(crate) fn skip_frames(&self, answer: u16) -> usize {
        self.receive_frame(answer);
        1 + self.proxy.forget_withheld()
    }

    /// Waits until the target has handled all frames so far.
    pub(crate) fn wait_until_handled(&self) {
        let (number, request) = (u32::MAX, u64::MAX);
        self.send_frames(&frames::list(number, true, &self.write_key, &[(0, 0, 1)]));
        self.send_frames(&frames::write_now(request, number, &[0]));
        while EndFrame::of(&self.receive_frame(kind::END)).request != request {}
        self.send_frames(&frames::forget(number));
    }

    /// Asks for a write, which is cleared to send. Returns the target's name for it.
    pub(crate) fn begin_write(&self, request: u64, list: u32) -> u64 {
        self.send_frames(&frames::write(request, list));
        let cleared_to_send = self.receive_frame(kind::CLEAR_TO_SEND);
        assert_eq!(cleared_to_send[1..9], request.to_le_bytes());
        u64::from_le_bytes(cleared_to_send[9..17].try_into().expect("a name"))
    }

    /// Ends the session at the hostile peer's end, without a goodbye that the target would answer.
    pub(crate) fn end(self) {
        self.proxy.cut();
        drop(self.session);
    }
}
