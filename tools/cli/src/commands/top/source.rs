//! Source of a page of metrics: a file, or an address that answers HTTP.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::failure::Failure;

/// Time in which an address has to take the connection, and again for each part of its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of a page.
const MOST_BYTES: u64 = 64 << 20;

/// Place of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    File(PathBuf),
    Http {
        /// Host and port.
        authority: String,
        path: String,
    },
}

/// Page, and when its numbers were those of the process.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) at: SystemTime,
    pub(super) page: String,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(address) = text.strip_prefix("http://") else {
            return match text.contains("://") || text.is_empty() {
                true => Err("it is a file, or http://HOST:PORT/PATH".to_owned()),
                false => Ok(Self::File(text.into())),
            };
        };
        let (authority, path) = address.split_once('/').unwrap_or((address, "metrics"));
        let has_port = authority.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if !has_port || text.contains(|letter: char| letter.is_control() || letter == ' ') {
            return Err("an address is http://HOST:PORT/PATH".to_owned());
        }
        Ok(Self::Http { authority: authority.to_owned(), path: format!("/{path}") })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Http { authority, path } => write!(f, "http://{authority}{path}"),
        }
    }
}

impl Source {
    /// Reads the page as it is now.
    pub(super) fn read(&self) -> Result<Reading, Failure> {
        let failed = |error| Failure::io(format!("reading {self}"))(error);
        match self {
            Self::File(path) => {
                let file = std::fs::File::open(path).map_err(failed)?;
                // A file that is replaced as a whole keeps the time of its writing.
                let at = file.metadata().and_then(|it| it.modified()).map_err(failed)?;
                let mut page = String::new();
                file.take(MOST_BYTES).read_to_string(&mut page).map_err(failed)?;
                Ok(Reading { at, page })
            }
            Self::Http { authority, path } => {
                let answer = ask(authority, path).map_err(failed)?;
                let page = body(&answer).map_err(|why| {
                    Failure::Usage(format!("{self}: {why}; name the address of a page of metrics"))
                })?;
                Ok(Reading { at: SystemTime::now(), page })
            }
        }
    }
}

/// Asks for a path. Returns the whole answer.
fn ask(authority: &str, path: &str) -> std::io::Result<String> {
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in authority.to_socket_addrs()? {
        let mut socket = match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(socket) => socket,
            Err(error) => {
                last = error;
                continue;
            }
        };
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        // Answers of HTTP 1.0 end with their connection, and come in one piece.
        let request = format!("GET {path} HTTP/1.0\r\nHost: {authority}\r\n\r\n");
        socket.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        socket.take(MOST_BYTES).read_to_end(&mut answer)?;
        return Ok(String::from_utf8_lossy(&answer).into_owned());
    }
    Err(last)
}

/// Returns the body of an answer. Fails with what the answer is instead.
fn body(answer: &str) -> Result<String, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer of HTTP comes from there")?;
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(format!("the answer is \"{}\"", status.escape_debug())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_file_or_an_address_with_its_port() {
        let http = |authority: &str, path: &str| Source::Http {
            authority: authority.to_owned(),
            path: path.to_owned(),
        };
        assert_eq!("/run/x.prom".parse(), Ok(Source::File("/run/x.prom".into())));
        assert_eq!("http://[::1]:9100".parse(), Ok(http("[::1]:9100", "/metrics")));
        assert_eq!("http://a:1/b/c".parse(), Ok(http("a:1", "/b/c")));
        for wrong in ["", "https://a:1/", "http://a/", "http://:1/", "http://a:1/\r\nX: y"] {
            assert!(wrong.parse::<Source>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn only_a_page_that_was_found_is_one() {
        assert_eq!(body("HTTP/1.1 200 OK\r\nA: b\r\n\r\nx 1\n"), Ok("x 1\n".to_owned()));
        assert!(body("HTTP/1.0 404 Not Found\r\n\r\n").unwrap_err().contains("404"));
        assert!(body("SSH-2.0\r\n").is_err());
    }
}
