//! Sockets: a system call first, the ring only when that would block.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_io::{AsyncRead, AsyncWrite};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::buffers::{BufferPool, receive};
use crate::limits::{
    ACCEPT_TURN, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBES, LISTEN_BACKLOG, SEND_BYTES_MAX, SEND_SLICES_MAX,
    SEND_TURN_BYTES,
};
use crate::peer_close::Watch;
use crate::wake::active;

/// How a port is bound.
#[derive(Debug, Clone, Copy)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted.
    pub backlog: i32,
    /// Whether other sockets of the same user may share the port (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Of sockets that share a port: connections whose first packet came in on this CPU are this one's
    /// (`SO_INCOMING_CPU`). Linux before 6.2 spreads them by a hash nevertheless.
    pub incoming_cpu: Option<usize>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions { backlog: LISTEN_BACKLOG, reuse_port: false, incoming_cpu: None }
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
    ///
    /// # Errors
    /// The kernel's: the port is taken, the address is not this host's, no permission.
    pub fn bind(address: SocketAddr, options: ListenOptions) -> io::Result<BoundListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // So that a restart need not wait for the last connections' TIME_WAIT.
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(options.reuse_port)?;
        if let Some(cpu) = options.incoming_cpu {
            socket.set_cpu_affinity(cpu)?;
        }
        // Every connection that is accepted has it from its listener (tcp(7)).
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
        socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_PROBES))?;
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
    ///
    /// # Panics
    /// On a thread that is no shard.
    pub fn into_listener(self) -> TcpListener {
        let socket = self.socket.into_raw_fd();
        // SAFETY: the descriptor is given away by its only owner.
        let listener = unsafe { glommio::net::TcpListener::from_raw_fd(socket) };
        TcpListener { socket, listener, local: self.local, in_a_row: Cell::new(0) }
    }
}

/// A listening socket of this shard.
pub struct TcpListener {
    /// Open for as long as `listener`.
    socket: RawFd,
    listener: glommio::net::TcpListener,
    local: SocketAddr,
    /// Connections since the task last let others run.
    in_a_row: Cell<u32>,
}

impl TcpListener {
    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The next connection and its peer's address. Connections that are gone again are passed over.
    ///
    /// When the future is dropped while it waits, a connection that comes at that moment may be lost: it
    /// stays open and nobody serves it. So it is dropped only when the process is about to end.
    ///
    /// # Errors
    /// The system has no room for a connection (descriptors, memory). The connection may still be there,
    /// so the caller waits a little before it tries again.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            if self.in_a_row.get() >= ACCEPT_TURN {
                self.in_a_row.set(0);
                crate::yield_now().await;
            }
            let stream = match self.accept_now() {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.in_a_row.set(0);
                    match self.listener.accept().await.map_err(io::Error::from) {
                        Ok(stream) => stream,
                        Err(error) if is_of_the_connection(&error) => continue,
                        Err(error) => return Err(error),
                    }
                }
                Err(error) if is_of_the_connection(&error) => continue,
                Err(error) => return Err(error),
            };
            active();
            self.in_a_row.set(self.in_a_row.get() + 1);
            // Fails when the peer has gone already.
            if let Ok(accepted) = TcpStream::accepted(stream) {
                return Ok(accepted);
            }
        }
    }

    fn accept_now(&self) -> io::Result<glommio::net::TcpStream> {
        // SAFETY: the kernel leaves out the peer's address when it is given no memory for it.
        let socket =
            unsafe { libc::accept4(self.socket, std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor has just been made by the kernel and nobody else knows it.
        Ok(unsafe { glommio::net::TcpStream::from_raw_fd(socket) })
    }
}

/// Errors of one connection, not of the listener: the next one may be fine (accept(2), "Error handling").
fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNABORTED
                | libc::EINTR
                | libc::EPROTO
                | libc::EPERM
                | libc::ENETDOWN
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENETUNREACH
        )
    )
}

/// A connection of this shard. Closed when dropped: what was sent still arrives.
///
/// One task may receive while another one sends; each direction is used by one task at a time.
pub struct TcpStream {
    /// Open for as long as `stream`.
    socket: RawFd,
    /// From the first wait for the peer to close. Before `stream`, so that it is dropped first.
    watch: OnceCell<Watch>,
    stream: RefCell<glommio::net::TcpStream>,
    /// The last read took all there was: to ask for readiness first saves a system call.
    drained: Cell<bool>,
    /// Closing resets the connection.
    aborted: Cell<bool>,
}

