//! Report of all sizes, which is also the JSON object.

use serde::Serialize;
use tcpx_core::PeerTransport;
use tcpx_doctor::NicGrowth;

use super::columns::TableShape;
use super::figures::CaseFigures;
use super::host::HostOfEnd;
use super::kv::KvRequest;
use super::plan::{Mode, Plan, Receives};
use super::rate_unit::RateUnit;
use crate::rendezvous::{ConnectedEnd, Role};
use crate::session::Memory;

/// Report of a whole run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    #[serde(skip)]
    pub(super) mode: Mode,
    /// Machines of the ends; the server's is the last.
    pub(super) hosts: Vec<HostOfEnd>,
    /// Operation that moved the bytes.
    pub(super) op: &'static str,
    /// `software`, `hardware` or `devmem`.
    pub(super) transport: String,
    pub(super) plugin_name: String,
    pub(super) memory: Memory,
    /// What carries the bytes between both ends, as this end sees it. Not of several clients
    /// together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer_transport: Option<PeerTransport>,
    /// Reason why this end encrypts nothing although it prefers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_encrypted: Option<String>,
    /// The server's implementation.
    pub(super) unpack: String,
    /// Bytes of a chunk that both ends agreed on.
    pub(super) chunk_bytes: u32,
    pub(super) channels: u16,
    /// Operations under way at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) depth: Option<u32>,
    /// Ranges of an operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) descriptors: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scattered: Option<bool>,
    /// Whether a notification follows the bytes of an operation, which the server's program
    /// answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) notified: Option<bool>,
    /// KV cache that an operation moves, at an end that was started with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kv: Option<KvRequest>,
    /// Of each size, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_s: Option<f64>,
    /// Whether the server sends and the client receives.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) reverse: bool,
    pub(super) receives: Receives,
    pub(super) idle_ms: u32,
    /// Threads of other work on each machine.
    pub(super) busy: u32,
    /// Text: a number of JSON is exact up to 2^53 only.
    #[serde(serialize_with = "as_text")]
    pub(super) seed: u64,
    /// Of several sizes, the largest one, verified if all were.
    #[serde(flatten)]
    case: CaseFigures,
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep: Option<Vec<CaseFigures>>,
    #[serde(skip)]
    cases: Vec<CaseFigures>,
    /// Plan of the run; each size has its outcome.
    #[serde(skip)]
    pub(super) iterations: u32,
    #[serde(skip)]
    pub(super) has_baseline: bool,
    /// Whether the clients of a server send to each other, too.
    #[serde(skip)]
    pub(super) is_all_to_all: bool,
    /// Whether lines of intervals stand above the rows.
    #[serde(skip)]
    pub(super) has_intervals: bool,
    /// Unit of the rates in the table and the page.
    #[serde(skip)]
    pub(super) unit: RateUnit,
    /// The interrupt came to this process.
    #[serde(skip)]
    pub(super) was_interrupted_here: bool,
    /// Whether an interrupt or the other end ended the run before everything was measured.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) interrupted: bool,
    /// End that printed this.
    #[serde(skip)]
    pub(super) role: Role,
    /// Results of each of the server's ends, where it has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) clients: Vec<Report>,
    /// Counts of the NICs at this end meanwhile; `devmem_packets` is null where the driver does not
    /// count them.
    pub(super) nic_counters: Vec<NicGrowth>,
}

