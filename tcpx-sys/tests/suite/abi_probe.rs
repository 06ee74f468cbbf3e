//! Compares every size, alignment and offset of the v7 ABI with what a C compiler makes of it.

use std::collections::BTreeMap;
use std::mem::{align_of, offset_of, size_of};
use std::process::Command;

use tcpx_sys::{
    CommConfigV10, LoadMeta, Logger, NcclNetV7, NcclNetV8, NcclNetV9, NcclNetV10, NcclResult,
    NetDeviceHandle, NetProperties, NetPropertiesV8, NetPropertiesV9, NetUnpackMeta, ProfilerFn,
    UNPACK_QUEUE_DEPTH, UnpackNetDeviceHandle, VirtualDevice,
};

use crate::fixture;

/// (size, align) of a type or (offset, size) of a member, by the name that the C text prints.
type Layout = BTreeMap<String, (usize, usize)>;

const fn size_of_member<S, M>(_: fn(&S) -> &M) -> usize {
    size_of::<M>()
}

macro_rules! layout {
    ($into:ident, $name:literal, $type:ty, { $($field:ident $member:literal),* $(,)? }) => {
        $into.insert($name.to_string(), (size_of::<$type>(), align_of::<$type>()));
        $($into.insert(
            concat!($name, ".", $member).to_string(),
            (offset_of!($type, $field), size_of_member(|s: &$type| &s.$field)),
        );)*
    };
}

fn rust_layout() -> Layout {
    let mut layout = Layout::new();
    layout!(layout, "result", NcclResult, {});
    layout!(layout, "logger", Option<Logger>, {});
    layout!(layout, "table", NcclNetV7, {
        name "name", init "init", devices "devices", get_properties "getProperties",
        listen "listen", connect "connect", accept "accept", reg_mr "regMr",
        reg_mr_dma_buf "regMrDmaBuf", dereg_mr "deregMr", isend "isend", irecv "irecv",
        iflush "iflush", test "test", close_send "closeSend", close_recv "closeRecv",
        close_listen "closeListen", get_device_mr "getDeviceMr", irecv_consumed "irecvConsumed",
    });
    layout!(layout, "properties", NetProperties, {
        name "name", pci_path "pciPath", guid "guid", ptr_support "ptrSupport", speed "speed",
        port "port", latency "latency", max_comms "maxComms", max_recvs "maxRecvs",
        net_device_type "netDeviceType", net_device_version "netDeviceVersion",
    });
    layout!(layout, "handle", NetDeviceHandle, {
        net_device_type "netDeviceType", net_device_version "netDeviceVersion", handle "handle",
        size "size", needs_proxy_progress "needsProxyProgress",
    });
    layout!(layout, "entry", LoadMeta, { src_off "src_off", len "len", dst_off "dst_off" });
    layout!(layout, "queue", NetUnpackMeta, { mem "mem", cnt "cnt" });
    layout.insert(
        "queue.mem[0]".to_string(),
        (0, size_of_member(|q: &NetUnpackMeta| &q.mem) / UNPACK_QUEUE_DEPTH),
    );
    layout!(layout, "unpack", UnpackNetDeviceHandle, {
        meta "meta", bounce_buf "bounce_buf", head "head",
    });
    later_layout(&mut layout);
    layout
}

/// Adds the layouts of the tables from v8 to v10.
fn later_layout(layout: &mut Layout) {
    macro_rules! later_table {
        ($name:literal, $type:ty $(, $field:ident $member:literal)*) => {
            layout!(layout, $name, $type, {
                name "name", init "init", devices "devices", get_properties "getProperties",
                listen "listen", connect "connect", accept "accept", reg_mr "regMr",
                reg_mr_dma_buf "regMrDmaBuf", dereg_mr "deregMr", isend "isend", irecv "irecv",
                iflush "iflush", test "test", close_send "closeSend", close_recv "closeRecv",
                close_listen "closeListen", get_device_mr "getDeviceMr",
                irecv_consumed "irecvConsumed" $(, $field $member)*
            });
        };
    }
    later_table!("table8", NcclNetV8);
    later_table!("table9", NcclNetV9, make_virtual_device "makeVDevice");
    later_table!("table10", NcclNetV10, make_virtual_device "makeVDevice");
    macro_rules! grown {
        ($name:literal, $type:ty $(, $field:ident $member:literal)*) => {
            layout!(layout, $name, $type, {
                name "name", pci_path "pciPath", guid "guid", ptr_support "ptrSupport",
                reg_is_global "regIsGlobal", speed "speed", port "port", latency "latency",
                max_comms "maxComms", max_recvs "maxRecvs", net_device_type "netDeviceType",
                net_device_version "netDeviceVersion" $(, $field $member)*
            });
        };
    }
    grown!("properties8", NetPropertiesV8);
    grown!(
        "properties9", NetPropertiesV9, force_flush "forceFlush", virtual_device "vProps",
        max_p2p_bytes "maxP2pBytes", max_coll_bytes "maxCollBytes"
    );
    layout!(layout, "virtual", VirtualDevice, { devices "devs" });
    layout!(layout, "config", CommConfigV10, {});
    layout!(layout, "profiler", Option<ProfilerFn>, {});
}

fn c_layout() -> Layout {
    let folder = tempfile::tempdir().expect("folder");
    let probe = fixture::compile(folder.path(), "probe", include_str!("abi_probe.c"), &[]);
    let printed = fixture::run(&mut Command::new(probe));
    let number = |word: Option<&str>| word.expect("a number").parse().expect("a number");
    printed
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().expect("a name").to_string();
            (name, (number(words.next()), number(words.next())))
        })
        .collect()
}

#[test]
fn rust_and_c_agree_on_every_size_and_offset() {
    let (rust, c) = (rust_layout(), c_layout());
    assert_eq!(
        c.len(),
        52 + 20 + 21 + 21 + 13 + 17 + 2 + 1 + 1,
        "the C text prints every type and member"
    );
    assert_eq!(rust, c);
}

#[test]
fn the_sizes_are_those_of_the_original() {
    let c = c_layout();
    let sizes = [("table", 152, 8), ("properties", 56, 8), ("handle", 32, 8), ("entry", 16, 16)];
    for (name, size, align) in sizes {
        assert_eq!(c[name], (size, align), "{name}");
    }
    assert_eq!(c["queue"], (524_416, 16));
    assert_eq!(c["queue.cnt"], (524_288, 128));
    assert_eq!(c["unpack"], (24, 8));
}
