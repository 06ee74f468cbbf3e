//! Traffic over each NIC at this end while one size is measured.

use serde::Serialize;
use tcpx_core::Session;

/// Traffic over one NIC, without messages on the control link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct NicTraffic {
    pub(super) nic: String,
    /// Bytes sent and received.
    pub(super) bytes: u64,
    /// Share of the case's rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gb_per_s: Option<f64>,
}

/// Returns the traffic of each NIC since the session was opened.
pub(super) fn of(session: &Session) -> Vec<NicTraffic> {
    let nics = session.stats().nics.into_iter();
    let traffic = nics.map(|nic| NicTraffic {
        nic: nic.nic,
        bytes: nic.send.bytes + nic.recv.bytes,
        gb_per_s: None,
    });
    traffic.collect()
}

/// Returns the traffic since `before`. `gb_per_s`: of the whole case.
pub(super) fn since(
    now: Vec<NicTraffic>,
    before: &[NicTraffic],
    gb_per_s: Option<f64>,
) -> Vec<NicTraffic> {
    let mut grown: Vec<NicTraffic> = now
        .into_iter()
        .map(|mut nic| {
            if let Some(before) = before.iter().find(|it| it.nic == nic.nic) {
                nic.bytes = nic.bytes.saturating_sub(before.bytes);
            }
            nic
        })
        .filter(|nic| nic.bytes > 0)
        .collect();
    let all: u64 = grown.iter().map(|nic| nic.bytes).sum();
    for nic in &mut grown {
        let part = nic.bytes as f64 / all as f64;
        nic.gb_per_s = gb_per_s.map(|rate| rate * part);
    }
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_shared_out_by_bytes() {
        let nic = |name: &str, bytes| NicTraffic { nic: name.into(), bytes, gb_per_s: None };
        let now = vec![nic("eth1", 45), nic("eth2", 30), nic("eth3", 14)];
        let before = [nic("eth1", 15), nic("eth3", 14)];
        let grown = since(now, &before, Some(10.0));
        assert_eq!(grown.len(), 2, "nothing went over the third: {grown:?}");
        assert_eq!((grown[0].bytes, grown[1].bytes), (30, 30));
        assert_eq!((grown[0].gb_per_s, grown[1].gb_per_s), (Some(5.0), Some(5.0)));
    }
}
