//! The stream of bytes under a connection.

use std::io;

use bytes::{Bytes, BytesMut};
use ringgate_runtime::{BufferPool, TcpStream};

use super::CallError;
use super::tls::Tls;

/// TCP, or TLS over it. One task may receive while another one sends.
pub(super) enum Transport {
    /// As it is.
    Plain(TcpStream),
    /// Under TLS. Its session is large, and most connections have none.
    Tls(Box<Tls>),
}

impl Transport {
    /// What has arrived; `None` when the peer has closed.
    pub(super) async fn recv(&self, pool: &BufferPool) -> io::Result<Option<BytesMut>> {
        match self {
            Transport::Plain(stream) => stream.recv(pool).await,
            Transport::Tls(tls) => tls.recv(pool).await,
        }
    }

    /// Sends all of it.
    pub(super) async fn send(&self, segments: Vec<Bytes>) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.send(segments).await,
            Transport::Tls(tls) => tls.send(segments).await,
        }
    }

    /// Makes closing reset the connection.
    pub(super) fn abort_on_close(&self) {
        match self {
            // Fails when the connection is gone already.
            Transport::Plain(stream) => drop(stream.abort_on_close()),
            Transport::Tls(tls) => tls.abort_on_close(),
        }
    }
}

/// An error of a connection that was made: the peer has gone, whatever the kernel calls it.
pub(super) fn lost(_: io::Error) -> CallError {
    CallError::Disconnected
}
