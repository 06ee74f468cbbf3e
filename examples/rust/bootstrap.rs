//! By this the two programs of an example find each other, as those in C and C++ do: one TCP
//! connection that carries blobs with their length in front.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Sends bytes with their length in front.
pub(crate) fn send_blob(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(bytes)
}

/// Receives what `send_blob` sent.
pub(crate) fn receive_blob(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > 4096 {
        return Err(io::Error::other(format!("{length} bytes are no connection info or key")));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
