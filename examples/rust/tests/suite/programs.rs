//! Tests of the examples: they run as their README says, and say what goes wrong.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use tcpx_testkit::PATIENCE;
use tcpx_testkit::process::{Owned, finish, printed};

const ASYNC_TOKIO: &str = env!("CARGO_BIN_EXE_async_tokio");
const HELLO: &str = env!("CARGO_BIN_EXE_hello");
const KV_PULL: &str = env!("CARGO_BIN_EXE_kv_pull");

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a program as a server and a client, which both succeed. Returns the output of each, for the
/// server without its port.
fn run(program: &str) -> (String, String) {
    let (server, mut clients) = run_with(program, &[], &[&[]]);
    (server, clients.remove(0))
}

/// Runs a program as a server and as one client for each list of arguments.
fn run_with(program: &str, server: &[&str], clients: &[&[&str]]) -> (String, Vec<String>) {
    let mut server = Owned::start(&mut command(program, &[&["server"], server].concat()));
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("port ").expect("the server's port");

    let clients: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = clients
            .iter()
            .map(|arguments| {
                let arguments = [&["client", "127.0.0.1", port], *arguments].concat();
                scope.spawn(move || finish(&mut command(program, &arguments), PATIENCE))
            })
            .collect();
        let ended = running.into_iter().map(|client| client.join().expect("no panic"));
        ended
            .map(|client| {
                assert!(client.status.success(), "{}", printed(&client));
                printed(&client)
            })
            .collect()
    });

    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    let status = server.wait_for(PATIENCE).expect("an end of the server");
    assert!(status.success(), "{rest}");
    (rest, clients)
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
fn tasks_of_one_thread_serve_several_peers() {
    let (server, clients) = run_with(ASYNC_TOKIO, &["3"], &[&["red"], &["green"], &["blue"]]);
    assert_eq!(server, "8 messages from each of 3 peers\nPASSED\n");
    assert!(clients.iter().all(|client| client.ends_with("sent\nPASSED\n")), "{clients:?}");
}

#[test]
fn wrong_arguments_and_refused_connections_are_errors() {
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
