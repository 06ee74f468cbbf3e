//! Two processes before their comm: one listens, the other has its handle, and both are polled.

use std::rc::Rc;
use std::time::Duration;

use tcpx_sys::{HANDLE_BYTES, NetDeviceHandle};

use crate::harness::agent_process::AgentProcess;
use crate::harness::check_result::{CheckResult, require, require_rc};
use crate::harness::fixture::Fixture;
use crate::link::values::{DeviceArgument, PointerReply};

/// Every byte of a device handle before `accept` writes it.
pub(crate) const MARK: u8 = 0xa5;
/// Pause between two polls of connect and accept.
const POLL_PAUSE: Duration = Duration::from_micros(500);
/// Bytes of a device handle.
pub(crate) const DEVICE_BYTES: usize = size_of::<NetDeviceHandle>();

/// Two processes between `listen` and their comm.
#[derive(Debug)]
pub(crate) struct PendingPair {
    pub connector: Rc<AgentProcess>,
    /// The connector's copy of the handle.
    pub handle: u64,
    pub listener: Rc<AgentProcess>,
    pub listen_comm: u64,
    /// The listener's device handle, every byte of it [`MARK`].
    pub device: u64,
}

impl PendingPair {
    /// Has `listener` listen, and copies its handle to `connector`.
    pub(crate) fn between(
        fixture: &Fixture<'_>,
        connector: Rc<AgentProcess>,
        listener: Rc<AgentProcess>,
    ) -> CheckResult<Self> {
        let (listen_comm, at) = fixture.listen(&listener)?;
        let handle = connector.allocate(HANDLE_BYTES as u64)?;
        connector.write(handle, listener.read(at, HANDLE_BYTES as u32)?)?;
        let device = listener.allocate(DEVICE_BYTES as u64)?;
        listener.write(device, vec![MARK; DEVICE_BYTES])?;
        Ok(Self { connector, handle, listener, listen_comm, device })
    }

    /// Starts two processes, has one listen, and copies its handle to the other.
    pub(crate) fn of_new_processes(fixture: &Fixture<'_>) -> CheckResult<Self> {
        Self::between(fixture, fixture.ready_agent()?.into(), fixture.ready_agent()?.into())
    }

    /// Polls connect once.
    pub(crate) fn connect(&self, device: DeviceArgument) -> CheckResult<PointerReply> {
        self.connector.connect(0, self.handle, device)
    }

    /// Polls accept once.
    pub(crate) fn accept(&self, device: DeviceArgument) -> CheckResult<PointerReply> {
        self.listener.accept(self.listen_comm, device)
    }

    /// Returns whether `accept` wrote the device handle.
    pub(crate) fn device_handle_written(&self) -> CheckResult<bool> {
        Ok(self.listener.read(self.device, DEVICE_BYTES as u32)? != vec![MARK; DEVICE_BYTES])
    }

    /// Polls both ends until both have their comm, and returns the send comm and the receive comm.
    pub(crate) fn establish(&self, fixture: &Fixture<'_>) -> CheckResult<(u64, u64)> {
        self.establish_with(fixture, DeviceArgument::PointsToNull, || Ok(()))
    }

    /// Polls both ends until both have their comm, with another device argument for connect. Calls
    /// `while_pending` after each accept without a comm.
    pub(crate) fn establish_with(
        &self,
        fixture: &Fixture<'_>,
        connect_device: DeviceArgument,
        mut while_pending: impl FnMut() -> CheckResult,
    ) -> CheckResult<(u64, u64)> {
        let (mut send_comm, mut recv_comm) = (0, 0);
        while send_comm == 0 || recv_comm == 0 {
            if send_comm == 0 {
                let reply = self.connect(connect_device)?;
                require_rc("connect", reply.rc, 0)?;
                send_comm = reply.pointer;
            }
            if recv_comm == 0 {
                let reply = self.accept(DeviceArgument::At(self.device))?;
                require_rc("accept", reply.rc, 0)?;
                recv_comm = reply.pointer;
                if recv_comm == 0 {
                    while_pending()?;
                }
            }
            require(!fixture.has_used(1, 1), "connect and accept hand out their comms", || {
                format!("send comm {send_comm:#x}, receive comm {recv_comm:#x} at the deadline")
            })?;
            // No event says when to poll again, and each poll costs a message or two.
            std::thread::sleep(POLL_PAUSE);
        }
        Ok((send_comm, recv_comm))
    }
}
