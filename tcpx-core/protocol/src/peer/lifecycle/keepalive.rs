//! Signs of life of one peer: when to ask for one, and when it has been silent for too long. Pure.
//!
//! Only silence that this end was there to hear counts. A program that makes no progress for a
//! while, or is stopped, does not hold its own absence against its peers.
//!
//! This end leaves a peer in peace when it awaits nothing from the peer: once its host has
//! acknowledged all that was sent, no thread here wakes up for it. The system probes an idle link
//! by itself (`control::socket`), so a host that is gone is found all the same.

use std::time::{Duration, Instant};

use super::host_silence::HostSilence;

/// A silent link is asked for a sign of life this often, so that an error can say how long a peer
/// was silent.
const PING_AFTER: Duration = Duration::from_secs(2);
/// The host of a silent peer is looked at so often between two pings.
const HOST_LOOKS: u32 = 8;

/// Action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Due {
    Nothing,
    /// Ask the system about its host.
    HostLook,
    /// The same, and ask it for a sign of life.
    Ping,
    /// The peer makes progress by itself and was asked, and has been silent for this long: it is
    /// frozen.
    Frozen(Duration),
}

/// Watches one peer.
#[derive(Debug)]
pub(in super::super) struct Keepalive {
    ping_after: Duration,
    /// Longest silence of a peer that makes progress by itself; `None` when silence means nothing.
    limit: Option<Duration>,
    received_at: Instant,
    looked_at: Instant,
    /// Silence that was listened to.
    silence: Duration,
    pinged_at: Option<Duration>,
    /// The silence at which its host is looked at next, unless a ping comes first.
    host_look_at: Option<Duration>,
    /// Whether anything is awaited of it, as of the last look.
    is_awaited: bool,
    /// Time of the last doubt, or of the last wait of the program, and nothing was heard since.
    doubted_at: Option<Instant>,
    /// Whether nothing is awaited, and its host has acknowledged everything.
    is_resting: bool,
    host: HostSilence,
}

impl Keepalive {
    /// Watches from now on. `peer_progresses`: the peer has a progress thread.
    pub(in super::super) fn new(
        timeout: Option<Duration>,
        peer_progresses: bool,
        now: Instant,
    ) -> Self {
        // Several pings fit into the time, so that one that is late is not the end.
        let ping_after = timeout.map_or(PING_AFTER, |timeout| PING_AFTER.min(timeout / 4));
        Self {
            ping_after,
            limit: timeout.filter(|_| peer_progresses),
            received_at: now,
            looked_at: now,
            silence: Duration::ZERO,
            pinged_at: None,
            host_look_at: None,
            is_awaited: true,
            doubted_at: None,
            is_resting: false,
            host: HostSilence::new(timeout, ping_after, now),
        }
    }

    /// Returns the answer to each look at the host, at the time of the look. `unacknowledged`: how
    /// long the peer's host has acknowledged nothing, if something waits for it. Returns how long
    /// the host was silent, if it, or the way to it, is gone; this needs no progress of the peer.
    pub(in super::super) fn host_answer(
        &mut self,
        unacknowledged: Option<Duration>,
    ) -> Option<Duration> {
        // Bytes that were sent just before the look may be on their way.
        let has_pinged = self.is_awaited && self.pinged_at == Some(self.silence);
        let looks_again = has_pinged || unacknowledged.is_some();
        self.host_look_at = looks_again.then(|| self.silence + self.ping_after / HOST_LOOKS);
        self.is_resting = !self.is_awaited && unacknowledged.is_none();
        let pinged = self.silence.saturating_sub(self.pinged_at.unwrap_or_default());
        self.host.look(unacknowledged, pinged, self.looked_at)
    }

    /// Returns how long the peer has been silent, counting only time that matters here.
    pub(in super::super) fn silence(&self, now: Instant) -> Duration {
        match self.is_resting {
            true => Duration::ZERO,
            false => self.silence + now.saturating_duration_since(self.looked_at),
        }
    }

    /// Returns the time at which a look next finds anything due, if nothing is heard until then and
    /// nothing new awaited. `received_at`: the time at which the last byte of the peer was read,
    /// perhaps since the last look.
    pub(in super::super) fn next_look(&self, received_at: Instant) -> Option<Instant> {
        if received_at > self.received_at {
            // The next look begins anew from there.
            return Some(received_at + self.ping_after);
        }
        if self.is_resting {
            return None;
        }
        let next_ping = self.pinged_at.unwrap_or_default() + self.ping_after;
        let limit = self.limit.filter(|_| self.is_awaited && self.pinged_at.is_some());
        let due = [limit, self.host_look_at].into_iter().flatten().fold(next_ping, Duration::min);
        Some(self.looked_at + due.saturating_sub(self.silence))
    }

    /// Takes a look. `received_at`: the time at which the last byte of the peer was read.
    /// `is_awaited`: whether anything is to come of it.
    pub(in super::super) fn look(
        &mut self,
        received_at: Instant,
        is_awaited: bool,
        now: Instant,
    ) -> Due {
        let since = now.saturating_duration_since(self.looked_at);
        self.looked_at = now;
        self.doubted_at.take_if(|at| received_at > *at);
        let is_awaited = is_awaited || self.doubted_at.is_some();
        self.is_awaited = is_awaited;
        if received_at > self.received_at {
            self.received_at = received_at;
            self.begin(now.saturating_duration_since(received_at).min(self.ping_after));
        } else if !self.is_resting {
            self.silence += since.min(self.ping_after);
        } else if is_awaited {
            self.begin(Duration::ZERO);
        } else {
            return Due::Nothing;
        }
        if let Some(limit) = self.limit
            && self.silence >= limit
            && is_awaited
            && self.pinged_at.is_some()
        {
            return Due::Frozen(self.silence);
        }
        let next_ping = self.pinged_at.unwrap_or_default() + self.ping_after;
        if self.silence >= next_ping {
            self.pinged_at = Some(self.silence);
            return if is_awaited { Due::Ping } else { Due::HostLook };
        }
        let is_due = self.host_look_at.take_if(|at| *at <= self.silence).is_some();
        if is_due { Due::HostLook } else { Due::Nothing }
    }

    /// Handles doubt: the peer's session says that it has lost this connection, so a sign of life
    /// is awaited. Returns whether to ask for one now.
    pub(in super::super) fn doubt(&mut self, now: Instant) -> bool {
        let was_doubted = self.doubted_at.is_some();
        self.expect(now);
        if !was_doubted {
            self.pinged_at = Some(self.silence);
        }
        !was_doubted
    }

    /// Awaits something of the peer until it is heard: the program waits for anything that it may
    /// send. The silence counts on.
    pub(in super::super) fn expect(&mut self, now: Instant) {
        self.doubted_at = Some(now);
        if self.is_resting {
            self.begin(Duration::ZERO);
            self.looked_at = now;
        }
        self.is_awaited = true;
    }

    /// Begins the silence anew, `silence` ago.
    fn begin(&mut self, silence: Duration) {
        self.silence = silence;
        self.pinged_at = None;
        self.host_look_at = None;
        self.is_resting = false;
    }
}

#[cfg(test)]
mod tests;
