//! Hosts made of network namespaces, joined by a veth pair or several, or by a link with a round
//! trip.

mod pairs;

use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tcpx_testkit::skip;

use crate::delayed_link::{self, LinkProfile};
use crate::pair::Side;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFate {
    /// The packet is lost, and its sender gets no notice.
    Lost,
    /// The packet's sender gets a notice that the connection is no more.
    Reset,
}

/// Two namespaces with one link. Taken down when dropped.
#[derive(Debug)]
pub struct Network {
    number: u32,
}

/// Numbers of this process's networks.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl Network {
    /// Lays two hosts, `left` and `right`, and a link between them. `None`, with the reason printed
    /// by the caller, where that is not allowed: it needs root and the `ip` command.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn lay() -> Result<Self, String> {
        let network = Self::without_link()?;
        network.add_pair(0)?;
        Ok(network)
    }

    /// Joins the hosts by the veth pair of this number.
    fn add_pair(&self, pair: u8) -> Result<(), String> {
        let [left, right] = ['l', 'r'].map(|side| self.interface(pair, side));
        let (left_host, right_host) = (self.left(), self.right());
        let left_end = ["link", "add", &left, "netns", &left_host, "type", "veth"];
        let right_end = ["peer", "name", &right, "netns", &right_host];
        ip(&[&left_end[..], &right_end].concat())?;
        self.address_ends(pair)
    }

    /// Lays the same two hosts at a distance: bytes of one arrive at the other half of this time
    /// later, the packets of TCP's own handshake included. `None`, with the reason printed, where
    /// this machine has no namespaces or no TUN devices.
    ///
    /// # Panics
    /// When there are none although TCPX_TEST_REQUIRE names `netns`.
    #[must_use]
    pub fn afar_or_skip(round_trip: Duration) -> Option<Self> {
        Self::joined_or_skip(LinkProfile { delay: round_trip / 2, bytes_per_second: None })
    }

    /// The same where at most this number of bytes passes in a second, each way.
    ///
    /// # Panics
    /// As [`afar_or_skip`](Self::afar_or_skip).
    #[must_use]
    pub fn slow_or_skip(round_trip: Duration, bytes_per_second: u64) -> Option<Self> {
        let bytes_per_second = Some(bytes_per_second);
        Self::joined_or_skip(LinkProfile { delay: round_trip / 2, bytes_per_second })
    }

    fn joined_or_skip(profile: LinkProfile) -> Option<Self> {
        let lay = || {
            let network = Self::without_link()?;
            let ends = [(network.left(), 'l'), (network.right(), 'r')].map(|(host, side)| {
                let interface = network.interface(0, side);
                in_host(host, move || delayed_link::open_end(&interface))
            });
            let [left, right] = ends;
            delayed_link::join([left?, right?], profile)?;
            network.address_ends(0)?;
            Ok(network)
        };
        lay().map_err(|reason: String| skip("netns", &format!("no hosts afar: {reason}"))).ok()
    }

    fn without_link() -> Result<Self, String> {
        // Process ids are at most 22 bits; names of interfaces at most 15 bytes.
        let number = (std::process::id() << 8) | (NEXT.fetch_add(1, Ordering::Relaxed) & 0xff);
        let network = Self { number };
        for host in [network.left(), network.right()] {
            ip(&["netns", "add", &host])?;
            ip(&["-n", &host, "link", "set", "lo", "up"])?;
        }
        Ok(network)
    }

    /// Gives the ends of a pair addresses in a network of their own: 10.231.0.0 for the first,
    /// 10.231.2.0 for the second.
    fn address_ends(&self, pair: u8) -> Result<(), String> {
        let network = if pair == 0 { 0 } else { 1 + pair };
        for (host, side, number) in [(self.left(), 'l', 1), (self.right(), 'r', 2)] {
            let interface = self.interface(pair, side);
            let address = format!("10.231.{network}.{number}/24");
            ip(&["-n", &host, "addr", "add", &address, "dev", &interface])?;
            ip(&["-n", &host, "link", "set", &interface, "up"])?;
        }
        Ok(())
    }

    /// Has this thread, and those that it makes, be on the first host or on the second one.
    ///
    /// # Errors
    /// What the system said.
    pub fn enter(&self, side: Side) -> Result<(), String> {
        enter(&match side {
            Side::Left => self.left(),
            Side::Right => self.right(),
        })
    }

    /// Does this on the first host or on the second one, in a thread of its own. Threads and
    /// processes that are started there are there too.
    ///
    /// # Panics
    /// When the host is not there, or `work` panics.
    pub fn at<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> T {
        let host = match side {
            Side::Left => self.left(),
            Side::Right => self.right(),
        };
        in_host(host, || Ok(work())).unwrap_or_else(|reason| panic!("{side:?}: {reason}"))
    }

    /// Gives the first host further addresses, 10.231.1.1 to 10.231.1.254, which the second one
    /// reaches over the link.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn add_addresses(&self) -> Result<(), String> {
        let others = "10.231.1.0/24";
        let (near, far) = (self.interface(0, 'l'), self.interface(0, 'r'));
        ip(&["-n", &self.left(), "route", "add", "local", others, "dev", &near])?;
        ip(&["-n", &self.right(), "route", "add", others, "dev", &far])
    }

    /// The network, or `None` with the reason printed where this machine has none.
    ///
    /// # Panics
    /// When there is none although TCPX_TEST_REQUIRE names `netns`.
    #[must_use]
    pub fn lay_or_skip() -> Option<Self> {
        match Self::lay() {
            Ok(network) => Some(network),
            Err(reason) => {
                skip("netns", &format!("no network namespaces: {reason}"));
                None
            }
        }
    }

    /// The same where packets can be lost or refused, too, which needs the `nft` command.
    ///
    /// # Panics
    /// When there is none although TCPX_TEST_REQUIRE names `netns`.
    #[must_use]
    pub fn with_filters_or_skip() -> Option<Self> {
        let network = Self::lay_or_skip()?;
        match network.unblock() {
            Ok(()) => Some(network),
            Err(reason) => {
                skip("netns", &format!("no packet filters: {reason}"));
                None
            }
        }
    }

    /// Name of the first namespace, 10.231.0.1.
    #[must_use]
    pub fn left(&self) -> String {
        format!("tcpx-{}-l", self.number)
    }

    /// Name of the second namespace, 10.231.0.2.
    #[must_use]
    pub fn right(&self) -> String {
        format!("tcpx-{}-r", self.number)
    }

    /// No name begins another one's, and those of the first pair begin with `tvl` and `tvr`.
    fn interface(&self, pair: u8, side: char) -> String {
        format!("t{}{side}{:x}", char::from(b'v' + pair), self.number)
    }

    /// Cuts or restores the link.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn set_link(&self, is_up: bool) -> Result<(), String> {
        let state = if is_up { "up" } else { "down" };
        ip(&["-n", &self.left(), "link", "set", &self.interface(0, 'l'), state])
    }

    /// Loses every packet of TCP connections to or from `port`, until [`Network::unblock`].
    ///
    /// # Errors
    /// What `nft` said.
    pub fn block(&self, port: u16) -> Result<(), String> {
        let rules = ["dport", "sport"].map(|end| format!("iifname != lo tcp {end} {port} drop"));
        [self.left(), self.right()].iter().try_for_each(|host| filter(host, &rules))
    }

    /// Cuts every TCP connection but those to or from `spared`, for packets that arrive at these
    /// hosts, until [`Network::unblock`].
    ///
    /// # Errors
    /// What `nft` said.
    pub fn cut_others(&self, spared: u16, hosts: &[Side], fate: PacketFate) -> Result<(), String> {
        let verdict = match fate {
            PacketFate::Lost => "drop",
            PacketFate::Reset => "reject with tcp reset",
        };
        // One rule for each end: in a single one, nft compares both ports at once.
        let rules = [
            format!("tcp dport {spared} accept"),
            format!("tcp sport {spared} accept"),
            format!("iifname != lo meta l4proto tcp {verdict}"),
        ];
        hosts.iter().try_for_each(|host| match host {
            Side::Left => filter(&self.left(), &rules),
            Side::Right => filter(&self.right(), &rules),
        })
    }

    /// Undoes [`Network::block`] and [`Network::cut_others`].
    ///
    /// # Errors
    /// What `nft` said.
    pub fn unblock(&self) -> Result<(), String> {
        [self.left(), self.right()].iter().try_for_each(|host| {
            // Adding what may not be there lets the deletion succeed.
            let table = "add table inet block; delete table inet block";
            ip(&["netns", "exec", host, "nft", table])
        })
    }

    /// Whether the first namespace has a connection that stands, to `port` of the second one.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn is_connected_to(&self, port: u16) -> Result<bool, String> {
        let table =
            read("ip", &["netns", "exec", &self.left(), "cat", "/proc/net/tcp", "/proc/net/tcp6"])?;
        // Columns: number, local address, remote address, state; 01 stands for established.
        let remote = format!(":{port:04X}");
        Ok(table.lines().any(|line| {
            let mut columns = line.split_whitespace().skip(2);
            columns.next().is_some_and(|it| it.ends_with(&remote)) && columns.next() == Some("01")
        }))
    }

    /// Makes the link lose packets at random in both directions: with netem where the kernel has
    /// it, else with nftables at the receiving ends.
    ///
    /// # Errors
    /// What both said.
    pub fn lose(&self, percent: u8) -> Result<(), String> {
        for (host, side) in [(self.left(), 'l'), (self.right(), 'r')] {
            let interface = self.interface(0, side);
            let loss = format!("{percent}%");
            let netem = [
                "-n", &host, "qdisc", "replace", "dev", &interface, "root", "netem", "loss", &loss,
            ];
            run("tc", &netem).or_else(|netem| {
                lose_by_filter(&host, percent).map_err(|nft| format!("{netem}; {nft}"))
            })?;
        }
        Ok(())
    }

    /// Lets at most this rate through to `right`, and loses the packets above it.
    ///
    /// # Errors
    /// What `nft` said.
    pub fn limit(&self, megabytes_per_second: u32) -> Result<(), String> {
        let over = format!("limit rate over {megabytes_per_second} mbytes/second burst 1 mbytes");
        filter(&self.right(), &[format!("{over} drop")])
    }
}

