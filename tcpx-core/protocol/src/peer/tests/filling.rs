//! Peers that use all of their credit, of every kind.

use std::sync::Arc;

use super::crossings::SETTING;
use super::driver::CHUNK_BYTES;
use super::exporting::no_exports;
use super::pair::Pair;
use super::said::{announce, note};
use super::setting::{AMPLE, Setting};
use crate::frames::eager_terms::{CreditKind, EagerOffer, EagerTerms};
use crate::frames::frame::Frame;
use crate::frames::messages::Offer;
use crate::peer::PeerProtocol;
use crate::peer::action::Action;
use crate::peer::flow_control::{FlowTerms, LEAST_POSTED_RECEIVES, POSTED_RECEIVE_COST};
use crate::peer::one_sided::OneSidedTerms;
use crate::types::note_cost;
use crate::types::peer_budget::PeerBudget;

/// Sends all of each kind that a hostile peer may. Returns what is kept of it then.
fn fill(protocol: &mut PeerProtocol, mut allowed: [u64; 3]) -> u64 {
    let mut sent = [0; 3];
    loop {
        let kinds = [POSTED_RECEIVE_COST, EagerTerms::cost(8), note_cost(1000)];
        let units = [1, kinds[1], kinds[2]];
        let Some(kind) = (0..3).find(|kind| sent[*kind] + units[*kind] <= allowed[*kind]) else {
            return sent[0] * POSTED_RECEIVE_COST + sent[1] + sent[2];
        };
        let (recv, tag) = (sent[0], sent[kind] as i64 + ((kind as i64) << 40));
        let frame = match kind {
            0 => announce(recv, tag, 1),
            1 => Frame::Offer(Offer::Eager { tag, bytes: 8 }),
            _ => note(1000),
        };
        sent[kind] += units[kind];
        protocol.handle_frame(frame, &mut no_exports());
        while let Some(action) = protocol.poll_action() {
            match action {
                Action::Send(Frame::Credit { what, counts }) => {
                    allowed[what as usize - CreditKind::Receives as usize] = counts[0];
                }
                action => panic!("{action:?}"),
            }
        }
    }
}

/// Ends whose peers keep to nothing but what they may, of a session with this budget, and what they
/// keep of each.
fn filled(budget: &Arc<PeerBudget>, peers: usize, most: u32) -> Vec<(PeerProtocol, u64)> {
    let offer =
        EagerOffer { bytes: 8, buffer_bytes: most, device_bytes: u64::MAX, access_bytes: 0 };
    let eager = EagerTerms::agree(offer, offer, CHUNK_BYTES);
    let one_sided = OneSidedTerms { note_bytes: most.into(), ..AMPLE };
    let setting = Setting { eager, one_sided, ..SETTING };
    let of_peer = |_| {
        let mut pair = Pair::new([setting; 2]);
        pair.ends[0].keep(FlowTerms::new(budget), pair.now);
        pair.connect().and_then(|()| pair.deliver_all()).expect("nothing is in its way");
        let peer = pair.ends[1].protocol().expect("it is up");
        let [receives, ahead] = peer.tags.allowed();
        let allowed = [receives, ahead, peer.one_sided.allowed()];
        let mut protocol = pair.ends[0].take_protocol().expect("it is up");
        let kept = fill(&mut protocol, allowed);
        (protocol, kept)
    };
    (0..peers).map(of_peer).collect()
}

/// Room that a peer has in any case, but for its lists.
const FLOOR: u64 = LEAST_POSTED_RECEIVES * POSTED_RECEIVE_COST + (8 << 10) + (72 << 10);

#[test]
fn however_many_peers_fill_what_they_may_the_budget_and_their_floors_hold_it() {
    const BUDGET: u64 = 4 << 20;
    let budget = PeerBudget::new(BUDGET);
    for peers in [1, 2, 300] {
        let all = filled(&budget, peers, 1 << 30);
        let kept: u64 = all.iter().map(|(_, kept)| kept).sum();
        assert!(budget.used() <= BUDGET, "{}", budget.used());
        let most = BUDGET + peers as u64 * FLOOR;
        assert!(kept <= most, "{kept} of {most} bytes are kept of {peers}");
        assert!(kept >= BUDGET / 2, "{kept} bytes are kept of {peers}");
        let least = all.iter().map(|(_, kept)| *kept).min();
        assert!(least >= Some(FLOOR - 2000), "{least:?}");
        drop(all);
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn two_ends_with_no_budget_at_all_have_their_floors() {
    let all = filled(&PeerBudget::new(0), 2, 1 << 30);
    assert!(all.iter().all(|(_, kept)| (FLOOR - 2000..=FLOOR).contains(kept)), "{:?}", all[0].1);
}

/// No more than the setting of its own kind, however much is free.
#[test]
fn what_one_kind_may_take_is_bounded_beside_the_budget() {
    let most = 256 << 10;
    let [(protocol, kept)] = &filled(&PeerBudget::new(64 << 20), 1, most)[..] else {
        unreachable!("one peer")
    };
    let receives = protocol.posted_receives() as u64 * POSTED_RECEIVE_COST;
    assert!(kept - receives <= 2 * u64::from(most), "{kept}");
}
