//! Runs checks against the broken plugin.

use std::path::PathBuf;
use std::time::Duration;

use tcpx_conformance::{Options, Report, Target, child_main, run};

/// What the agents run: this program with this one test.
#[test]
fn agent() {
    child_main(None);
}

/// The library that Cargo built next to this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let folder = test.parent().expect("the folder of test binaries");
    let file = "libnccl_net_tcpx_broken.so";
    let places = [folder.join(file), folder.with_file_name(file)];
    places.into_iter().find(|place| place.is_file()).expect("the library is built with its tests")
}

/// Runs the checks `only` with the rule of `mode` broken.
pub(crate) fn run_broken(mode: &str, only: &[&str]) -> Report {
    let mut options = Options::new(Target::Path(library()));
    options.arguments = ["broken::agent", "--exact", "--nocapture"].map(Into::into).to_vec();
    options.only = only.iter().map(ToString::to_string).collect();
    // Only a plugin that hangs uses it up.
    options.deadline = Duration::from_secs(if mode == "hang" { 20 } else { 60 });
    options.environment = [
        ("TCPX_BROKEN", mode),
        ("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "lo"),
        // Recycled pages are overwritten, and there are few of them.
        ("TCPX_SOFT_POISON", "1"),
        ("TCPX_SOFT_POOL_BYTES", "33554432"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec();
    run(&options, &mut |_| {}).expect("sensible options")
}
