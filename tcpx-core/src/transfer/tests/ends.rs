#![allow(unsafe_code)]
//! Two ends of this process with lanes between them, and without a protocol that says what to send.
//! A test deals the sections, and a queue of them stands for the control link.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use slotmap::Key;
use tcpx_protocol::plans::channel_set::ChannelSet;
use tcpx_protocol::plans::piece_cursor::{CutRules, Gathering, ListedSection, PieceCursor};
use tcpx_protocol::plans::pieces::{Piece, Pieces};
use tcpx_protocol::plans::plan::{Member, chunk_count};
use tcpx_protocol::plans::stripe_queue::Finished;
use tcpx_protocol::types::{
    Access, DEFAULT_CHUNK_BYTES, Direction, MemoryType, OpKey, TransferKey,
};
use tcpx_testkit::{PATIENCE, eventually, until};
use tcpx_unpack::{Choice, Unpack};

use crate::error::Result;
use crate::memory::device_memory::DeviceMemory;
use crate::memory::host_buffer::HostBuffer;
use crate::plugin::Plugin;
use crate::plugin::comm::{ListenComm, PendingConnect, RecvComm, SendComm};
use crate::plugin::comm_label::CommLabel;
use crate::plugin::registrations::Registrations;
use crate::transfer::batch::Batch;
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;
use crate::transfer::staging_pool::{StagingPool, StagingRequest};
use crate::transfer::window::STEP_BYTES;
use crate::types::{PeerKey, PeerName, SessionNumber};
use crate::workers::Workers;
use crate::{PluginChoice, SessionOptions};

/// Number of channels that a session has by default.
pub(super) const CHANNELS: u16 = 2;
const SEND_WINDOW: usize = 12;
const RECV_WINDOW: usize = 16;
/// Slots of a lane's staging buffer.
const SLOTS: usize = 2;

/// Sections that the sender has dealt, as it would tell them on the control link.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnnouncedSections {
    pub(super) bytes: u64,
    chunk_bytes: u32,
    first_channel: u16,
}

impl AnnouncedSections {
    fn section(&self, direction: Direction) -> ListedSection {
        let Self { bytes, chunk_bytes, first_channel } = *self;
        let (op, transfer) = (OpKey::null(), TransferKey::null());
        let channels = ChannelSet::first(CHANNELS);
        ListedSection { op, transfer, direction, bytes, chunk_bytes, first_channel, channels }
    }
}

/// Memory that a list lies in.
pub(super) struct Buffer {
    memory: HostBuffer,
    bytes: usize,
}

impl Buffer {
    /// Makes this many bytes, each of this value.
    pub(super) fn new(bytes: usize, value: u8) -> Self {
        let buffer = Self { memory: HostBuffer::new(bytes).expect("memory"), bytes };
        buffer.write(&vec![value; bytes]);
        buffer
    }

    pub(super) fn write(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.bytes);
        // SAFETY: the buffer has as many bytes, and nothing is under way from it or to it.
        unsafe { DeviceMemory::Emulated.write(self.memory.address(), bytes) }.expect("memory");
    }

    pub(super) fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: as for `write`.
        unsafe { DeviceMemory::Emulated.read(self.memory.address(), &mut bytes) }.expect("memory");
        bytes
    }
}

/// Memory of one end, and what is done with it in each round.
struct TestMemory {
    registrations: Registrations,
    batch: Batch,
    unpack: Box<dyn Unpack>,
    memory: DeviceMemory,
    done: Vec<Finished>,
    spare: Vec<Vec<Member>>,
}