impl TcpStream {
    fn new(stream: glommio::net::TcpStream) -> TcpStream {
        TcpStream {
            socket: stream.as_raw_fd(),
            watch: OnceCell::new(),
            stream: RefCell::new(stream),
            drained: Cell::new(false),
            aborted: Cell::new(false),
        }
    }

    /// A connection that was accepted, and its peer's address.
    fn accepted(stream: glommio::net::TcpStream) -> io::Result<(TcpStream, SocketAddr)> {
        let stream = TcpStream::new(stream);
        stream.settings(|socket| socket.set_tcp_nodelay(true).and_then(|()| socket.set_cloexec(true)))?;
        let peer = stream.peer_addr()?;
        Ok((stream, peer))
    }

    /// Connects.
    ///
    /// # Errors
    /// The kernel's: nobody listens there, the peer cannot be reached.
    pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
        let stream = glommio::net::TcpStream::connect(address).await.map_err(io::Error::from)?;
        stream.set_nodelay(true).map_err(io::Error::from)?;
        Ok(TcpStream::new(stream))
    }

    /// As [`connect`](TcpStream::connect), from a local address of the caller's choice: each has ports of its own, some
    /// 28,000 to 64,000 towards the same peer.
    ///
    /// # Errors
    /// As there, and the address is not this host's or of another family than the peer's.
    pub async fn connect_from(source: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        choose_port_when_connecting(&socket);
        socket.bind(&SocketAddr::new(source, 0).into())?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        // SAFETY: the descriptor is given away by its only owner.
        let mut stream = unsafe { glommio::net::TcpStream::from_raw_fd(socket.into_raw_fd()) };
        // A send of nothing would block until the connection stands, and gives its error when it fails (tcp(7)).
        poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, &[])).await?;
        active();
        Ok(TcpStream::new(stream))
    }

    /// The address that the peer reached.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.settings(|socket| socket.local_addr())?.as_socket().ok_or_else(|| io::Error::other("not an IP socket"))
    }

    /// The peer's address.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.settings(|socket| socket.peer_addr())?.as_socket().ok_or_else(|| io::Error::other("not an IP socket"))
    }

    fn settings<T>(&self, use_it: impl FnOnce(&SockRef<'_>) -> T) -> T {
        // SAFETY: the descriptor is open for as long as `self`, which is borrowed here.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket) };
        use_it(&SockRef::from(&socket))
    }

    /// What has arrived, as soon as that is anything; `None` when the peer has closed. No buffer is held
    /// while it waits, and nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// The kernel's: the connection was reset, or keep-alive found it dead.
    pub async fn recv(&self, pool: &BufferPool) -> io::Result<Option<BytesMut>> {
        self.receive_with(|| pool.read(self.socket)).await.map(|bytes| (!bytes.is_empty()).then_some(bytes))
    }

    /// Reads behind what the buffer holds, at most as much as it has room for, and gives it back: for the
    /// rest of a frame of known size. 0 when the peer has closed, or when the buffer has no room.
    ///
    /// The buffer is lost when the future is dropped; where that may happen, wait at
    /// [`readable`](TcpStream::readable) and drop that instead.
    ///
    /// # Errors
    /// As [`recv`](TcpStream::recv).
    pub async fn recv_into(&self, mut buffer: BytesMut) -> (io::Result<usize>, BytesMut) {
        let held = buffer.len();
        if buffer.capacity() == held {
            return (Ok(0), buffer);
        }
        let read = self
            .receive_with(|| {
                let filled = receive(self.socket, &mut buffer)?;
                Ok((buffer.len() - held, filled))
            })
            .await;
        (read, buffer)
    }

    async fn receive_with<T>(&self, mut receive: impl FnMut() -> io::Result<(T, bool)>) -> io::Result<T> {
        let mut woken = false;
        poll_fn(|cx| {
            loop {
                // A task that wakes from this very wait most likely has something to read.
                if woken || !self.drained.get() {
                    match receive() {
                        Ok((received, filled)) => {
                            active();
                            self.drained.set(!filled);
                            return Poll::Ready(Ok(received));
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                woken = true;
                ready!(self.poll_readable(cx))?;
            }
        })
        .await
    }

    /// Waits until there is something to read, or the peer has closed. Holds no buffer.
    ///
    /// # Errors
    /// As [`recv`](TcpStream::recv).
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_readable(cx)).await
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // An empty read takes no byte: it is a pure wait for readiness, and free while one is under way.
        let readable = Pin::new(&mut *self.stream.borrow_mut()).poll_read(cx, &mut []).map_ok(|_| ());
        self.drained.set(readable.is_pending());
        readable
    }

    /// Sends all of it, in as few system calls as it takes; each part is let go as soon as it is sent.
    /// When the future is dropped an unknown part has been sent, so the connection is of no more use. A
    /// deadline is the caller's business.
    ///
    /// # Errors
    /// The kernel's: the peer has closed or reset the connection.
    pub async fn send(&self, segments: Vec<Bytes>) -> io::Result<()> {
        let mut unsent = Unsent { segments, at: 0 };
        unsent.advance(0);
        let mut turn = 0;
        poll_fn(|cx| {
            while let Some(first) = unsent.segments.get(unsent.at) {
                if turn >= SEND_TURN_BYTES {
                    turn = 0;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                let sent = match send_some(self.socket, &unsent.segments[unsent.at..]) {
                    Ok(sent) => sent,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        ready!(Pin::new(&mut *self.stream.borrow_mut()).poll_write(cx, first))?
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Poll::Ready(Err(error)),
                };
                active();
                turn += sent;
                unsent.advance(sent);
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Waits until the peer has closed or reset the connection, also behind bytes that nobody has read.
    /// Made for times when nobody reads; one wait at a time. Nothing is lost when the future is dropped,
    /// and only the first wait on a connection costs system calls.
    pub async fn closed_by_peer(&self) {
        let watch = match self.watch.get() {
            Some(watch) => watch,
            None => match Watch::begin(self.socket) {
                Ok(watch) => self.watch.get_or_init(|| watch),
                // No memory for it: reading notices in its turn.
                Err(_) => std::future::pending().await,
            },
        };
        watch.closed().await;
    }

    /// Closes one direction, or both: the peer sees the end of the stream behind what was sent.
    ///
    /// # Errors
    /// The connection is gone already.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.settings(|socket| socket.shutdown(how))
    }

    /// Makes closing reset the connection: what is not sent yet is thrown away, the peer gets an error
    /// instead of an end, and no TIME_WAIT is left.
    ///
    /// # Errors
    /// The kernel's.
    pub fn abort_on_close(&self) -> io::Result<()> {
        self.settings(|socket| socket.set_linger(Some(Duration::ZERO)))?;
        self.aborted.set(true);
        Ok(())
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        if !self.aborted.get() {
            // A poll that the ring still holds keeps the socket open for a while after its descriptor is
            // closed; the peer is told now. It may be gone already.
            let _ = self.shutdown(Shutdown::Write);
        }
    }
}

/// Has the kernel choose the port at connect, where it need differ only from those towards the same peer; without it each
/// port of an address serves one connection in all.
fn choose_port_when_connecting(socket: &Socket) {
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads an int of that size; a kernel before 4.2 refuses, and ports run out sooner.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

/// What is left to send: the segments from `at` on, of which the first is not empty.
struct Unsent {
    segments: Vec<Bytes>,
    at: usize,
}

impl Unsent {
    fn advance(&mut self, mut sent: usize) {
        while let Some(first) = self.segments.get_mut(self.at) {
            if sent < first.len() {
                first.advance(sent);
                return;
            }
            sent -= first.len();
            *first = Bytes::new();
            self.at += 1;
        }
        debug_assert_eq!(sent, 0);
    }
}

fn send_some(socket: RawFd, segments: &[Bytes]) -> io::Result<usize> {
    let mut slices = [const { MaybeUninit::<libc::iovec>::uninit() }; SEND_SLICES_MAX];
    let mut count = 0;
    let mut bytes = 0;
    for (slice, segment) in slices.iter_mut().zip(segments) {
        let length = segment.len().min(SEND_BYTES_MAX - bytes);
        slice.write(libc::iovec { iov_base: segment.as_ptr().cast_mut().cast(), iov_len: length });
        count += 1;
        bytes += length;
        if bytes == SEND_BYTES_MAX {
            break;
        }
    }
    // SAFETY: `msghdr` is plain old data for which all zeroes is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = slices.as_mut_ptr().cast();
    message.msg_iovlen = count;
    // SAFETY: the first `count` slices are initialized and point into the segments, at no more bytes than
    // those have; the segments are borrowed for the whole call and the kernel only reads them.
    let sent = unsafe { libc::sendmsg(socket, &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_let_go_at_any_boundary() {
        let all = b"abcdefgh";
        for sent in 0..=all.len() {
            let parts: &[&'static [u8]] = &[b"", b"abc", b"", b"", b"d", b"efgh", b""];
            let mut unsent = Unsent { segments: parts.iter().copied().map(Bytes::from_static).collect(), at: 0 };
            unsent.advance(0);
            unsent.advance(sent);
            assert_eq!(unsent.segments[unsent.at..].concat(), &all[sent..]);
            assert!(unsent.segments.get(unsent.at).is_none_or(|first| !first.is_empty()));
        }
    }
}
