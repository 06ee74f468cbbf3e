//! Bytes between two comms over several sockets: every size and mix of memory, and a full window.

mod support;

use support::exchange::{SIZES, exchange};
use support::{KINDS, Net, settings};

fn net() -> Net {
    support::net(|| {
        let mut settings = settings();
        settings.sockets = 3;
        settings
    })
}

#[test]
fn all_sizes_in_every_mix_of_memory() {
    for from in KINDS {
        for to in KINDS {
            exchange(net().pair(), (from, to), &SIZES, 1);
        }
    }
}

#[test]
fn sixteen_outstanding_of_mixed_sizes() {
    let sizes: Vec<_> = (0..200).map(|k| SIZES[k * 7 % 9] + k % 3).collect();
    for kind in KINDS {
        exchange(net().pair(), (kind, kind), &sizes, 16);
    }
}
