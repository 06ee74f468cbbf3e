//! The original's behaviours that are inconvenient, harmful or fatal, by name.

macro_rules! quirks {
    ($($(#[doc = $text:literal])* $variant:ident $name:literal),* $(,)?) => {
        /// One behaviour of the original, exactly as docs/plugin-contract.md describes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Quirk { $($(#[doc = $text])* $variant),* }

        impl Quirk {
            /// How many there are.
            pub(crate) const COUNT: usize = [$(Self::$variant),*].len();

            /// The quirk's name in `TCPX_SOFT_ORIGINAL`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The quirk of a name.
            pub(crate) fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

quirks! {
    /// Writing to a peer that has gone raises SIGPIPE.
    Sigpipe "sigpipe",
    /// Bounce pages are taken one by one as bytes arrive, and kept: a region that is too small for
    /// what is in flight sticks for ever.
    Piecemeal "piecemeal",
    /// Too many fragments end the process with `exit(1)`: 2048 in a chunk, or more in a request.
    Failstop "failstop",
    /// `test` puts one new request on the sockets per call, reports it some calls later, and
    /// answers for requests that it has reported before. A send request may be "consumed", and so
    /// may an empty receive: out of order, before it is done, or twice. That frees the oldest one
    /// instead.
    Progress "progress",
    /// A data socket that dies is never reported, and a control socket that dies is reported by
    /// single calls: 2, and then again 0.
    Silence "silence",
    /// Request pointers are the comm's sixteen ring slots, and are used again.
    Pointers "pointers",
    /// Device memory that cannot be exported as a dma-buf costs the process its descriptor 0.
    Regmr "regmr",
    /// Listen and accept for different GPUs deliver wrong bytes.
    Gpus "gpus",
    /// Fragments begin anywhere in a page, and recycled pages are poisoned.
    Offsets "offsets",
    /// Connect and accept take as long as flow steering does.
    Slow "slow",
    /// Accept has a steering rule for each data socket installed by the RxDM that
    /// `NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX` names, on a thread of its own: it is never ready
    /// while RxDM does not answer, and fails when RxDM refuses or is not there. Without the
    /// variable there is no RxDM.
    Rules "rules",
    /// Requests of a negative size, or of memory outside their registration, are taken. They never
    /// get done, and neither do those behind them.
    Unchecked "unchecked",
    /// Data sockets are steered to a GPU: what comes for host memory never gets there.
    Steered "steered",
    /// Any connection to a listen comm's port is taken for the peer: one that says nothing keeps
    /// the peer out, and the third that is none ends accept with 3.
    Strangers "strangers",
    /// Several chunks of one request on one socket leak the pages of all but the last.
    Leak "leak",
    /// Messages up to `NCCL_INLINE_THRESHOLD` are copied to the pointer that was posted, device
    /// memory or not.
    Inline "inline",
    /// A call that the original would not survive aborts the process.
    Crash "crash",
}
