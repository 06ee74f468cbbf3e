//! What goes over each NIC at this end while one size is measured.

use serde::Serialize;
use tcpx_core::Session;

use super::figures::Throughput;

/// One NIC. Messages that travel on the control link are not in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct NicTraffic {
    pub(super) nic: String,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    /// Its part of the case's rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gb_per_s: Option<f64>,
}

impl NicTraffic {
    fn bytes(&self) -> u64 {
        self.bytes_sent + self.bytes_received
    }
}

/// Since the session exists.
pub(super) fn of(session: &Session) -> Vec<NicTraffic> {
    let nics = session.stats().nics.into_iter();
    let traffic = nics.map(|nic| NicTraffic {
        nic: nic.nic,
        bytes_sent: nic.send.bytes,
        bytes_received: nic.recv.bytes,
        gb_per_s: None,
    });
    traffic.collect()
}

/// What came since `before`. `rate`: of the whole case.
pub(super) fn since(
    now: Vec<NicTraffic>,
    before: &[NicTraffic],
    rate: Option<&Throughput>,
) -> Vec<NicTraffic> {
    let mut grown: Vec<NicTraffic> = now
        .into_iter()
        .map(|mut nic| {
            if let Some(before) = before.iter().find(|it| it.nic == nic.nic) {
                nic.bytes_sent = nic.bytes_sent.saturating_sub(before.bytes_sent);
                nic.bytes_received = nic.bytes_received.saturating_sub(before.bytes_received);
            }
            nic
        })
        .filter(|nic| nic.bytes() > 0)
        .collect();
    let all: u64 = grown.iter().map(NicTraffic::bytes).sum();
    for nic in &mut grown {
        let part = nic.bytes() as f64 / all as f64;
        nic.gb_per_s = rate.map(|rate| rate.gb_per_s_median * part);
    }
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_shared_out_by_bytes() {
        let nic = |name: &str, bytes_sent, bytes_received| NicTraffic {
            nic: name.into(),
            bytes_sent,
            bytes_received,
            gb_per_s: None,
        };
        let rate = Throughput::new(1000, &[100]).unwrap();
        let now = vec![nic("eth1", 40, 5), nic("eth2", 30, 0), nic("eth3", 7, 7)];
        let before = [nic("eth1", 10, 5), nic("eth3", 7, 7)];
        let grown = since(now, &before, Some(&rate));
        assert_eq!(grown.len(), 2, "nothing went over the third: {grown:?}");
        assert_eq!((grown[0].bytes_sent, grown[0].bytes_received), (30, 0));
        assert_eq!((grown[0].gb_per_s, grown[1].gb_per_s), (Some(5.0), Some(5.0)));
    }
}
