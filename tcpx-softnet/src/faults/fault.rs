//! Faults on request: a script of what goes wrong, and when.

use std::str::FromStr;
use std::sync::atomic::Ordering;

use crate::plugin::Settings;
use crate::sync::AtomicU64;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A socket ends after a number of payload (or control) bytes, with all bytes before that delivered.
    Cut {
        /// Which end's comms.
        side: Side,
        /// Which of their sockets.
        socket: CutSocket,
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
        /// n.
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
    /// The process ends as by SIGKILL when a call begins.
    Die {
        /// Which entry.
        entry: Entry,
        /// Which of its calls, from 1.
        call: u64,
    },
}

/// The end of a comm that this process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Send comms.
    Send,
    /// Receive comms.
    Recv,
}

/// A socket of a comm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutSocket {
    /// The control socket.
    Control,
    /// A data socket by index.
    Data(u16),
}

macro_rules! entries {
    ($($variant:ident $name:literal),* $(,)?) => {
        /// An entry of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is the entry of that name")]
        #[non_exhaustive]
        pub enum Entry { $($variant),* }

        impl Entry {
            pub(crate) const COUNT: usize = [$(Self::$variant),*].len();

            /// The entry's C name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

entries! {
    Init "init", Devices "devices", GetProperties "getProperties", Listen "listen", Connect "connect",
    Accept "accept", RegMr "regMr", DeregMr "deregMr", Isend "isend", Irecv "irecv", Iflush "iflush", Test "test",
    CloseTransfer "closeSend/closeRecv", CloseListen "closeListen", GetDeviceMr "getDeviceMr",
    IrecvConsumed "irecvConsumed",
}

/// The words that a script is made of.
pub(crate) const ALLOWED: &str = "a semicolon-separated list of cut:SIDE.SOCKET@BYTES, kill:SIDE@STEP, \
     lose:send@MESSAGE, leak:recv@EVERY, rc:ENTRY@CALL=CODE, freeze:ENTRY@CALL and die:ENTRY@CALL, with SIDE send or recv, SOCKET control or data0..data7, \
     CODE 1..=7";

impl FromStr for Fault {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, rest) = text.trim().split_once(':').ok_or(())?;
        let (what, when) = rest.split_once('@').ok_or(())?;
        match kind {
            "cut" => {
                let (side, socket) = what.split_once('.').ok_or(())?;
                let socket = match socket {
                    "control" => CutSocket::Control,
                    data => CutSocket::Data(number(data.strip_prefix("data").ok_or(())?)?),
                };
                Ok(Self::Cut { side: side.parse()?, socket, after_bytes: number(when)? })
            }
            "kill" => Ok(Self::Kill { side: what.parse()?, step: number(when)? }),
            "lose" if what == "send" => Ok(Self::Lose { message: number(when)? }),
            "leak" if what == "recv" => Ok(Self::Leak { every: number(when)? }),
            "rc" => {
                let (call, code) = when.split_once('=').ok_or(())?;
                Ok(Self::Return {
                    entry: Entry::from_name(what).ok_or(())?,
                    call: number(call)?,
                    code: number(code)?,
                })
            }
            "freeze" => {
                Ok(Self::Freeze { entry: Entry::from_name(what).ok_or(())?, call: number(when)? })
            }
            "die" => {
                Ok(Self::Die { entry: Entry::from_name(what).ok_or(())?, call: number(when)? })
            }
            _ => Err(()),
        }
    }
}

impl Fault {
    /// Whether the numbers make sense.
    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Self::Cut { socket: CutSocket::Data(index), .. } => *index < crate::wire::MAX_SOCKETS,
            Self::Cut { .. } | Self::Kill { .. } => true,
            Self::Lose { message: count } | Self::Leak { every: count } => *count > 0,
            Self::Return { call, code, .. } => *call > 0 && (1..=7).contains(code),
            Self::Freeze { call, .. } | Self::Die { call, .. } => *call > 0,
        }
    }
}

/// What the script wants of one call instead of, or before, what the call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptedCall {
    /// Return this code and do nothing.
    Return(i32),
    /// Stop the process, then do the call.
    Freeze,
    /// End the process.
    Die,
}

/// The calls of every entry so far, as far as scripts ask for them.
#[derive(Debug)]
pub(crate) struct CallCounter {
    calls: [AtomicU64; Entry::COUNT],
}

impl CallCounter {
    pub(crate) const fn new() -> Self {
        Self { calls: [const { AtomicU64::new(0) }; Entry::COUNT] }
    }