impl TestMemory {
    fn new() -> Self {
        let memory = DeviceMemory::Emulated;
        let opened = tcpx_unpack::open(Choice::Auto, memory.kind()).expect("the host backend");
        Self {
            registrations: Registrations::new(Workers::default(), true, 0),
            batch: Batch::new(STEP_BYTES),
            unpack: opened.unpack,
            memory,
            done: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Pieces of one buffer, by offset and length.
    fn pieces(&mut self, buffer: &Buffer, memory: MemoryType, list: &[(u64, u64)]) -> Pieces {
        let (start, bytes) = (buffer.memory.address(), buffer.bytes as u64);
        let access = Access::ReadWrite;
        let id = self.registrations.add(start, bytes, memory, access, None).expect("real memory");
        let whole = self.registrations.span(id, 0, bytes, access).expect("all of it");
        let piece = |&(offset, bytes): &(u64, u64)| {
            assert!(offset + bytes <= buffer.bytes as u64);
            Piece { owner: 0, address: start + offset, bytes }
        };
        let list = list.iter().map(piece).collect();
        Pieces::new(memory, vec![whole.registration], list).expect("pieces that can be")
    }

    /// Returns the number of bytes of what has finished.
    fn take_done(&mut self) -> u64 {
        let mut bytes = 0;
        for finished in self.done.drain(..) {
            bytes += match finished {
                Finished::Parts { bytes, .. } => bytes,
                Finished::Together { mut members, .. } => {
                    let bytes = members.iter().map(|member| member.bytes).sum();
                    members.clear();
                    self.spare.push(members);
                    bytes
                }
            };
        }
        bytes
    }
}

/// The end that sends.
pub(super) struct Sender {
    books: TestMemory,
    pub(super) lanes: Vec<SendLane>,
    staging: StagingPool,
    next_channel: u16,
    /// Bytes that are dealt and not sent.
    under_way: u64,
    /// Rules by which it cuts what it sends.
    pub(super) rules: CutRules,
    pub(super) chunk_bytes: u32,
}

/// The end that receives.
pub(super) struct Receiver {
    books: TestMemory,
    pub(super) lanes: Vec<RecvLane>,
}

fn label(plugin: &Plugin, channel: u16) -> CommLabel {
    let nic = plugin.nics().first().expect("a NIC");
    CommLabel {
        session: SessionNumber::next(),
        peer_key: PeerKey::null(),
        peer: PeerName::bound("the other end"),
        channel,
        nic: nic.name.as_str().into(),
        nic_index: nic.index,
        memory: DeviceMemory::Emulated,
    }
}

/// Connects a comm with both of its ends.
fn connect(plugin: &Arc<Plugin>, channel: u16) -> (SendComm, RecvComm) {
    let mut listening = ListenComm::open(plugin, label(plugin, channel)).expect("listen");
    let handle = listening.handle();
    let mut connecting = PendingConnect::new(plugin, label(plugin, channel), handle, None);
    let (mut send, mut recv) = (None, None);
    eventually(|| {
        send = send.take().or_else(|| connecting.poll().expect("connect"));
        recv = recv.take().or_else(|| listening.poll_accept().expect("accept"));
        (send.is_some() && recv.is_some()).then(|| send.take().zip(recv.take()))?
    })
}

/// Makes two ends with channels between them.
pub(super) fn ends() -> (Sender, Receiver) {
    let options = SessionOptions::default().plugin(PluginChoice::Soft).progress_thread(false);
    let plugin = Plugin::open(&options).expect("the software plugin");
    let mut sender = Sender {
        books: TestMemory::new(),
        lanes: Vec::new(),
        staging: StagingPool::new(1 << 30),
        next_channel: 0,
        under_way: 0,
        rules: CutRules {
            section_bytes: 4 << 20,
            gathering: Some(Gathering { segment_bytes: 16 << 10, segments: 2 }),
            cut_pairs: false,
        },
        chunk_bytes: DEFAULT_CHUNK_BYTES,
    };
    let mut receiver = Receiver { books: TestMemory::new(), lanes: Vec::new() };
    for channel in 0..CHANNELS {
        let (send, recv) = connect(&plugin, channel);
        let key = PeerKey::null();
        let id = sender.books.registrations.new_comm(key);
        sender.lanes.push(SendLane::new(id, key, channel, send, SEND_WINDOW, STEP_BYTES));
        let id = receiver.books.registrations.new_comm(key);
        let label = label(&plugin, channel);
        receiver.lanes.push(RecvLane::new(id, key, label, recv, RECV_WINDOW, STEP_BYTES));
    }
    (sender, receiver)
}

impl Sender {
    /// Returns a list in this buffer, which stays as long as anything of it is under way.
    pub(super) fn pieces(
        &mut self,
        buffer: &Buffer,
        memory: MemoryType,
        list: &[(u64, u64)],
    ) -> Pieces {
        self.books.pieces(buffer, memory, list)
    }

    /// Has a staging buffer on every channel for what is gathered of this memory.
    pub(super) fn prepare_staging(&mut self, memory: MemoryType) {
        let Self {
            books: TestMemory { registrations, memory: device, .. }, lanes, staging, ..
        } = self;
        for lane in lanes {
            let chunk_bytes = DEFAULT_CHUNK_BYTES;
            let request = StagingRequest { memory, slots: SLOTS, chunk_bytes, device };
            assert!(lane.prepare_staging(request, staging, registrations));
            until("the staging buffer is there", || {
                lane.poll_staging(staging, registrations) == Some((memory, true))
            });
        }
    }

    /// Deals sections as long as less than the windows take is under way, and tells of each.
    pub(super) fn deal(
        &mut self,
        pieces: &Pieces,
        cursor: &mut PieceCursor,
        mut tell: impl FnMut(AnnouncedSections),
    ) {
        let ahead = u64::from(CHANNELS) * SEND_WINDOW as u64 * u64::from(self.chunk_bytes);
        while self.under_way < ahead
            && let Some(cut) = cursor.next_section(pieces, &self.rules)
        {
            let (chunk_bytes, first_channel) = (self.chunk_bytes, self.next_channel);
            let told = AnnouncedSections { bytes: cut.bytes, chunk_bytes, first_channel };
            let behind = u64::from(first_channel) + chunk_count(cut.bytes, chunk_bytes);
            self.next_channel = (behind % u64::from(CHANNELS)) as u16;
            self.under_way += cut.bytes;
            let mut plans = cursor.schedule(pieces, told.section(Direction::Send));
            let spare = &mut self.books.spare;
            while let Some(plan) = plans.next_plan(|| spare.pop().unwrap_or_default()) {
                for (channel, stripe) in plan.stripes() {
                    self.lanes[usize::from(channel)].push(stripe);
                }
            }
            tell(told);
        }
    }

    /// Makes one round. Returns the bytes that were sent in it.
    pub(super) fn round(&mut self) -> u64 {
        let TestMemory { registrations, batch, unpack, done, .. } = &mut self.books;
        for lane in &mut self.lanes {
            let _ = lane.progress(registrations, batch, done).expect("sends");
        }
        // SAFETY: the buffers stay until this end has gone, and so does the staging memory.
        unsafe { batch.submit(unpack.as_mut()) }.expect("copies");
        let finished = batch.finished(unpack.as_mut()).expect("copies");
        for lane in &mut self.lanes {
            lane.post(registrations, finished).expect("sends");
        }
        let bytes = self.books.take_done();
        self.under_way -= bytes;
        bytes
    }

    /// Closes its comms.
    pub(super) fn close(mut self) {
        for lane in self.lanes {
            drop(lane.close(&mut self.books.registrations));
        }
    }

    /// Returns the chunks that were sent so far, and those of them that were gathered.
    pub(super) fn chunks(&self) -> (u64, u64) {
        let stats = self.lanes.iter().map(|lane| lane.stats);
        stats.fold((0, 0), |(all, gathered), it| (all + it.chunks, gathered + it.gathered))
    }
}

impl Receiver {
    /// Returns a list in this buffer, which stays as long as anything of it is under way.
    pub(super) fn pieces(
        &mut self,
        buffer: &Buffer,
        memory: MemoryType,
        list: &[(u64, u64)],
    ) -> Pieces {
        self.books.pieces(buffer, memory, list)
    }

    /// Takes a section that the sender has dealt.
    pub(super) fn take(
        &mut self,
        pieces: &Pieces,
        cursor: &mut PieceCursor,
        told: AnnouncedSections,
    ) {
        assert!(cursor.allows(pieces, told.bytes, false), "{told:?}");
        let mut plans = cursor.schedule(pieces, told.section(Direction::Receive));
        let spare = &mut self.books.spare;
        while let Some(plan) = plans.next_plan(|| spare.pop().unwrap_or_default()) {
            for (channel, stripe) in plan.stripes() {
                self.lanes[usize::from(channel)].push(stripe);
            }
        }
    }

    /// Posts what there is to post, and takes what has arrived.
    pub(super) fn progress(&mut self) -> Result<()> {
        let TestMemory { registrations, batch, memory, .. } = &mut self.books;
        let mut lanes = self.lanes.iter_mut();
        lanes.try_for_each(|lane| lane.progress(registrations, batch, memory).map(drop))
    }

    /// Makes one round. Returns the bytes that were put in place in it.
    pub(super) fn round(&mut self) -> u64 {
        self.progress().expect("receives");
        let TestMemory { batch, unpack, done, .. } = &mut self.books;
        // SAFETY: the buffers stay until this end has gone; requests are consumed when their batch
        // has finished.
        unsafe { batch.submit(unpack.as_mut()) }.expect("unpacks");
        let finished = batch.finished(unpack.as_mut()).expect("unpacks");
        for lane in &mut self.lanes {
            lane.consume(finished, done).expect("consumes");
        }
        self.books.take_done()
    }

    /// Closes its comms.
    pub(super) fn close(mut self) {
        for lane in self.lanes {
            drop(lane.close(&mut self.books.registrations));
        }
    }

    /// Fragments that came through bounce buffers so far.
    pub(super) fn fragments(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.stats.fragments).sum()
    }

    /// Returns the bytes of the page that scattered receives name.
    pub(super) fn landing(&mut self) -> Vec<u8> {
        let landing = self.books.registrations.placeholder(&self.books.memory).expect("memory");
        let landing = landing.expect("there is no GPU");
        let mut bytes = vec![0; 4096];
        // SAFETY: the page is the session's, and nothing writes it.
        unsafe { self.books.memory.read(landing.address, &mut bytes) }.expect("ordinary memory");
        bytes
    }
}

/// Moves a list from one end to the other, on this thread alone.
pub(super) fn transfer(sender: &mut Sender, receiver: &mut Receiver, lists: (&Pieces, &Pieces)) {
    let mut cursors = (PieceCursor::default(), PieceCursor::default());
    let mut link = VecDeque::new();
    let (mut sent, mut received) = (0, 0);
    let give_up_at = Instant::now() + PATIENCE;
    while sent < lists.0.bytes || received < lists.1.bytes {
        sender.deal(lists.0, &mut cursors.0, |told| link.push_back(told));
        link.drain(..).for_each(|told| receiver.take(lists.1, &mut cursors.1, told));
        sent += sender.round();
        received += receiver.round();
        assert!(Instant::now() < give_up_at, "{sent} bytes sent, {received} received");
    }
}
