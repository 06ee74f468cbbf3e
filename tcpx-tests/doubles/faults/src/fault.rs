//! Faults: what goes wrong on request, and how a script spells it.

use std::str::FromStr;

use tcpx_softnet::hooks::{MAX_SOCKETS, Side, SocketRole};

use crate::parse_error::ScriptError;
use tcpx_softnet::Entry;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A socket is shut down after it has moved a number of bytes. All of those are delivered.
    Cut {
        /// Which end's comms.
        side: Side,
        /// Which of their sockets.
        socket: SocketRole,
        /// Bytes that the socket still moves.
        after_bytes: u64,
    },
    /// All sockets of a comm are reset, as when its process was killed.
    Kill {
        /// Which end's comms.
        side: Side,
        /// How many times the comm was driven before; 0 is the first time.
        step: u64,
    },
    /// One message of every send comm is reported done and never leaves.
    Lose {
        /// Which of the comm's messages, from 1.
        message: u64,
    },
    /// The pages of every n-th message of every receive comm never go back to the pool.
    Leak {
        /// The n.
        every: u64,
    },
    /// A call does nothing and returns a code.
    Return {
        /// Which entry.
        entry: Entry,
        /// Which of its calls, from 1.
        call: u64,
        /// The code, 1..=7.
        code: i32,
    },
    /// The process stops as by SIGSTOP when a call begins, and does the call once it is continued.
    Freeze {
        /// Which entry.
        entry: Entry,
        /// Which of its calls, from 1.
        call: u64,
    },
    /// A call begins late. Its thread waits.
    Delay {
        /// Which entry.
        entry: Entry,
        /// Which of its calls, from 1.
        call: u64,
        /// How late, in milliseconds.
        ms: u64,
    },
    /// A call never returns: its thread waits for good, without a lock of the plugin's.
    Block {
        /// Which entry.
        entry: Entry,
        /// Which of its calls, from 1.
        call: u64,
    },
    /// The process ends as by SIGKILL when a call begins.
    Die {
        /// Which entry.
        entry: Entry,
        /// Which of its calls, from 1.
        call: u64,
    },
}

impl Fault {
    /// The words that a script is made of.
    pub(crate) const ALLOWED: &str = "a semicolon-separated list of cut:SIDE.SOCKET@BYTES, \
         kill:SIDE@STEP, lose:send@MESSAGE, leak:recv@EVERY, rc:ENTRY@CALL=CODE, \
         freeze:ENTRY@CALL, delay:ENTRY@CALL=MS, block:ENTRY@CALL and die:ENTRY@CALL, with SIDE \
         send or recv, SOCKET control or data0..data7, CODE 1..=7";

    /// Reads one fault; the numbers may still make no sense.
    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.trim().split_once(':')?;
        let (what, when) = rest.split_once('@')?;
        match kind {
            "cut" => {
                let (end, socket) = what.split_once('.')?;
                let socket = match socket {
                    "control" => SocketRole::Control,
                    data => SocketRole::Data(number(data.strip_prefix("data")?)?),
                };
                Some(Self::Cut { side: side(end)?, socket, after_bytes: number(when)? })
            }
            "kill" => Some(Self::Kill { side: side(what)?, step: number(when)? }),
            "lose" if what == "send" => Some(Self::Lose { message: number(when)? }),
            "leak" if what == "recv" => Some(Self::Leak { every: number(when)? }),
            "rc" => {
                let (call, code) = when.split_once('=')?;
                Some(Self::Return { entry: entry(what)?, call: number(call)?, code: number(code)? })
            }
            "delay" => {
                let (call, ms) = when.split_once('=')?;
                let (call, ms) = (number(call)?, number(ms)?);
                Some(Self::Delay { entry: entry(what)?, call, ms })
            }
            "freeze" => Some(Self::Freeze { entry: entry(what)?, call: number(when)? }),
            "block" => Some(Self::Block { entry: entry(what)?, call: number(when)? }),
            "die" => Some(Self::Die { entry: entry(what)?, call: number(when)? }),
            _ => None,
        }
    }

    /// Whether the numbers make sense.
    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Self::Cut { socket: SocketRole::Data(index), .. } => *index < MAX_SOCKETS,
            Self::Cut { .. } | Self::Kill { .. } => true,
            Self::Lose { message: count } | Self::Leak { every: count } => *count > 0,
            Self::Return { call, code, .. } => *call > 0 && (1..=7).contains(code),
            Self::Freeze { call, .. }
            | Self::Delay { call, .. }
            | Self::Block { call, .. }
            | Self::Die { call, .. } => *call > 0,
        }
    }
}

impl FromStr for Fault {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        Self::parse(text).filter(Self::is_valid).ok_or(ScriptError::new(Self::ALLOWED))
    }
}

fn side(text: &str) -> Option<Side> {
    match text {
        "send" => Some(Side::Send),
        "recv" => Some(Side::Recv),
        _ => None,
    }
}

fn entry(name: &str) -> Option<Entry> {
    Entry::ALL.iter().copied().find(|entry| entry.name() == name)
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_spelling() {
        let cut = Fault::Cut { side: Side::Send, socket: SocketRole::Data(3), after_bytes: 65_536 };
        assert_eq!("cut:send.data3@65536".parse(), Ok(cut));
        let control = Fault::Cut { side: Side::Recv, socket: SocketRole::Control, after_bytes: 0 };
        assert_eq!(" cut:recv.control@0".parse(), Ok(control));
        assert_eq!("kill:recv@37".parse(), Ok(Fault::Kill { side: Side::Recv, step: 37 }));
        assert_eq!("lose:send@1".parse(), Ok(Fault::Lose { message: 1 }));
        assert_eq!("leak:recv@4".parse(), Ok(Fault::Leak { every: 4 }));
        let code = Fault::Return { entry: Entry::Isend, call: 5, code: 2 };
        assert_eq!("rc:isend@5=2".parse(), Ok(code));
        assert_eq!(Entry::Isend.name(), "isend");
        let freeze = Fault::Freeze { entry: Entry::Accept, call: 2 };
        assert_eq!("freeze:accept@2".parse(), Ok(freeze));
        let delay = Fault::Delay { entry: Entry::CloseTransfer, call: 3, ms: 250 };
        assert_eq!("delay:closeSend/closeRecv@3=250".parse(), Ok(delay));
        let block = Fault::Block { entry: Entry::CloseListen, call: 2 };
        assert_eq!("block:closeListen@2".parse(), Ok(block));
        let die = Fault::Die { entry: Entry::CloseTransfer, call: 1 };
        assert_eq!("die:closeSend/closeRecv@1".parse(), Ok(die));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "cut",
            "cut:data0@1",
            "cut:send.data@1",
            "cut:both.data0@1",
            "kill:send",
            "lose:recv@1",
            "leak:send@1",
            "rc:foo@1=2",
            "freeze:foo@1",
            "delay:isend@1",
            "die:test",
        ] {
            assert_eq!(Fault::parse(text), None, "{text}");
        }
        for text in [
            "cut:send.data8@1",
            "lose:send@0",
            "delay:isend@0=5",
            "block:accept@0",
            "leak:recv@0",
            "rc:test@0=2",
            "rc:test@1=0",
            "rc:test@1=8",
            "die:test@0",
        ] {
            assert!(Fault::parse(text).is_some_and(|fault| !fault.is_valid()), "{text}");
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