impl Report {
    /// Returns the report of a run that begins, which shows rates in `unit`.
    pub(super) fn new(
        connected: &ConnectedEnd<'_>,
        plan: &Plan,
        hosts: Vec<HostOfEnd>,
        unit: RateUnit,
    ) -> Self {
        let stats = connected.session.stats();
        let peer = stats.peers.iter().find(|peer| peer.name == connected.peer());
        Self {
            mode: plan.mode,
            hosts,
            op: plan.mode.op(),
            transport: stats.transport,
            plugin_name: stats.plugin_name,
            memory: connected.memory,
            peer_transport: peer.and_then(|peer| peer.transport.clone()),
            not_encrypted: stats.not_encrypted,
            unpack: connected.unpack.clone(),
            chunk_bytes: peer.map_or(0, |peer| peer.chunk_bytes),
            channels: connected.channels,
            depth: plan.mode.one_sided().map(|one_sided| one_sided.depth),
            descriptors: plan.mode.one_sided().map(|one_sided| one_sided.descriptors),
            scattered: match plan.mode {
                Mode::Messages(batch) => Some(batch.is_scattered),
                Mode::OneSided(one_sided) => Some(one_sided.is_scattered),
                Mode::Throughput | Mode::Bidirectional | Mode::Latency | Mode::Notifications => {
                    None
                }
            },
            notified: plan.mode.one_sided().map(|one_sided| one_sided.is_notified),
            kv: None,
            duration_s: plan.duration_ms.map(|ms| f64::from(ms) / 1e3),
            reverse: plan.reverse,
            receives: plan.receives,
            idle_ms: plan.idle_ms,
            busy: plan.busy,
            seed: plan.seed,
            case: CaseFigures::default(),
            sweep: (plan.sizes.len() > 1).then(Vec::new),
            cases: Vec::new(),
            iterations: plan.iterations,
            has_baseline: plan.baseline,
            is_all_to_all: plan.is_all_to_all,
            has_intervals: plan.interval_ms.is_some(),
            unit,
            was_interrupted_here: false,
            interrupted: false,
            role: connected.role,
            clients: Vec::new(),
            nic_counters: Vec::new(),
        }
    }

    /// Adds the next size.
    pub(super) fn add(&mut self, case: CaseFigures) {
        self.cases.push(case);
    }

    /// Completes the report after the last size.
    pub(super) fn finish(&mut self, nic_counters: Vec<NicGrowth>) {
        let largest = self.cases.iter().max_by_key(|case| case.size_bytes);
        self.case = largest.cloned().unwrap_or_default();
        self.case.mismatch = self.cases.iter().find_map(|case| case.mismatch.clone());
        self.case.verified = self.case.mismatch.is_none() && !self.cases.is_empty();
        if let Some(sweep) = &mut self.sweep {
            sweep.clone_from(&self.cases);
        }
        self.nic_counters = nic_counters;
    }

    /// Returns the figures of each size.
    pub(super) fn cases(&self) -> &[CaseFigures] {
        &self.cases
    }

    /// Returns the report of a server with several clients: the results of each, and the figures of
    /// all.
    pub(super) fn of_clients(reports: Vec<Self>, cases: Vec<CaseFigures>) -> Option<Self> {
        let mut all = reports.first()?.clone();
        (all.cases, all.peer_transport) = (cases, None);
        let server = all.hosts.pop();
        let clients = reports.iter().filter_map(|report| report.hosts.first());
        all.hosts = clients.cloned().chain(server).collect();
        all.interrupted = reports.iter().any(|report| report.interrupted);
        all.was_interrupted_here = reports.iter().any(|report| report.was_interrupted_here);
        let nic_counters = std::mem::take(&mut all.nic_counters);
        all.clients = reports;
        all.finish(nic_counters);
        Some(all)
    }

    /// Returns what carries the bytes, in words.
    pub(super) fn data_path(&self) -> impl Iterator<Item = String> {
        let not_encrypted = self.not_encrypted.as_ref();
        let not_encrypted = not_encrypted.map(|why| format!("nothing encrypted ({why})"));
        not_encrypted.into_iter().chain(self.peer_transport.as_ref().map(PeerTransport::in_words))
    }

    /// Returns whether several clients send at once.
    pub(super) fn is_incast(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Returns the properties of its table.
    pub(super) fn shape(&self) -> TableShape {
        TableShape {
            mode: self.mode,
            has_baseline: self.has_baseline,
            has_duration: self.duration_s.is_some(),
            is_incast: self.is_incast(),
            is_all_to_all: self.is_all_to_all && self.is_incast(),
            unit: self.unit,
        }
    }

    /// Returns the first wrong byte of all.
    pub(super) fn mismatch(&self) -> Option<&str> {
        self.case.mismatch.as_deref()
    }
}

fn is_false(is_true: &bool) -> bool {
    !is_true
}

fn as_text<S: serde::Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(number)
}
