//! Sessions of the GPU tests: both ends in one process.

use std::thread;
use std::time::Duration;

use tcpx_core::{PluginChoice, Session, SessionOptions, UnpackChoice};

/// Longest wait for anything that should end.
pub(crate) const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

/// On this GPU, or with emulated device memory.
pub(crate) fn session(gpu: Option<u32>, unpack: UnpackChoice) -> Session {
    let options = SessionOptions::default()
        .plugin(PluginChoice::Soft)
        .gpu(gpu)
        .unpack(unpack)
        .close_timeout(Duration::from_secs(5));
    Session::new(options).expect("a session opens")
}

/// Lets `left` connect to `right`.
pub(crate) fn connect(left: &Session, right: &Session) {
    connect_as("left", left, right);
}

/// Lets `left` connect to `right`, which accepts it under this name.
pub(crate) fn connect_as(name: &str, left: &Session, right: &Session) {
    let conn_info = right.listen().expect("listen");
    thread::scope(|scope| {
        let accepted = scope.spawn(|| right.accept(name));
        left.load_remote_conn_info("right", &conn_info).expect("own bytes load");
        left.connect("right").expect("left connects");
        accepted.join().expect("no panic").expect("right accepts");
    });
}
