//! The commands as methods of an agent, and what is made of several of them.
//!
//! § is a section of docs/plugin-contract.md.

use std::time::Duration;

use tcpx_sys::{NetDeviceHandle, UnpackNetDeviceHandle};

use crate::harness::process::Process;
use crate::harness::verdict::{Verdict, fail, require, require_rc};
use crate::link::command::{Command, commands};
use crate::link::values::{
    Census, Counted, DeviceArgument, LoadFailure, Loaded, Made, Properties, Stream, StreamQueue,
    Tested,
};
use crate::message::pattern::Mismatch;
use crate::message::unpack_row::Entry;

/// Where an agent's messages lie, and their registration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    pub at: u64,
    pub mhandle: u64,
}

/// What `accept` published of a receive comm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub kind: i32,
    pub version: i32,
    pub handle: u64,
    pub size: u64,
    pub needs_proxy_progress: i32,
}

/// The unpack queue of a receive comm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub meta: u64,
    pub bounce: u64,
    pub head: u64,
}

macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        $name:ident($($argument:ident: $type:ty),*) -> $answer:ty, $call:literal;
    )*) => {
        /// A method for each command. Those of the plugin's table return its code, whatever it is.
        impl Process {
            $($(#[$doc])* pub(crate) fn $name(&self, $($argument: $type),*) -> Verdict<$answer> {
                self.call(&Command::$name { $($argument),* })
            })*
        }
    };
}
commands!(methods);

/// The three kinds of comm, by how they are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommKind {
    Send,
    Recv,
    Listen,
}

impl Process {
    /// Closes a comm, which always succeeds (§2.12).
    pub(crate) fn close(&self, kind: CommKind, comm: u64) -> Verdict {
        let (name, rc) = match kind {
            CommKind::Send => ("closeSend", self.close_send(comm)?),
            CommKind::Recv => ("closeRecv", self.close_recv(comm)?),
            CommKind::Listen => ("closeListen", self.close_listen(comm)?),
        };
        require_rc(name, rc, 0)
    }

    /// `regMr` of a size that is no trick.
    pub(crate) fn register(&self, comm: u64, data: u64, bytes: u64, kind: i32) -> Verdict<Made> {
        self.reg_mr(comm, data, i32::try_from(bytes).unwrap_or(i32::MAX), kind)
    }

    /// Memory that can be registered as this type.
    pub(crate) fn allocate_as(&self, kind: i32, bytes: u64) -> Verdict<u64> {
        match kind {
            tcpx_sys::PTR_CUDA => self.allocate_device(bytes),
            _ => self.allocate(bytes),
        }
    }

    /// A buffer of its own with a registration.
    pub(crate) fn registered(&self, comm: u64, bytes: u64, kind: i32) -> Verdict<Buffer> {
        let at = self.allocate_as(kind, bytes)?;
        self.registered_at(comm, at, bytes, kind)
    }

    /// A registration of memory that is there.
    pub(crate) fn registered_at(
        &self,
        comm: u64,
        at: u64,
        bytes: u64,
        kind: i32,
    ) -> Verdict<Buffer> {
        let made = self.register(comm, at, bytes, kind)?;
        require_rc(&format!("regMr of {bytes} page-aligned bytes as type {kind}"), made.rc, 0)?;
        Ok(Buffer { at, mhandle: made.pointer })
    }

    /// Bytes at `at`, as many as were asked for.
    pub(crate) fn read(&self, at: u64, bytes: u32) -> Verdict<Vec<u8>> {
        let read = self.read_bytes(at, bytes)?;
        if read.len() == bytes as usize {
            Ok(read)
        } else {
            Err(fail("the agent reads what was asked for", "another length"))
        }
    }

    /// The device handle that `accept` wrote at `at`.
    pub(crate) fn device(&self, at: u64) -> Verdict<Device> {
        let bytes = self.read(at, size_of::<NetDeviceHandle>() as u32)?;
        Ok(Device {
            kind: int_at(&bytes, 0),
            version: int_at(&bytes, 4),
            handle: word_at(&bytes, 8),
            size: word_at(&bytes, 16),
            needs_proxy_progress: int_at(&bytes, 24),
        })
    }

    /// The queue behind a device handle.
    pub(crate) fn queue(&self, handle: u64) -> Verdict<Queue> {
        require(handle != 0, "accept publishes a device struct", || "a NULL handle".to_owned())?;
        let bytes = self.read(handle, size_of::<UnpackNetDeviceHandle>() as u32)?;
        Ok(Queue {
            meta: word_at(&bytes, 0),
            bounce: word_at(&bytes, 8),
            head: word_at(&bytes, 16),
        })
    }
}

/// Runs a stream in both agents at once.
pub(crate) fn run_streams(
    sender: (&Process, Stream),
    receiver: (&Process, Stream, Option<StreamQueue>),
) -> Verdict {
    let send = Command::send_stream { stream: sender.1 };
    let receive = Command::recv_stream { stream: receiver.1, queue: receiver.2 };
    receiver.0.begin(&receive)?;
    sender.0.begin(&send)?;
    let received: Result<(), String> = receiver.0.finish(receive.name())?;
    received.map_err(|text| fail("every message of the stream arrives", text))?;
    let sent: Result<(), String> = sender.0.finish(send.name())?;
    sent.map_err(|text| fail("every send of the stream is done", text))
}

fn int_at(bytes: &[u8], at: usize) -> i32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    i32::from_ne_bytes(word)
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}