fn enter(host: &str) -> Result<(), String> {
    let space = File::open(format!("/run/netns/{host}")).map_err(|error| error.to_string())?;
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| format!("entering {host}: {error}"))
}

/// Does this on a host, in a thread of its own.
fn in_host<T: Send>(
    host: String,
    work: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    std::thread::scope(|scope| {
        let entered = scope.spawn(move || enter(&host).and_then(|()| work()));
        entered.join().map_err(|_| "the thread panicked".to_owned())?
    })
}

/// Adds rules for what arrives at a host, to be undone by [`Network::unblock`]. What a host says to
/// itself does not cross the link.
fn filter(host: &str, rules: &[String]) -> Result<(), String> {
    let mut table = "add table inet block; \
                     add chain inet block arriving { type filter hook input priority 0; }"
        .to_owned();
    for rule in rules {
        table += &format!("; add rule inet block arriving {rule}");
    }
    ip(&["netns", "exec", host, "nft", &table])
}

fn lose_by_filter(host: &str, percent: u8) -> Result<(), String> {
    let rules = format!(
        "add table inet loss; add chain inet loss arriving {{ type filter hook input priority 0; }}; \
         add rule inet loss arriving numgen random mod 100 < {percent} drop"
    );
    ip(&["netns", "exec", host, "nft", &rules])
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in [self.left(), self.right()] {
            let _ = ip(&["netns", "del", &host]);
        }
    }
}

/// Runs a program on a host.
pub(crate) fn in_namespace(network: &Network, side: Side, program: &[&str]) -> Result<(), String> {
    let host = match side {
        Side::Left => network.left(),
        Side::Right => network.right(),
    };
    ip(&[&["netns", "exec", &host], program].concat())
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    run("ip", arguments)
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    read(program, arguments).map(drop)
}

/// What a program prints.
fn read(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("running {program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!(
        "{program} {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}
