//! The sessions of GPUs, each made when it is first needed: by this program, or by a peer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tcpx_cuda::CudaError;
use tcpx_protocol::frames::conn_info::{Secret, SessionId};
use tcpx_protocol::types::memory::Device;

use crate::completions::peer_queue::PeerQueue;
use crate::completions::queue::CompletionQueue;
use crate::control::identity::new_id;
use crate::control::inbound_handshake::InboundHandshake;
use crate::engine::meeting::group_names::GroupNames;
use crate::engine::meeting::membership::{HandOver, Membership};
use crate::error::{Error, MemoryUnavailable, Result};
use crate::memory::device_memory::gpu_count;
use crate::session::Session;
use crate::settings::SessionOptions;

/// The sessions, and what all sessions of the group share.
#[derive(Debug)]
pub(super) struct Members {
    options: SessionOptions,
    id: SessionId,
    secret: Secret,
    pub(super) names: Arc<GroupNames>,
    completions: Arc<CompletionQueue>,
    peers: Arc<PeerQueue>,
    /// Held by whoever makes a session: a GPU takes its time.
    making: Mutex<()>,
    made: Mutex<Made>,
    /// Whether there is any session, or soon will be. Most groups have none, and are asked often.
    has_any: AtomicBool,
}

#[derive(Debug, Default)]
struct Made {
    sessions: BTreeMap<Device, Arc<Session>>,
    is_closed: bool,
}

impl Members {
    /// None yet.
    pub(super) fn new(options: SessionOptions) -> Result<Self> {
        let (id, secret) = new_id()?;
        let completions = Arc::default();
        let peers = Arc::new(PeerQueue::new(Arc::clone(&completions)));
        Ok(Self {
            options,
            id,
            secret,
            names: Arc::default(),
            completions,
            peers,
            making: Mutex::default(),
            made: Mutex::default(),
            has_any: AtomicBool::new(false),
        })
    }

    pub(super) fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// The place of the session that listens.
    pub(super) fn front(self: &Arc<Self>) -> Membership {
        let members = Arc::downgrade(self);
        let hand_over: HandOver = Arc::new(move |device, handshake| match members.upgrade() {
            Some(members) => members.take_in(device, handshake),
            None => handshake.refuse(Error::Closed.to_string()),
        });
        self.membership(Device::Host, Some(hand_over))
    }

    fn membership(&self, device: Device, hand_over: Option<HandOver>) -> Membership {
        Membership {
            group: self.id,
            secret: self.secret.clone(),
            device,
            names: Arc::clone(&self.names),
            completions: Arc::clone(&self.completions),
            peers: Arc::clone(&self.peers),
            hand_over,
        }
    }

    /// Brings somebody who came in to the session that it wants.
    fn take_in(&self, device: Device, handshake: InboundHandshake) {
        match self.get_or_make(device) {
            Ok(member) => {
                if let Err(error) = member.take_in(handshake) {
                    tracing::debug!(%error, "somebody who came in was dropped");
                }
            }
            Err(error) => handshake.refuse(format!("{device} cannot be used there: {error}")),
        }
    }

    /// The session of a GPU, if there is one.
    pub(super) fn get(&self, device: Device) -> Result<Option<Arc<Session>>> {
        if tcpx_sys::is_forked() {
            return Err(Error::Forked);
        }
        Ok(self.made().sessions.get(&device).cloned())
    }

    /// The session of a GPU.
    pub(super) fn get_or_make(&self, device: Device) -> Result<Arc<Session>> {
        if let Some(member) = self.get(device)? {
            return Ok(member);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(member) = self.get(device)? {
            return Ok(member);
        }
        if self.made().is_closed {
            return Err(Error::Closed);
        }
        let options = self.options_of(device)?;
        let membership = self.membership(device, None);
        let member = Arc::new(Session::with_membership(options, Some(membership))?);
        let mut made = self.made();
        if made.is_closed {
            // It goes at once: nobody knows it.
            return Err(Error::Closed);
        }
        self.has_any.store(true, Ordering::SeqCst);
        made.sessions.insert(device, Arc::clone(&member));
        tracing::debug!(%device, "the group has a session for it");
        Ok(member)
    }

    fn options_of(&self, device: Device) -> Result<SessionOptions> {
        let Device::Gpu(gpu) = device else { return Ok(self.options.clone()) };
        let emulated = self.options.emulated_gpus;
        let gpu = match emulated {
            // More than any machine has, and than ids have room for.
            0 if device.number().is_none() => return Err(no_such_gpu(gpu, gpu_count())),
            0 => Some(gpu),
            _ if gpu < emulated => None,
            _ => return Err(no_such_gpu(gpu, emulated)),
        };
        Ok(self.options.clone().gpu(gpu))
    }

    /// All that there are.
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        if tcpx_sys::is_forked() || !self.has_any.load(Ordering::SeqCst) {
            return Vec::new();
        }
        self.made().sessions.values().cloned().collect()
    }

    /// All that there are, by their devices.
    pub(super) fn by_device(&self) -> BTreeMap<Device, Arc<Session>> {
        match tcpx_sys::is_forked() {
            true => BTreeMap::new(),
            false => self.made().sessions.clone(),
        }
    }

    /// No more are made. Returns those that there are.
    pub(super) fn close(&self) -> Vec<Arc<Session>> {
        if tcpx_sys::is_forked() {
            return Vec::new();
        }
        self.made().is_closed = true;
        self.completions.tell_notified();
        self.all()
    }

    /// Whether the group is closed, or about to be.
    pub(super) fn is_closed(&self) -> bool {
        self.made().is_closed
    }

    /// What its sessions tell the program through.
    pub(super) fn completions(&self) -> &CompletionQueue {
        &self.completions
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a GPU that is not there, where ordinary memory stands in for so many.
fn no_such_gpu(gpu: u32, count: u32) -> Error {
    Error::MemoryUnavailable(MemoryUnavailable::Cuda(CudaError::NoSuchGpu { gpu, count }))
}
