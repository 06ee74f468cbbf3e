//! Bytes between two comms over several sockets: every size and mix of memory, and a full window.

use tcpx_testkit::in_own_process;

use crate::support::exchange::{SIZES, exchange};
use crate::support::{self, KINDS, Net};

fn net() -> Net {
    support::net(|settings| settings.sockets = 3)
}

#[test]
fn all_sizes_in_every_mix_of_memory() {
    in_own_process!();
    for from in KINDS {
        for to in KINDS {
            exchange(net().pair(), (from, to), &SIZES, 1);
        }
    }
}

#[test]
fn sixteen_outstanding_of_mixed_sizes() {
    in_own_process!();
    let sizes: Vec<_> = (0..200).map(|k| SIZES[k * 7 % 9] + k % 3).collect();
    for kind in KINDS {
        exchange(net().pair(), (kind, kind), &sizes, 16);
    }
}
