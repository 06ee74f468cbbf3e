//! A process has one software plugin. Its first session chooses the transport; no later one gets
//! silently another than it asks for. This process begins with plain sockets; one that begins with
//! device memory needs a NIC that can, as in tcpx-tests/doubles/devmem-vm.sh.

use tcpx_core::{Error, PluginChoice, Session, SessionOptions, SettingProblem};
use tcpx_testkit::{CapturedLog, in_own_process};
use tcpx_tests::has_gpu;

fn session(plugin: PluginChoice, gpu: Option<u32>) -> Result<Session, Error> {
    Session::new(SessionOptions::default().progress_thread(false).plugin(plugin).gpu(gpu))
}

#[test]
fn a_later_session_has_the_transport_of_the_first_or_an_error() {
    in_own_process!();
    let _first = session(PluginChoice::Soft, None).expect("plain sockets are always there");
    let refused = session(PluginChoice::Devmem, None).expect_err("it asks for device memory");
    let expected =
        SettingProblem::OtherTransport { wanted: "device memory", opened: "plain sockets" };
    assert!(
        matches!(&refused, Error::Setting { problem, .. } if *problem == expected),
        "{refused:?}"
    );
    assert!(refused.to_string().starts_with("plugin = devmem: "), "{refused}");
    assert_eq!(refused.id().map(|id| id.number()), Some(230));
    // Memory of the host goes by plain sockets in any case, so nothing is said.
    let said = log_of_auto(None);
    assert!(!said.contains("TCPX-230"), "{said}");
    session(PluginChoice::Soft, None).expect("it has what it asks for");
    if has_gpu() {
        let said = log_of_auto(Some(0));
        let line = "takes plain sockets, which this process's first session has chosen [TCPX-230]";
        assert!(said.contains(line), "{said}");
        session(PluginChoice::Soft, Some(0)).expect("it has what it asks for");
        session(PluginChoice::Devmem, Some(0)).expect_err("it asks for device memory");
    }
}

/// What a session with `plugin = auto` logs when it is made.
fn log_of_auto(gpu: Option<u32>) -> String {
    let (log, _guard) = CapturedLog::begin();
    session(PluginChoice::Auto, gpu).expect("it takes what there is");
    log.text()
}
