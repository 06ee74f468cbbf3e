//! Channels that a connection has lost, while work goes on over the others.
//!
//! Both comms of such a channel are closed by a worker, the receive comm after the copies out of
//! its bounce buffer. Until then nothing of the channel ends: a comm may use the memory of what it
//! was given. Then its chunks are dealt to another channel (`protocol::peer::losing`).

use tcpx_protocol::peer::lifecycle::arrivals::Loss;
use tcpx_protocol::plans::plan::Stripe;
use tcpx_protocol::plans::stripe_queue::StripeQueue;
use tcpx_protocol::types::Direction;

use super::connection::Connection;
use super::lost_channel::LostChannel;
use super::resources::Resources;
use crate::plugin::comm::close_comms;
use crate::stats::ChannelStats;
use crate::stats::tcp::TcpStats;
use crate::transfer::batch::BatchNumber;
use crate::transfer::lost_lane::LostLane;

impl Connection {
    /// Begins to close a channel that is lost.
    #[cold]
    pub(super) fn close_channel(&mut self, channel: u16, why: Option<Loss>, cx: &mut Resources) {
        let Some(send) = self.send_lanes.take(channel) else { return };
        let Some(mut receive) = self.recv_lanes.take(channel) else { return };
        let own = self.failures.iter().position(|(failed, _)| *failed == channel);
        let own = own.map(|place| self.failures.swap_remove(place).1);
        let why = own.or_else(|| why.map(|loss| self.error_of_loss(loss, self.phase())));
        let until = send.newest_batch().max(receive.newest_batch()).unwrap_or(BatchNumber::NONE);
        let tcp = send.tcp_stats().closed();
        let registrations = &mut cx.ledger.registrations;
        let (sends, asked, (comm, stagings)) = send.lose(registrations);
        let nic = self.record.nics.get(usize::from(channel)).cloned().unwrap_or_default();
        let lost = LostChannel {
            channel,
            nic,
            why,
            sends,
            tcp,
            receives: LostLane {
                stripes: StripeQueue::receiving(),
                stats: receive.stats,
                finished: receive.stats.chunks,
                limit: receive.credit_limit(),
            },
            unpacking: Some(Box::new(receive)),
            until,
            tickets: vec![close_comms(vec![comm], &cx.workers)],
            stagings,
            is_closed: false,
        };
        self.lost.push(lost);
        self.record.lost.push(channel);
        for memory in asked {
            self.protocol.handle_staging(channel, memory, false);
        }
    }

    /// Queues chunks of a channel that is lost, until they are dealt anew.
    #[cold]
    pub(super) fn push_lost(&mut self, channel: u16, direction: Direction, stripe: Stripe) {
        let Some(lost) = self.lost.iter_mut().find(|it| it.channel == channel) else { return };
        match (direction, &mut lost.unpacking) {
            (Direction::Send, _) => lost.sends.stripes.push(stripe),
            (Direction::Receive, Some(lane)) => lane.push(stripe),
            (Direction::Receive, None) => lost.receives.stripes.push(stripe),
        }
    }

    /// Moves what a lost channel has left behind what another one has.
    #[cold]
    pub(super) fn redeal(&mut self, direction: Direction, lost: u16, onto: u16) {
        let Some(from) = self.lost.iter().position(|it| it.channel == lost) else { return };
        let mut from = self.lost.swap_remove(from);
        match direction {
            Direction::Send => {
                from.sends.finish_sends(&mut self.finished);
                let to = self.lost.iter_mut().find(|it| it.channel == onto);
                match (self.send_lanes.get_mut(onto), to) {
                    (Some(lane), _) => lane.inherit(&mut from.sends.stripes),
                    (None, Some(to)) => drop(from.sends.stripes.move_to(&mut to.sends.stripes)),
                    (None, None) => {}
                }
            }
            Direction::Receive => {
                let to = self.lost.iter_mut().find(|it| it.channel == onto);
                let stripes = &mut from.receives.stripes;
                match (self.recv_lanes.get_mut(onto), to) {
                    (Some(lane), _) => lane.inherit(stripes),
                    (None, Some(LostChannel { unpacking: Some(lane), .. })) => {
                        lane.inherit(stripes)
                    }
                    (None, Some(to)) => drop(stripes.move_to(&mut to.receives.stripes)),
                    (None, None) => {}
                }
            }
        }
        self.lost.push(from);
    }

    /// Takes the word of the peer on the chunks that it has unpacked.
    pub(super) fn note_unpacked(&mut self, chunks: &[u64]) {
        for (channel, chunks) in (0..).zip(chunks) {
            if let Some(lane) = self.send_lanes.get_mut(channel) {
                lane.set_unpacked(*chunks);
            } else if let Some(lost) = self.lost.iter_mut().find(|it| it.channel == channel) {
                lost.sends.limit = Some(*chunks);
                if lost.is_closed {
                    lost.sends.finish_sends(&mut self.finished);
                }
            }
        }
    }

    /// Returns a channel that is lost.
    pub(super) fn lost(&self, channel: u16) -> Option<&LostChannel> {
        self.lost.iter().find(|it| it.channel == channel)
    }

    /// Returns the counters of each send lane, of lost ones too.
    pub(super) fn send_stats(&self) -> impl Iterator<Item = ChannelStats> {
        let of_lost = |channel| self.lost(channel).map(|lost| lost.sends.stats).unwrap_or_default();
        self.send_lanes.map_all(|lane| lane.stats, of_lost)
    }

    /// Returns the figures of the connections of each send lane.
    pub(super) fn tcp_stats(&self) -> impl Iterator<Item = TcpStats> {
        let of_lost = |channel| self.lost(channel).map(|lost| lost.tcp).unwrap_or_default();
        self.send_lanes.map_all(|lane| lane.tcp_stats(), of_lost)
    }

    /// Returns the counters of each receive lane, of lost ones too.
    pub(super) fn recv_stats(&self) -> impl Iterator<Item = ChannelStats> {
        let of_lost = |channel| {
            let lost = self.lost(channel);
            lost.map(|lost| lost.unpacking.as_ref().map_or(lost.receives.stats, |it| it.stats))
                .unwrap_or_default()
        };
        self.recv_lanes.map_all(|lane| lane.stats, of_lost)
    }

    /// Returns how many chunks the peer may send on each channel, where that is counted.
    pub(super) fn credit_limits(&mut self) -> impl Iterator<Item = u64> {
        let lost = &self.lost;
        let of_lost = |channel| lost.iter().find(|it| it.channel == channel)?.receives.limit;
        let lanes = self.recv_lanes.all_mut();
        lanes.filter_map(move |(channel, lane)| match lane {
            Some(lane) => lane.credit_limit(),
            None => of_lost(channel),
        })
    }

    /// Returns a channel that is lost, if work goes on without it.
    pub(super) fn lost_channel(&self) -> Option<&LostChannel> {
        self.lost.iter().find(|lost| lost.is_closed)
    }

    /// Returns whether a channel is being closed.
    pub(super) fn is_losing(&self) -> bool {
        self.lost.iter().any(|lost| !lost.is_closed)
    }
}
