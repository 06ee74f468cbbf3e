//! The rule that is broken.

use std::env;
use std::sync::OnceLock;

/// Chooses the rule; see [`Mode::parse`] for its values.
const VARIABLE: &str = "TCPX_BROKEN";

/// One broken rule each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// None: everything is passed on.
    Unbroken,
    /// `maxRecvs` is 8.
    MaxRecvs,
    /// `devices` says 0 before `init`.
    DevicesEarly,
    /// A second `init` succeeds.
    InitTwice,
    /// `listen` beyond the last device takes device 0.
    ListenRange,
    /// `listen` writes a byte behind the handle.
    HandleOverrun,
    /// `accept` writes the device handle before it has a comm.
    DeviceHandleEarly,
    /// The device handle says version 8.
    DeviceVersion,
    /// Closing NULL is an error.
    CloseNull,
    /// Unaligned device memory is rounded down and taken.
    Alignment,
    /// dma-buf and unknown types of memory are taken.
    DmaBuf,
    /// `deregMr(NULL)` is an error.
    DeregNull,
    /// `getDeviceMr` writes its output.
    DeviceMr,
    /// `irecv` of two buffers takes the first.
    Group,
    /// `irecv` insists on tags.
    Tags,
    /// A refused request gives out one request too many.
    Limit,
    /// A refused request overwrites the caller's pointer.
    RequestTouched,
    /// A later request is done before the oldest.
    Fifo,
    /// A finished request is done again and again.
    DoneTwice,
    /// `test` writes its sizes.
    Sizes,
    /// `iflush` tells the posted size.
    PostedSize,
    /// `irecvConsumed` succeeds whenever it is called.
    ConsumeEarly,
    /// The last entry is missing.
    Cover,
    /// Two entries have the same destination.
    Overlap,
    /// An entry points outside the bounce buffer.
    Outside,
    /// One byte in the bounce buffer is another.
    Content,
    /// Rows are published one slot too far.
    Slot,
    /// `cnt` is written when the receive is posted.
    CntEarly,
    /// The plugin counts in the consumer's `head`.
    Head,
    /// Host receives have a `cnt`.
    HostCnt,
    /// Pages go back as soon as the receive is done.
    RecycleEarly,
    /// After 100 receives of a comm no page goes back.
    RecycleNever,
    /// `isend` moves bytes by itself.
    Progress,
    /// `listen` leaves something where `connect` keeps its state.
    HandleState,
    /// `connect` takes its time.
    SlowConnect,
    /// `connect` writes a device handle.
    ConnectDevice,
    /// A refused `connect` gets the comm of another.
    SharedConnect,
    /// `accept` tires of waiting and hands out a comm without a peer.
    Stranger,
    /// `deregMr` leaves a descriptor open.
    Leak,
    /// A close leaves a descriptor open.
    CloseLeak,
    /// `irecv` insists on a data pointer.
    WildData,
    /// `isend` insists on aligned data.
    UnalignedSend,
    /// All comms together have 16 receives.
    SharedLimit,
    /// `test` of NULL succeeds.
    TestNull,
    /// The first entry begins a byte late and so crosses its page.
    PageCross,
    /// The first entry points at the bytes of the receive before.
    SharedBounce,
    /// Empty receives have a `cnt`.
    EmptyCnt,
    /// A host receive writes the byte behind its buffer.
    HostOverrun,
    /// The switch for rendezvous is ignored.
    NoSync,
    /// A request whose peer is gone is done.
    PeerDone,
    /// A request whose peer is gone aborts the process.
    PeerAbort,
    /// `test` aborts the process.
    Abort,
    /// `regMr` exits the process with status 1.
    Exit,
    /// `irecv` never returns.
    Hang,
}

impl Mode {
    /// The value of the variable for each mode.
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "" => Self::Unbroken,
            "max-recvs" => Self::MaxRecvs,
            "devices-early" => Self::DevicesEarly,
            "init-twice" => Self::InitTwice,
            "listen-range" => Self::ListenRange,
            "handle-overrun" => Self::HandleOverrun,
            "device-handle-early" => Self::DeviceHandleEarly,
            "device-version" => Self::DeviceVersion,
            "close-null" => Self::CloseNull,
            "alignment" => Self::Alignment,
            "dma-buf" => Self::DmaBuf,
            "dereg-null" => Self::DeregNull,
            "device-mr" => Self::DeviceMr,
            "group" => Self::Group,
            "tags" => Self::Tags,
            "limit" => Self::Limit,
            "request-touched" => Self::RequestTouched,
            "fifo" => Self::Fifo,
            "done-twice" => Self::DoneTwice,
            "sizes" => Self::Sizes,
            "posted-size" => Self::PostedSize,
            "consume-early" => Self::ConsumeEarly,
            "cover" => Self::Cover,
            "overlap" => Self::Overlap,
            "outside" => Self::Outside,
            "content" => Self::Content,
            "slot" => Self::Slot,
            "cnt-early" => Self::CntEarly,
            "head" => Self::Head,
            "host-cnt" => Self::HostCnt,
            "recycle-early" => Self::RecycleEarly,
            "recycle-never" => Self::RecycleNever,
            "progress" => Self::Progress,
            "handle-state" => Self::HandleState,
            "slow-connect" => Self::SlowConnect,
            "connect-device" => Self::ConnectDevice,
            "shared-connect" => Self::SharedConnect,
            "stranger" => Self::Stranger,
            "leak" => Self::Leak,
            "close-leak" => Self::CloseLeak,
            "wild-data" => Self::WildData,
            "unaligned-send" => Self::UnalignedSend,
            "shared-limit" => Self::SharedLimit,
            "test-null" => Self::TestNull,
            "page-cross" => Self::PageCross,
            "shared-bounce" => Self::SharedBounce,
            "empty-cnt" => Self::EmptyCnt,
            "host-overrun" => Self::HostOverrun,
            "no-sync" => Self::NoSync,
            "peer-done" => Self::PeerDone,
            "peer-abort" => Self::PeerAbort,
            "abort" => Self::Abort,
            "exit" => Self::Exit,
            "hang" => Self::Hang,
            _ => return None,
        })
    }
}

/// The mode of this process, `None` if the variable names none.
pub(crate) fn chosen() -> Option<Mode> {
    static CHOSEN: OnceLock<Option<Mode>> = OnceLock::new();
    *CHOSEN.get_or_init(|| match env::var(VARIABLE) {
        Ok(name) => Mode::parse(&name),
        Err(env::VarError::NotPresent) => Some(Mode::Unbroken),
        Err(env::VarError::NotUnicode(_)) => None,
    })
}

/// Whether this is the mode of this process.
pub(crate) fn breaks(mode: Mode) -> bool {
    chosen() == Some(mode)
}
