//! The functions of the v7 table and of the additions to it, by the names that logs use.

macro_rules! entries {
    ($($variant:ident $name:literal),* $(,)?) => {
        /// A function of the v7 table, or of the additions to it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is the entry of that name")]
        #[non_exhaustive]
        pub enum Entry { $($variant),* }

        impl Entry {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The entry's C name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

entries! {
    Init "init", Devices "devices", GetProperties "getProperties", Listen "listen",
    Connect "connect", Accept "accept", RegMr "regMr", DeregMr "deregMr", Isend "isend",
    Irecv "irecv", Iflush "iflush", Test "test", CloseTransfer "closeSend/closeRecv",
    CloseListen "closeListen", GetDeviceMr "getDeviceMr",
    IrecvConsumed "irecvConsumed",
    SetPeerTimeout "setPeerTimeout", CheckComm "checkComm",
    Descriptors "descriptors", NeedsCall "needsCall",
    EncryptListen "encryptListen", ConnectEncrypted "connectEncrypted",
}
