//! The rule that is broken.

use std::env;
use std::sync::OnceLock;

/// Chooses the rule, by the value that stands beside it.
const VARIABLE: &str = "TCPX_BROKEN";

macro_rules! modes {
    ($($(#[$doc:meta])* $mode:ident $value:literal,)*) => {
        /// One broken rule each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Mode {
            $($(#[$doc])* $mode,)*
        }

        impl Mode {
            /// The mode that a value of the variable chooses.
            fn parse(value: &str) -> Option<Self> {
                match value {
                    $($value => Some(Self::$mode),)*
                    _ => None,
                }
            }
        }
    };
}

modes! {
    /// None: everything is passed on.
    Unbroken "",
    /// `maxRecvs` is 8.
    MaxRecvs "max-recvs",
    /// `devices` says 0 before `init`.
    DevicesEarly "devices-early",
    /// A second `init` succeeds.
    InitTwice "init-twice",
    /// `listen` beyond the last device takes device 0.
    ListenRange "listen-range",
    /// `listen` writes a byte behind the handle.
    HandleOverrun "handle-overrun",
    /// `accept` writes the device handle before it has a comm.
    DeviceHandleEarly "device-handle-early",
    /// The device handle says version 8.
    DeviceVersion "device-version",
    /// Closing NULL is an error.
    CloseNull "close-null",
    /// Unaligned device memory is rounded down and taken.
    Alignment "alignment",
    /// dma-buf and unknown types of memory are taken.
    DmaBuf "dma-buf",
    /// Device memory of an odd size is a system error.
    OddSize "odd-size",
    /// Device memory of an odd size is refused, and descriptor 0 closed, as in the original.
    Stdin "stdin",
    /// `deregMr(NULL)` is an error.
    DeregNull "dereg-null",
    /// `getDeviceMr` writes its output.
    DeviceMr "device-mr",
    /// `irecv` of two buffers takes the first.
    Group "group",
    /// `irecv` insists on tags.
    Tags "tags",
    /// A refused request gives out one request too many.
    Limit "limit",
    /// A refused request overwrites the caller's pointer.
    RequestTouched "request-touched",
    /// A later request is done before the oldest.
    Fifo "fifo",
    /// A finished request is done again and again.
    DoneTwice "done-twice",
    /// A test of a finished request succeeds without done, as in the original.
    QuietRetest "quiet-retest",
    /// `irecvConsumed` of a send succeeds, as in the original.
    ConsumeSend "consume-send",
    /// `test` writes its sizes.
    Sizes "sizes",
    /// `iflush` returns the posted size.
    PostedSize "posted-size",
    /// `irecvConsumed` succeeds whenever it is called.
    ConsumeEarly "consume-early",
    /// The last entry is missing.
    Cover "cover",
    /// Two entries have the same destination.
    Overlap "overlap",
    /// An entry points outside the bounce buffer.
    Outside "outside",
    /// One byte in the bounce buffer is another.
    Content "content",
    /// Rows are published one slot too far.
    Slot "slot",
    /// `cnt` is written when the receive is posted.
    CntEarly "cnt-early",
    /// The plugin counts in the consumer's `head`.
    Head "head",
    /// Host receives have a `cnt`.
    HostCnt "host-cnt",
    /// Pages go back as soon as the receive is done.
    RecycleEarly "recycle-early",
    /// After 100 receives of a comm no page goes back.
    RecycleNever "recycle-never",
    /// `isend` moves bytes by itself.
    Progress "progress",
    /// `listen` leaves something where `connect` keeps its state.
    HandleState "handle-state",
    /// `connect` takes its time.
    SlowConnect "slow-connect",
    /// `connect` writes a device handle.
    ConnectDevice "connect-device",
    /// A refused `connect` gets the comm of another.
    SharedConnect "shared-connect",
    /// `accept` tires of waiting and hands out a comm without a peer.
    Stranger "stranger",
    /// `deregMr` leaves a descriptor open.
    Leak "leak",
    /// A close leaves a descriptor open.
    CloseLeak "close-leak",
    /// `irecv` insists on a data pointer.
    WildData "wild-data",
    /// `isend` insists on aligned data.
    UnalignedSend "unaligned-send",
    /// All comms together have 16 receives.
    SharedLimit "shared-limit",
    /// `test` of NULL succeeds.
    TestNull "test-null",
    /// The first entry begins a byte late and so crosses its page.
    PageCross "page-cross",
    /// The first entry points at the bytes of the receive before.
    SharedBounce "shared-bounce",
    /// Empty receives have a `cnt`.
    EmptyCnt "empty-cnt",
    /// A host receive writes the byte behind its buffer.
    HostOverrun "host-overrun",
    /// The switch for rendezvous is ignored.
    NoSync "no-sync",
    /// A request whose peer is gone is done.
    PeerDone "peer-done",
    /// A request whose peer is gone aborts the process.
    PeerAbort "peer-abort",
    /// `test` aborts the process.
    Abort "abort",
    /// `regMr` exits the process with status 1.
    Exit "exit",
    /// `irecv` never returns.
    Hang "hang",
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
