#![allow(unsafe_code)]
//! Status that functions return, and its meaning in words.

use std::ffi::{CStr, c_char};

use tcpx_core::{Error, MemoryUnavailable, RegistrationProblem};

/// Result of a function: 0, or a negative number.
///
/// The tens give the origin of the trouble: from -1 on the call, from -10 the peer's name or state,
/// from -20 the connection, from -30 memory and data, from -40 the plugin and hardware, from -50
/// the system and this library itself. Numbers are never reused. A newer library may return numbers
/// that this header does not list.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum tcpx_status {
    /// The function has done its work.
    TCPX_OK = 0,
    /// A pointer is NULL that must not be NULL.
    TCPX_ERR_NULL = -1,
    /// A number, text, length or alignment is outside what the function takes.
    TCPX_ERR_ARGUMENT = -2,
    /// The handle is stale or of another kind, or was never given out.
    TCPX_ERR_HANDLE = -3,
    /// The buffer is too small. The needed size was written.
    TCPX_ERR_BUFFER_TOO_SMALL = -4,
    /// Another call is using the handle right now. Nothing was done.
    TCPX_ERR_BUSY = -5,
    /// The call came from inside the log callback. Nothing was done.
    TCPX_ERR_IN_CALLBACK = -6,
    /// An option or environment variable is outside its range.
    TCPX_ERR_SETTING = -7,
    /// The process was forked from one that had made a session, and must not use the library.
    /// Nothing was done.
    TCPX_ERR_FORKED = -8,
    /// The peer's program has not taken the notifications that were sent before, and no more may
    /// wait. Nothing was done; call again later.
    TCPX_ERR_AGAIN = -9,
    /// No peer has this name.
    TCPX_ERR_UNKNOWN_PEER = -10,
    /// The peer is not in a state for this call.
    TCPX_ERR_PEER_STATE = -11,
    /// The bytes are not connection info of this library, or are damaged.
    TCPX_ERR_CONN_INFO = -20,
    /// The two ends do not fit together, or one could not prove that it has the connection info.
    TCPX_ERR_HANDSHAKE = -21,
    /// The peer sent something that breaks the protocol.
    TCPX_ERR_PROTOCOL = -22,
    /// The peer said goodbye, ended, was killed or gave up.
    TCPX_ERR_PEER_GONE = -23,
    /// The time limit of the call has passed. No operation ends with this.
    TCPX_ERR_TIMEOUT = -24,
    /// No registration has this id.
    TCPX_ERR_UNKNOWN_MEMORY = -30,
    /// The memory cannot be registered, or does not allow this operation.
    TCPX_ERR_MEMORY = -31,
    /// The registration is in use: by posted operations, or by something that cannot be ended.
    TCPX_ERR_MEMORY_IN_USE = -32,
    /// The two ends posted different sizes for one message.
    TCPX_ERR_SIZE_MISMATCH = -33,
    /// The data that arrived differs from what was announced. Nothing of it was copied.
    TCPX_ERR_DATA = -34,
    /// The program withdrew the operation by `tcpx_transfer_cancel` or `tcpx_operation_cancel`.
    TCPX_ERR_CANCELLED = -35,
    /// The program has closed the session, or disconnected the peer that the transfer belonged to.
    TCPX_ERR_CLOSED = -36,
    /// The bytes are no memory descriptor, or no key to remote memory, of this library, or are
    /// damaged.
    TCPX_ERR_DESCRIPTOR = -37,
    /// The remote memory cannot be accessed this way: the key is not known any more or does not
    /// allow the access, or the ranges of the two ends do not fit. The text says which.
    TCPX_ERR_REMOTE_MEMORY = -38,
    /// The operation had not ended within the time limit of `tcpx_transfer_set_timeout` or
    /// `tcpx_operation_post_with`, and was given up.
    TCPX_ERR_EXPIRED = -39,
    /// The plugin file could not be loaded, or this library cannot work with it.
    TCPX_ERR_PLUGIN_LOAD = -40,
    /// A call into the plugin failed, or does not return.
    TCPX_ERR_PLUGIN = -41,
    /// There is no NIC that fits.
    TCPX_ERR_NO_NIC = -42,
    /// This build or this machine lacks what was asked for.
    TCPX_ERR_UNAVAILABLE = -43,
    /// The unpack backend failed or is not available.
    TCPX_ERR_UNPACK = -44,
    /// The hardware plugin would end the process, crash or hang on this host, so it was not loaded.
    /// The text of `tcpx_last_error` says what to change.
    TCPX_ERR_HOST = -45,
    /// A system call failed.
    TCPX_ERR_IO = -50,
    /// A fault in this library. Please report it with the text of `tcpx_last_error`.
    TCPX_ERR_INTERNAL = -51,
    /// The system has no memory for what was asked. Nothing was done.
    TCPX_ERR_NO_MEMORY = -52,
}

