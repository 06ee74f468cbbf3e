//! C programs over a plugin that is as fatal as the original and has its name, and over GPU memory
//! that the CPU must not touch.

use crate::program::Program;
use crate::toolchain::{GCC, Linkage, Workshop, built, has_gpu, root, source};

/// Timeout of the original's accept, set by a variable; the default is 5 s.
const STEERING_WAIT: (&str, &str) =
    ("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", "100000");

/// Calls `run` with the variables of the plugin, and these besides.
fn over_the_original(besides: &[(&str, &str)], run: impl Fn(&[(&str, &str)])) {
    let plugin = built("libnccl_net_tcpx_original.so");
    let plugin = ("TCPX_PLUGIN", plugin.to_str().unwrap());
    run(&[&[plugin, ("TCPX_PREFLIGHT", "0"), STEERING_WAIT], besides].concat());
}

#[test]
fn a_c_program_survives_a_peer_that_ends_in_mid_transfer() {
    if !has_gpu() || !GCC.is_here() {
        return;
    }
    let workshop = Workshop::new();
    let program = workshop.build(GCC, Linkage::Shared, &source("c/sigpipe.c"), &[]);
    // Writes to several sockets, so that the signal comes in most runs.
    let sockets = [("TCPX_CHANNELS", "2"), ("NCCL_NSOCKS_PERTHREAD", "4")];
    for unpack in ["host", "d2d", "kernel"] {
        let gpu = [("TCPX_GPU", "0"), ("TCPX_UNPACK", unpack)];
        over_the_original(&[sockets, gpu].concat(), |variables| {
            Program::start_with(&program, &[] as &[&str], variables).pass();
        });
    }
}

/// The examples have ordinary memory, which the original cannot move: they say so and end.
fn refused(example: &str, server: &[&str], client: &[&str]) {
    let workshop = Workshop::new();
    let path = root().join("examples/c").join(example);
    let program = workshop.build(GCC, Linkage::Shared, &path, &[]);
    // An empty variable is one that is not set. With a GPU, one end may hear of the other's end.
    for (gpu, id) in [("", "[TCPX-229]"), ("0", "[TCPX-")] {
        over_the_original(&[("TCPX_GPU", gpu)], |variables| {
            let arguments = [&["server"], server].concat();
            let (serving, port) = Program::serve_with(&program, &arguments, variables);
            let arguments = [&["client", "127.0.0.1", &port], client].concat();
            let client = Program::start_with(&program, &arguments, variables);
            let errors = serving.fail();
            assert!(errors.contains(id), "{example}: {errors}");
            // The client's bootstrap may end with the server, and the client reports no more than
            // that.
            let errors = client.fail();
            let says = |words: &&str| errors.contains(words);
            assert!([id, "not true: "].iter().any(says), "{example}: {errors}");
        });
    }
}

#[test]
fn examples_without_gpu_memory_are_refused() {
    if !has_gpu() || !GCC.is_here() {
        return;
    }
    refused("hello.c", &[], &[]);
    refused("kv_blocks.c", &[], &[]);
    refused("kv_pull.c", &[], &[]);
    refused("poll_peers.c", &["1"], &["red"]);
}