    /// Counts a call; what the script wants of it, if anything.
    pub(crate) fn count(&self, entry: Entry, faults: &[Fault]) -> Option<ScriptedCall> {
        let call = 1 + self.calls[entry as usize].fetch_add(1, Ordering::Relaxed);
        faults.iter().find_map(|fault| {
            let (e, c, scripted) = match *fault {
                Fault::Return { entry, call, code } => (entry, call, ScriptedCall::Return(code)),
                Fault::Freeze { entry, call } => (entry, call, ScriptedCall::Freeze),
                Fault::Die { entry, call } => (entry, call, ScriptedCall::Die),
                _ => return None,
            };
            ((e, c) == (entry, call)).then_some(scripted)
        })
    }
}

/// Counts how often a comm is driven, and says when its time has come.
#[derive(Debug)]
pub(crate) struct Killer {
    steps_left: Option<u64>,
}

impl Killer {
    pub(crate) fn new(settings: &Settings, side: Side) -> Self {
        let steps = settings.faults.iter().filter_map(|fault| match *fault {
            Fault::Kill { side: s, step } if s == side => Some(step),
            _ => None,
        });
        Self { steps_left: steps.min() }
    }

    /// True once, at the scripted step.
    pub(crate) fn strikes(&mut self) -> bool {
        match &mut self.steps_left {
            None => false,
            Some(0) => {
                self.steps_left = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }
}

/// The number, from 0, of the message that a send comm loses.
pub(crate) fn lost_message(settings: &Settings) -> Option<u64> {
    settings.faults.iter().find_map(|fault| match *fault {
        Fault::Lose { message } => message.checked_sub(1),
        _ => None,
    })
}

/// Every how many messages a receive comm forgets their pages.
pub(crate) fn leak_period(settings: &Settings) -> Option<u64> {
    settings.faults.iter().find_map(|fault| match *fault {
        Fault::Leak { every } => Some(every),
        _ => None,
    })
}

impl FromStr for Side {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "send" => Ok(Self::Send),
            "recv" => Ok(Self::Recv),
            _ => Err(()),
        }
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, ()> {
    text.parse().map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_spelling() {
        let cut = Fault::Cut { side: Side::Send, socket: CutSocket::Data(3), after_bytes: 65_536 };
        assert_eq!("cut:send.data3@65536".parse(), Ok(cut));
        let control = Fault::Cut { side: Side::Recv, socket: CutSocket::Control, after_bytes: 0 };
        assert_eq!(" cut:recv.control@0".parse(), Ok(control));
        assert_eq!("kill:recv@37".parse(), Ok(Fault::Kill { side: Side::Recv, step: 37 }));
        assert_eq!("lose:send@1".parse(), Ok(Fault::Lose { message: 1 }));
        assert_eq!("leak:recv@4".parse(), Ok(Fault::Leak { every: 4 }));
        let code = Fault::Return { entry: Entry::Isend, call: 5, code: 2 };
        assert_eq!("rc:isend@5=2".parse(), Ok(code));
        assert_eq!(Entry::Isend.name(), "isend");
        let freeze = Fault::Freeze { entry: Entry::Accept, call: 2 };
        assert_eq!("freeze:accept@2".parse(), Ok(freeze));
        let die = Fault::Die { entry: Entry::CloseTransfer, call: 1 };
        assert_eq!("die:closeSend/closeRecv@1".parse(), Ok(die));
    }

    #[test]
    fn each_entry_is_counted_by_itself() {
        let faults: Vec<Fault> = ["rc:test@2=6", "freeze:isend@1", "die:test@3"]
            .map(|text| text.parse().expect("a fault"))
            .to_vec();
        let counter = CallCounter::new();
        let count = |entry| counter.count(entry, &faults);
        assert_eq!(count(Entry::Test), None);
        assert_eq!(count(Entry::Isend), Some(ScriptedCall::Freeze));
        assert_eq!(count(Entry::Test), Some(ScriptedCall::Return(6)));
        assert_eq!(count(Entry::Test), Some(ScriptedCall::Die));
        assert_eq!((count(Entry::Test), count(Entry::Isend)), (None, None));
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
            "die:test",
        ] {
            assert_eq!(text.parse::<Fault>(), Err(()), "{text}");
        }
        for text in [
            "cut:send.data8@1",
            "lose:send@0",
            "leak:recv@0",
            "rc:test@0=2",
            "rc:test@1=0",
            "rc:test@1=8",
            "die:test@0",
        ] {
            assert!(text.parse::<Fault>().is_ok_and(|fault| !fault.is_valid()), "{text}");
        }
    }
}
