//! Commands as methods of an agent, and calls that combine several commands.
//!
//! § is a section of docs/plugin-contract.md.

use std::time::Duration;

use tcpx_sys::{NetDeviceHandle, UnpackNetDeviceHandle};

use crate::harness::agent_process::AgentProcess;
use crate::harness::check_result::{CheckResult, fail, require, require_rc};
use crate::link::command::{Command, commands};
use crate::link::values::{
    CountReply, DeviceArgument, LoadFailure, LoadedTable, PointerReply, ProcessResources,
    Properties, Stream, StreamQueue, TestReply,
};
use crate::message::pattern::Mismatch;
use crate::message::unpack_row::Entry;

/// Memory of an agent with its registration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisteredBuffer {
    pub at: u64,
    pub mhandle: u64,
}

/// Fields of the device handle that `accept` wrote for a receive comm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceHandle {
    pub kind: i32,
    pub version: i32,
    pub handle: u64,
    pub size: u64,
    pub needs_proxy_progress: i32,
}

/// Addresses of the unpack queue and the bounce buffer of a receive comm, and the queue's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnpackQueue {
    pub meta: u64,
    pub bounce: u64,
    pub head: u64,
}

macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        $name:ident($($argument:ident: $type:ty),*) -> $answer:ty, $call:literal;
    )*) => {
        /// A method for each command. Those of the plugin's table return any code as it is.
        impl AgentProcess {
            $($(#[$doc])* pub(crate) fn $name(&self, $($argument: $type),*) -> CheckResult<$answer> {
                self.call(&Command::$name { $($argument),* })
            })*
        }
    };
}
commands!(methods);

/// The three kinds of comm, each with its own close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommKind {
    Send,
    Recv,
    Listen,
}

impl AgentProcess {
    /// Closes a comm, which always succeeds (§2.12).
    pub(crate) fn close(&self, kind: CommKind, comm: u64) -> CheckResult {
        let (name, rc) = match kind {
            CommKind::Send => ("closeSend", self.close_send(comm)?),
            CommKind::Recv => ("closeRecv", self.close_recv(comm)?),
            CommKind::Listen => ("closeListen", self.close_listen(comm)?),
        };
        require_rc(name, rc, 0)
    }

    /// Calls `regMr` with a size that an `int` holds.
    pub(crate) fn register(
        &self,
        comm: u64,
        data: u64,
        bytes: u64,
        kind: i32,
    ) -> CheckResult<PointerReply> {
        self.reg_mr(comm, data, i32::try_from(bytes).unwrap_or(i32::MAX), kind)
    }

    /// Allocates memory that can be registered as this type.
    pub(crate) fn allocate_as(&self, kind: i32, bytes: u64) -> CheckResult<u64> {
        match kind {
            tcpx_sys::PTR_CUDA => self.allocate_device(bytes),
            _ => self.allocate(bytes),
        }
    }

    /// Allocates a buffer and registers it.
    pub(crate) fn allocate_registered(
        &self,
        comm: u64,
        bytes: u64,
        kind: i32,
    ) -> CheckResult<RegisteredBuffer> {
        let at = self.allocate_as(kind, bytes)?;
        self.register_at(comm, at, bytes, kind)
    }

    /// Registers memory that was allocated before.
    pub(crate) fn register_at(
        &self,
        comm: u64,
        at: u64,
        bytes: u64,
        kind: i32,
    ) -> CheckResult<RegisteredBuffer> {
        let reply = self.register(comm, at, bytes, kind)?;
        require_rc(&format!("regMr of {bytes} page-aligned bytes as type {kind}"), reply.rc, 0)?;
        Ok(RegisteredBuffer { at, mhandle: reply.pointer })
    }

    /// Reads exactly `bytes` bytes at `at`.
    pub(crate) fn read(&self, at: u64, bytes: u32) -> CheckResult<Vec<u8>> {
        let read = self.read_bytes(at, bytes)?;
        if read.len() == bytes as usize {
            Ok(read)
        } else {
            Err(fail(format!("the agent reads {bytes} bytes"), read.len().to_string()))
        }
    }

    /// Reads the device handle that `accept` wrote at `at`.
    pub(crate) fn device_handle(&self, at: u64) -> CheckResult<DeviceHandle> {
        let bytes = self.read(at, size_of::<NetDeviceHandle>() as u32)?;
        Ok(DeviceHandle {
            kind: int_at(&bytes, 0),
            version: int_at(&bytes, 4),
            handle: word_at(&bytes, 8),
            size: word_at(&bytes, 16),
            needs_proxy_progress: int_at(&bytes, 24),
        })
    }

    /// Reads the device struct behind a device handle.
    pub(crate) fn unpack_queue(&self, handle: u64) -> CheckResult<UnpackQueue> {
        require(handle != 0, "accept publishes a device struct", || "a NULL handle".to_owned())?;
        let bytes = self.read(handle, size_of::<UnpackNetDeviceHandle>() as u32)?;
        Ok(UnpackQueue {
            meta: word_at(&bytes, 0),
            bounce: word_at(&bytes, 8),
            head: word_at(&bytes, 16),
        })
    }
}

/// Runs a stream in both agents at once.
pub(crate) fn run_streams(
    sender: (&AgentProcess, Stream),
    receiver: (&AgentProcess, Stream, Option<StreamQueue>),
) -> CheckResult {
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
