//! The example runs as its README says, and tells what goes wrong.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

fn hello(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hello"));
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

#[test]
fn a_message_goes_from_one_process_to_the_other() {
    let mut server = Server(hello(&["server"]).spawn().unwrap());
    let mut output = BufReader::new(server.0.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("port ").expect("the server's port");

    let client = hello(&["client", "127.0.0.1", port]).output().unwrap();
    assert!(client.status.success(), "{}", text(&client));
    assert!(text(&client).ends_with("sent\nPASSED\n"), "{}", text(&client));

    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "received: Hello from TCPX client!\nPASSED\n");
    assert!(server.0.wait().unwrap().success());
}

#[test]
fn what_goes_wrong_is_told() {
    let nobody = hello(&["client", "127.0.0.1", "1"]).output().unwrap();
    assert!(!nobody.status.success());
    assert!(text(&nobody).contains("refused"), "{}", text(&nobody));
    let unknown = hello(&["serve"]).output().unwrap();
    assert!(!unknown.status.success());
    assert!(text(&unknown).contains("usage: hello server"), "{}", text(&unknown));
}
