//! Sockets: a system call first, the ring only when that would block.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, RawFd};
use std::pin::Pin;
use std::task::Poll;

use bytes::{Buf, Bytes, BytesMut};
use futures_io::{AsyncRead, AsyncWrite};
use socket2::{Domain, Protocol, Socket, Type};

use crate::buffers::BufferPool;
use crate::guard::active;
use crate::limits::{LISTEN_BACKLOG, SEND_SLICES_MAX};
use crate::peer_close;

/// How a port is bound.
#[derive(Debug, Clone, Copy)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted.
    pub backlog: i32,
    /// Whether other sockets of the same user may share the port (`SO_REUSEPORT`).
    pub reuse_port: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions { backlog: LISTEN_BACKLOG, reuse_port: false }
    }
}

/// A listening socket that belongs to no shard yet.
#[derive(Debug)]
pub struct BoundListener {
    socket: Socket,
    local: SocketAddr,
}

impl BoundListener {
    /// Binds and listens; port 0 lets the kernel choose.
    pub fn bind(address: SocketAddr, options: ListenOptions) -> io::Result<BoundListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // So that a restart need not wait for the last connections' TIME_WAIT.
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(options.reuse_port)?;
        socket.bind(&address.into())?;
        socket.listen(options.backlog)?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("not an IP socket"))?;
        Ok(BoundListener { socket, local })
    }

    /// The address, with the port that the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Hands the socket to the shard of this thread.
    pub fn into_listener(self) -> TcpListener {
        // SAFETY: the descriptor is given away by its only owner.
        TcpListener(unsafe { glommio::net::TcpListener::from_raw_fd(self.socket.into_raw_fd()) })
    }
}

/// A listening socket of this shard.
pub struct TcpListener(glommio::net::TcpListener);

impl TcpListener {
    /// The next connection and its peer's address.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let stream = self.0.accept().await.map_err(io::Error::from)?;
        active();
        stream.set_nodelay(true).map_err(io::Error::from)?;
        let peer = stream.peer_addr().map_err(io::Error::from)?;
        Ok((TcpStream::new(stream), peer))
    }
}

/// A connection of this shard. Closed when dropped.
pub struct TcpStream {
    socket: RawFd,
    stream: RefCell<glommio::net::TcpStream>,
}

impl TcpStream {
    fn new(stream: glommio::net::TcpStream) -> TcpStream {
        TcpStream { socket: stream.as_raw_fd(), stream: RefCell::new(stream) }
    }

    /// Connects.
    pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
        let stream = glommio::net::TcpStream::connect(address).await.map_err(io::Error::from)?;
        stream.set_nodelay(true).map_err(io::Error::from)?;
        Ok(TcpStream::new(stream))
    }

    /// The address that the peer reached.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.borrow().local_addr().map_err(io::Error::from)
    }

    /// What has arrived, as soon as that is anything; `None` when the peer has closed. No buffer is held
    /// while it waits, and nothing is lost when the future is dropped.
    pub async fn recv(&self, pool: &BufferPool) -> io::Result<Option<BytesMut>> {
        std::future::poll_fn(|cx| {
            loop {
                match pool.read(self.socket) {
                    Ok(bytes) => {
                        active();
                        return Poll::Ready(Ok((!bytes.is_empty()).then_some(bytes)));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Poll::Ready(Err(error)),
                }
                // An empty read is a pure wait for readiness.
                match Pin::new(&mut *self.stream.borrow_mut()).poll_read(cx, &mut []) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Sends all of it, in as few system calls as it takes. When the future is dropped an unknown part
    /// has been sent.
    pub async fn send(&self, segments: Vec<Bytes>) -> io::Result<()> {
        let mut left: std::collections::VecDeque<Bytes> = segments.into_iter().filter(|s| !s.is_empty()).collect();
        std::future::poll_fn(|cx| {
            while !left.is_empty() {
                match send_some(self.socket, &left) {
                    Ok(sent) => {
                        active();
                        consume(&mut left, sent);
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Poll::Ready(Err(error)),
                }
                let Some(first) = left.front() else { break };
                match Pin::new(&mut *self.stream.borrow_mut()).poll_write(cx, first) {
                    Poll::Ready(Ok(sent)) => consume(&mut left, sent),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Waits until the peer has closed, also behind bytes that nobody has read.
    pub async fn closed_by_peer(&self) {
        peer_close::closed(self.socket).await;
    }
}

fn send_some(socket: RawFd, segments: &std::collections::VecDeque<Bytes>) -> io::Result<usize> {
    let mut slices = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; SEND_SLICES_MAX];
    let mut count = 0;
    for (slice, segment) in slices.iter_mut().zip(segments) {
        *slice = libc::iovec { iov_base: segment.as_ptr().cast_mut().cast(), iov_len: segment.len() };
        count += 1;
    }
    // SAFETY: `msghdr` is plain old data for which all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = slices.as_mut_ptr();
    message.msg_iovlen = count;
    // SAFETY: the first `count` slices point at the segments, which are borrowed for the whole call and
    // which the kernel only reads.
    let sent = unsafe { libc::sendmsg(socket, &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

fn consume(left: &mut std::collections::VecDeque<Bytes>, mut sent: usize) {
    while let Some(first) = left.front_mut() {
        if sent < first.len() {
            first.advance(sent);
            return;
        }
        sent -= first.len();
        left.pop_front();
    }
}