use tcpx_status::*;

const ALL: [tcpx_status; 36] = [
    TCPX_OK,
    TCPX_ERR_NULL,
    TCPX_ERR_ARGUMENT,
    TCPX_ERR_HANDLE,
    TCPX_ERR_BUFFER_TOO_SMALL,
    TCPX_ERR_BUSY,
    TCPX_ERR_IN_CALLBACK,
    TCPX_ERR_SETTING,
    TCPX_ERR_FORKED,
    TCPX_ERR_AGAIN,
    TCPX_ERR_UNKNOWN_PEER,
    TCPX_ERR_PEER_STATE,
    TCPX_ERR_CONN_INFO,
    TCPX_ERR_HANDSHAKE,
    TCPX_ERR_PROTOCOL,
    TCPX_ERR_PEER_GONE,
    TCPX_ERR_TIMEOUT,
    TCPX_ERR_UNKNOWN_MEMORY,
    TCPX_ERR_MEMORY,
    TCPX_ERR_MEMORY_IN_USE,
    TCPX_ERR_SIZE_MISMATCH,
    TCPX_ERR_DATA,
    TCPX_ERR_CANCELLED,
    TCPX_ERR_CLOSED,
    TCPX_ERR_DESCRIPTOR,
    TCPX_ERR_REMOTE_MEMORY,
    TCPX_ERR_EXPIRED,
    TCPX_ERR_PLUGIN_LOAD,
    TCPX_ERR_PLUGIN,
    TCPX_ERR_NO_NIC,
    TCPX_ERR_UNAVAILABLE,
    TCPX_ERR_UNPACK,
    TCPX_ERR_HOST,
    TCPX_ERR_IO,
    TCPX_ERR_INTERNAL,
    TCPX_ERR_NO_MEMORY,
];

impl tcpx_status {
    fn text(self) -> &'static CStr {
        match self {
            TCPX_OK => c"success",
            TCPX_ERR_NULL => c"a pointer is NULL",
            TCPX_ERR_ARGUMENT => c"an argument is out of range",
            TCPX_ERR_HANDLE => c"the handle is not valid",
            TCPX_ERR_BUFFER_TOO_SMALL => c"the buffer is too small",
            TCPX_ERR_BUSY => c"another call is using the handle",
            TCPX_ERR_IN_CALLBACK => c"called from inside the log callback",
            TCPX_ERR_SETTING => c"a setting is out of range",
            TCPX_ERR_FORKED => c"called in a forked child",
            TCPX_ERR_AGAIN => c"too many notifications wait for the peer",
            TCPX_ERR_UNKNOWN_PEER => c"unknown peer",
            TCPX_ERR_PEER_STATE => c"the peer is not in a state for this call",
            TCPX_ERR_CONN_INFO => c"the connection info cannot be used",
            TCPX_ERR_HANDSHAKE => c"the handshake failed",
            TCPX_ERR_PROTOCOL => c"the peer broke the protocol",
            TCPX_ERR_PEER_GONE => c"the peer is gone",
            TCPX_ERR_TIMEOUT => c"the time limit of the call has passed",
            TCPX_ERR_UNKNOWN_MEMORY => c"unknown registration",
            TCPX_ERR_MEMORY => c"the memory does not allow this operation",
            TCPX_ERR_MEMORY_IN_USE => c"the registration is in use",
            TCPX_ERR_SIZE_MISMATCH => c"the two ends posted different sizes",
            TCPX_ERR_DATA => c"the data differs from the announced data",
            TCPX_ERR_CANCELLED => c"cancelled",
            TCPX_ERR_CLOSED => c"closed",
            TCPX_ERR_DESCRIPTOR => c"the memory descriptor or remote key cannot be used",
            TCPX_ERR_REMOTE_MEMORY => c"the remote memory cannot be accessed this way",
            TCPX_ERR_EXPIRED => c"the time limit of the operation has passed",
            TCPX_ERR_PLUGIN_LOAD => c"the plugin could not be loaded",
            TCPX_ERR_PLUGIN => c"a plugin call failed",
            TCPX_ERR_NO_NIC => c"no NIC fits",
            TCPX_ERR_UNAVAILABLE => c"not available here",
            TCPX_ERR_UNPACK => c"the unpack backend failed",
            TCPX_ERR_HOST => c"the host is not ready for the plugin",
            TCPX_ERR_IO => c"a system call failed",
            TCPX_ERR_INTERNAL => c"a fault in the library",
            TCPX_ERR_NO_MEMORY => c"the system has no memory",
        }
    }
}

