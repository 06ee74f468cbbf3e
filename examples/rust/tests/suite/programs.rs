//! The examples run as their README says, and tell what goes wrong.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

const HELLO: &str = env!("CARGO_BIN_EXE_hello");
const KV_PULL: &str = env!("CARGO_BIN_EXE_kv_pull");

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// Ends a server that waits for a client, when the client has failed.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program as a server and a client, which both succeed. Returns what each says; of the
/// server what comes after its port.
fn run(program: &str) -> (String, String) {
    let mut server = Server(command(program, &["server"]).spawn().unwrap());
    let mut output = BufReader::new(server.0.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("port ").expect("the server's port");

    let client = command(program, &["client", "127.0.0.1", port]).output().unwrap();
    assert!(client.status.success(), "{}", text(&client));

    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(server.0.wait().unwrap().success(), "{rest}");
    (rest, text(&client))
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
        let nobody = command(program, &["client", "127.0.0.1", "1"]).output().unwrap();
        assert!(!nobody.status.success());
        assert!(text(&nobody).contains("refused"), "{}", text(&nobody));
        let unknown = command(program, &["serve"]).output().unwrap();
        assert!(!unknown.status.success());
        let usage = format!("usage: {name} server");
        assert!(text(&unknown).contains(&usage), "{}", text(&unknown));
    }
}
