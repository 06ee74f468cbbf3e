//! Channels of peers whose link is encrypted: both ends ask the plugin to encrypt each of them.
//! What the plugin then does is tested beside it.

use tcpx_testkit::PATIENCE;
use tcpx_tests::Agent;
use tcpx_tests::script::{Command, Options};

use crate::peers_to_run;

/// Returns two sessions with this setting. A call of the first session's plugin fails.
fn sessions(encryption: &str, faults: &str) -> [Agent; 2] {
    [faults, ""].map(|faults| {
        let mut agent = peers_to_run::agent_with(&[("TCPX_SOFT_FAULTS", faults)]);
        agent.run(Command::New(Options {
            channels: Some(2),
            progress_thread: true,
            encryption: Some(encryption.to_owned()),
            connect_channels: true,
            ..Options::default()
        }));
        agent
    })
}

/// Connects the first session to the second, and returns whether their channels could be made.
fn connects([left, right]: &mut [Agent; 2]) -> bool {
    let conn_info: Vec<u8> = right.get(Command::Listen);
    left.run(Command::Load { peer: "right".into(), conn_info });
    right.send_command(Command::Accept { peer: "left".into() });
    let is_connected = left.ask(Command::Connect { peer: "right".into() }).is_ok();
    let accepted = right.receive_reply(PATIENCE);
    assert_eq!(accepted.is_ok(), is_connected, "both ends say the same");
    is_connected
}

#[test]
fn every_channel_is_encrypted_at_both_ends() {
    for call in ["encryptListen", "connectEncrypted"] {
        // Each channel by itself: neither is in clear.
        for number in [1, 2] {
            let faults = format!("rc:{call}@{number}=3");
            assert!(!connects(&mut sessions("require", &faults)), "{faults}");
            assert!(connects(&mut sessions("off", &faults)), "{faults} is not called");
        }
    }
    assert!(!connects(&mut sessions("off", "rc:connect@1=3")), "the other way");
    assert!(connects(&mut sessions("require", "rc:connect@1=3")), "the other way");
}
