//! Tests of the examples: they run as their README says, and say what goes wrong.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use tcpx_testkit::PATIENCE;
use tcpx_testkit::process::{Owned, finish, printed};

const HELLO: &str = env!("CARGO_BIN_EXE_hello");
const KV_PULL: &str = env!("CARGO_BIN_EXE_kv_pull");

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a program as a server and a client, which both succeed. Returns what each says; of the
/// server what comes after its port.
fn run(program: &str) -> (String, String) {
    let mut server = Owned::start(&mut command(program, &["server"]));
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("port ").expect("the server's port");

    let client = finish(&mut command(program, &["client", "127.0.0.1", port]), PATIENCE);
    assert!(client.status.success(), "{}", printed(&client));

    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    let status = server.wait_for(PATIENCE).expect("an end of the server");
    assert!(status.success(), "{rest}");
    (rest, printed(&client))
}

#[test]
fn a_message_goes_from_one_process_to_the_other() {
    let (server, client) = run(HELLO);
    assert!(client.ends_with("sent\nPASSED\n"), "{client}");
    assert_eq!(server, "received: Hello from TCPX client!\nPASSED\n");
}

#[test]
fn a_cache_is_read_and_written_while_its_owner_sleeps() {
    let (server, client) = run(KV_PULL);
    assert!(client.starts_with("Read: 10000 blocks of 4096 bytes in "), "{client}");
    assert!(client.contains("\nWrite: 3334 blocks of 4096 bytes in "), "{client}");
    assert!(client.ends_with("\nPASSED\n"), "{client}");
    assert_eq!(server, "every third of 10000 blocks was changed\nPASSED\n");
}

#[test]
fn what_goes_wrong_is_told() {
    for (name, program) in [("hello", HELLO), ("kv_pull", KV_PULL)] {
        for (words, expected) in [
            (&["client", "127.0.0.1", "1"][..], "refused"),
            (&["serve"], &format!("usage: {name} server")),
        ] {
            let failed = finish(&mut command(program, words), PATIENCE);
            let text = printed(&failed);
            assert!(!failed.status.success() && text.contains(expected), "{text}");
        }
    }
}