/// Returns the meaning of a status, in a few words of English. `tcpx_last_error` has the details of
/// the last failure.
///
/// The pointer is never NULL, and the text is constant. A number that this library does not know
/// has a text too. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn tcpx_status_text(status: i32) -> *const c_char {
    let known = ALL.iter().find(|known| **known as i32 == status);
    known.map_or(c"unknown status", |known| known.text()).as_ptr()
}

impl From<&Error> for tcpx_status {
    fn from(error: &Error) -> Self {
        match error {
            Error::Setting { .. } => TCPX_ERR_SETTING,
            Error::Load(_) | Error::UnusablePlugin { .. } => TCPX_ERR_PLUGIN_LOAD,
            Error::MemoryUnavailable(MemoryUnavailable::Operations { .. }) => TCPX_ERR_NO_MEMORY,
            Error::NoSoftPlugin | Error::MemoryUnavailable { .. } => TCPX_ERR_UNAVAILABLE,
            Error::Preflight(_) => TCPX_ERR_HOST,
            Error::Plugin(_) | Error::PluginHangs(_) => TCPX_ERR_PLUGIN,
            Error::NoNic { .. } => TCPX_ERR_NO_NIC,
            Error::Unpack(_) | Error::UnpackFailed(_) => TCPX_ERR_UNPACK,
            Error::Deadline { .. } => TCPX_ERR_TIMEOUT,
            Error::UnknownPeer { .. } => TCPX_ERR_UNKNOWN_PEER,
            Error::PeerState { .. } => TCPX_ERR_PEER_STATE,
            Error::PeerGone { .. } => TCPX_ERR_PEER_GONE,
            Error::Handshake { .. } | Error::Encryption { .. } => TCPX_ERR_HANDSHAKE,
            Error::ConnInfo(_) => TCPX_ERR_CONN_INFO,
            Error::Protocol { .. } => TCPX_ERR_PROTOCOL,
            Error::SizeMismatch { .. } => TCPX_ERR_SIZE_MISMATCH,
            Error::UnknownRegistration { .. } => TCPX_ERR_UNKNOWN_MEMORY,
            Error::Registration { problem, .. } | Error::ListedRegistration { problem, .. } => {
                match problem {
                    RegistrationProblem::OtherGpu { .. } | RegistrationProblem::WhichGpu => {
                        TCPX_ERR_ARGUMENT
                    }
                    _ => TCPX_ERR_MEMORY,
                }
            }
            Error::InUse { .. } => TCPX_ERR_MEMORY_IN_USE,
            Error::Remote { .. } => TCPX_ERR_REMOTE_MEMORY,
            Error::RemoteKey(_) => TCPX_ERR_DESCRIPTOR,
            Error::NotificationTooLong { .. } => TCPX_ERR_ARGUMENT,
            Error::NotificationsFull { .. } => TCPX_ERR_AGAIN,
            Error::Fragments { .. } => TCPX_ERR_DATA,
            Error::Cancelled => TCPX_ERR_CANCELLED,
            Error::Expired { .. } => TCPX_ERR_EXPIRED,
            Error::Forked => TCPX_ERR_FORKED,
            Error::Released | Error::Closed => TCPX_ERR_CLOSED,
            Error::Unreachable { .. } | Error::Io { .. } => TCPX_ERR_IO,
            // The enum may grow; its text still reaches `tcpx_last_error`.
            _ => TCPX_ERR_INTERNAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn text(status: i32) -> &'static str {
        // SAFETY: the function returns constant C strings.
        unsafe { CStr::from_ptr(tcpx_status_text(status)) }.to_str().unwrap()
    }

    #[test]
    fn every_status_has_its_own_text() {
        let texts: HashSet<_> = ALL.iter().map(|status| text(*status as i32)).collect();
        assert_eq!(texts.len(), ALL.len());
        assert!(!texts.contains("unknown status"));
    }

    #[test]
    fn any_number_has_a_text() {
        for status in [1, -12, -53, i32::MIN, i32::MAX] {
            assert_eq!(text(status), "unknown status");
        }
    }

    #[test]
    fn every_status_of_the_header_is_known() {
        let header = include_str!("../include/tcpx_p2p.h");
        let numbers: Vec<i32> = header
            .lines()
            .filter_map(|line| {
                let (name, number) = line.trim().trim_end_matches(',').split_once(" = ")?;
                name.starts_with("TCPX_").then(|| number.parse().unwrap())
            })
            .collect();
        assert_eq!(numbers, ALL.map(|status| status as i32));
    }
}
