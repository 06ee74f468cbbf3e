//! Alarms: kinds of trouble that a session notices while it runs. Each kind has a diagnosis, is
//! counted, and is logged once for each peer.

use std::fmt::Display;

use serde::Serialize;
use tcpx_diagnosis::Diagnosis;
use tcpx_diagnosis::table::{requests, topology, transfer};

/// One kind of trouble. The numbers are the indices in [`ALL`](Self::ALL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    NicDown,
    PagesDraining,
    Stuck,
    AllZero,
    BelowNic,
    SlowBackend,
    UnpackBehind,
    Starved,
    FirstMessageLost,
}

impl Alarm {
    /// Every kind, in the order of the diagnoses' ids.
    pub(crate) const ALL: [Self; 9] = [
        Self::NicDown,
        Self::PagesDraining,
        Self::Stuck,
        Self::AllZero,
        Self::BelowNic,
        Self::SlowBackend,
        Self::UnpackBehind,
        Self::Starved,
        Self::FirstMessageLost,
    ];

    /// Returns the diagnosis of the kind, with causes and cures.
    pub(crate) fn diagnosis(self) -> &'static Diagnosis {
        match self {
            Self::NicDown => &topology::NIC_DOWN,
            Self::PagesDraining => &requests::PAGES_LEAKED,
            Self::Stuck => &transfer::TRANSFER_STUCK,
            Self::AllZero => &transfer::PAYLOAD_ALL_ZERO,
            Self::BelowNic => &transfer::BANDWIDTH_LOW,
            Self::SlowBackend => &transfer::UNPACK_BACKEND_SLOW,
            Self::UnpackBehind => &transfer::UNPACK_IS_BOTTLENECK,
            Self::Starved => &transfer::CHANNEL_STARVED,
            Self::FirstMessageLost => &transfer::FIRST_MESSAGE_LOST,
        }
    }
}

/// Kind of trouble that was noticed, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AlarmReport {
    /// Id of the diagnosis, as `tcpx explain` takes it.
    pub id: String,
    /// Title of the diagnosis.
    pub title: String,
    /// Number of times that the trouble began. Trouble that lasts counts once.
    pub count: u64,
}

/// Number of times that each kind was seen in a session.
#[derive(Debug, Default)]
pub(crate) struct Alarms([u64; Alarm::ALL.len()]);

impl Alarms {
    /// Counts trouble that has just begun and, the first time, logs it with its cure.
    fn raise(&mut self, alarm: Alarm, peer: Option<&str>, seen: impl Display, is_first: bool) {
        self.0[alarm as usize] += 1;
        if is_first {
            let Diagnosis { code, title, cure, .. } = alarm.diagnosis();
            let (peer, cure) = (peer.unwrap_or("all"), cure.join("; "));
            tracing::warn!(peer, cure, "{title}: {seen} [{code}]");
        }
    }

    /// Returns the kinds that were seen so far, in the order of the ids.
    pub(crate) fn report(&self) -> Vec<AlarmReport> {
        let seen = Alarm::ALL.iter().map(|alarm| (alarm.diagnosis(), self.0[*alarm as usize]));
        seen.filter(|(_, count)| *count > 0)
            .map(|(diagnosis, count)| AlarmReport {
                id: diagnosis.code.to_string(),
                title: diagnosis.title.to_owned(),
                count,
            })
            .collect()
    }
}

/// Current and past trouble of one peer, or of the session itself.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    now: [bool; Alarm::ALL.len()],
    logged: [bool; Alarm::ALL.len()],
}

impl Troubles {
    /// Notes whether the trouble is present. `seen` describes it in words, and is called only when
    /// the trouble has just begun.
    pub(crate) fn set<D: Display>(
        &mut self,
        alarm: Alarm,
        is_there: bool,
        alarms: &mut Alarms,
        peer: Option<&str>,
        seen: impl FnOnce() -> D,
    ) {
        let was_there = std::mem::replace(&mut self.now[alarm as usize], is_there);
        if is_there && !was_there {
            let is_first = !std::mem::replace(&mut self.logged[alarm as usize], true);
            alarms.raise(alarm, peer, seen(), is_first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_that_lasts_counts_once_and_trouble_that_returns_again() {
        let (mut troubles, mut alarms) = (Troubles::default(), Alarms::default());
        for is_there in [false, true, true, false, true] {
            troubles.set(Alarm::Stuck, is_there, &mut alarms, Some("p"), || "words");
        }
        let report = alarms.report();
        assert_eq!(report.len(), 1);
        assert_eq!((report[0].id.as_str(), report[0].count), ("TCPX-902", 2));
    }

    #[test]
    fn every_kind_has_an_id_of_its_own_in_order() {
        let ids: Vec<u16> =
            Alarm::ALL.iter().map(|alarm| alarm.diagnosis().code.number()).collect();
        assert_eq!(ids, [302, 815, 902, 904, 906, 913, 914, 915, 916]);
        for (index, alarm) in Alarm::ALL.iter().enumerate() {
            assert_eq!(*alarm as usize, index);
        }
    }
}
