//! Two processes on the way to a comm: one listens, the other has its handle, and both are polled.

use std::rc::Rc;
use std::time::Duration;

use tcpx_sys::{HANDLE_BYTES, NetDeviceHandle};

use crate::harness::fixture::Fixture;
use crate::harness::process::Process;
use crate::harness::verdict::{Verdict, require, require_rc};
use crate::link::values::{DeviceArgument, Made};

/// Every byte of a device handle before `accept` writes it.
pub(crate) const MARK: u8 = 0xa5;
/// Between two questions whether the comms are there.
const POLL_PAUSE: Duration = Duration::from_micros(500);
/// Bytes of a device handle.
pub(crate) const DEVICE_BYTES: usize = size_of::<NetDeviceHandle>();

/// Two ends that may become a comm.
#[derive(Debug)]
pub(crate) struct PendingPair {
    pub connector: Rc<Process>,
    /// The connector's copy of the handle.
    pub handle: u64,
    pub listener: Rc<Process>,
    pub listen_comm: u64,
    /// The listener's device handle, every byte of it [`MARK`].
    pub device: u64,
}

impl PendingPair {
    /// Lets `listener` listen and carries its handle to `connector`.
    pub(crate) fn between(
        fixture: &Fixture<'_>,
        connector: Rc<Process>,
        listener: Rc<Process>,
    ) -> Verdict<Self> {
        let (listen_comm, at) = fixture.listening(&listener)?;
        let handle = connector.allocate(HANDLE_BYTES as u64)?;
        connector.write(handle, listener.read(at, HANDLE_BYTES as u32)?)?;
        let device = listener.allocate(DEVICE_BYTES as u64)?;
        listener.write(device, vec![MARK; DEVICE_BYTES])?;
        Ok(Self { connector, handle, listener, listen_comm, device })
    }

    /// The same between two new processes.
    pub(crate) fn of_new_processes(fixture: &Fixture<'_>) -> Verdict<Self> {
        Self::between(fixture, fixture.ready()?.into(), fixture.ready()?.into())
    }

    /// One poll of connect.
    pub(crate) fn connect(&self, device: DeviceArgument) -> Verdict<Made> {
        self.connector.connect(0, self.handle, device)
    }

    /// One poll of accept.
    pub(crate) fn accept(&self, device: DeviceArgument) -> Verdict<Made> {
        self.listener.accept(self.listen_comm, device)
    }

    /// Returns whether the device handle was written.
    pub(crate) fn written(&self) -> Verdict<bool> {
        Ok(self.listener.read(self.device, DEVICE_BYTES as u32)? != vec![MARK; DEVICE_BYTES])
    }

    /// Polls both ends until both have their comm: the send comm and the receive comm.
    pub(crate) fn establish(&self, fixture: &Fixture<'_>) -> Verdict<(u64, u64)> {
        self.establish_with(fixture, DeviceArgument::PointsToNull, || Ok(()))
    }

    /// The same with another device argument for connect, and a look at things after each fruitless
    /// accept.
    pub(crate) fn establish_with(
        &self,
        fixture: &Fixture<'_>,
        connect_device: DeviceArgument,
        mut look: impl FnMut() -> Verdict,
    ) -> Verdict<(u64, u64)> {
        let (mut send_comm, mut recv_comm) = (0, 0);
        while send_comm == 0 || recv_comm == 0 {
            if send_comm == 0 {
                let made = self.connect(connect_device)?;
                require_rc("connect", made.rc, 0)?;
                send_comm = made.pointer;
            }
            if recv_comm == 0 {
                let made = self.accept(DeviceArgument::At(self.device))?;
                require_rc("accept", made.rc, 0)?;
                recv_comm = made.pointer;
                if recv_comm == 0 {
                    look()?;
                }
            }
            require(!fixture.used(1, 1), "connect and accept hand out their comms", || {
                format!("send comm {send_comm:#x}, receive comm {recv_comm:#x} at the deadline")
            })?;
            // Nothing tells when it is time to ask again, and each question is a message or two.
            std::thread::sleep(POLL_PAUSE);
        }
        Ok((send_comm, recv_comm))
    }
}
