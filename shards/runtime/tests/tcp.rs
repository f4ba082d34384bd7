//! Sockets over loopback: nothing is lost, nobody is starved, an end is seen wherever it hides.

mod common;

use std::cell::Cell;
use std::io::{Read, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use common::{PATIENCE, bind, connect, on_a_shard, pattern};
use ringgate_runtime::{
    BoundListener, BufferPool, ListenOptions, TcpListener, TcpStream, sleep, spawn, timeout, yield_now,
};

/// Both ends of a connection, on this shard.
async fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let near = TcpStream::connect(listener.local_addr()).await.expect("a connection");
    let (far, peer) = listener.accept().await.expect("a connection");
    assert_eq!(near.local_addr().expect("an open socket"), peer);
    (near, far)
}

async fn read_all(stream: &TcpStream, pool: &BufferPool) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = stream.recv(pool).await.expect("an open connection") {
        all.extend_from_slice(&bytes);
    }
    all
}

#[test]
fn a_connection_comes_from_the_address_that_was_chosen() {
    on_a_shard(|| async {
        let listener = bind().into_listener();
        let pool = BufferPool::new();
        let source = "127.0.0.9".parse().expect("an address");
        let near = TcpStream::connect_from(source, listener.local_addr()).await.expect("a connection");
        let (far, peer) = listener.accept().await.expect("a connection");
        assert_eq!(peer.ip(), source);
        assert_eq!(near.local_addr().expect("an open socket"), peer);
        far.send(vec![Bytes::from_static(b"hello")]).await.expect("an open connection");
        assert_eq!(near.recv(&pool).await.expect("an open connection").expect("bytes"), &b"hello"[..]);
        near.send(vec![Bytes::from_static(b"you")]).await.expect("an open connection");
        assert_eq!(far.recv(&pool).await.expect("an open connection").expect("bytes"), &b"you"[..]);
    });
}

#[test]
fn a_connection_from_a_chosen_address_waits_until_the_listener_has_room() {
    on_a_shard(|| async {
        let options = ListenOptions { backlog: 0, ..ListenOptions::default() };
        let any = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0));
        let listener = BoundListener::bind(any, options).expect("a port").into_listener();
        let address = listener.local_addr();
        let source = "127.0.0.9".parse().expect("an address");
        // A backlog of nothing has room for one; the other's request is dropped, and made again after a second.
        let _first = TcpStream::connect_from(source, address).await.expect("a connection");
        let second = spawn(TcpStream::connect_from(source, address));
        sleep(Duration::from_millis(100)).await;
        let _one = listener.accept().await.expect("a connection");
        let (_other, peer) = listener.accept().await.expect("a connection");
        let second = second.await.expect("a connection");
        assert_eq!(second.local_addr().expect("an open socket"), peer);
    });
}

#[test]
fn to_connect_from_a_chosen_address_fails_as_the_kernel_says() {
    let taken = bind();
    let nobody = taken.local_addr();
    drop(taken);
    on_a_shard(move || async move {
        let own = "127.0.0.1".parse().expect("an address");
        let refused = TcpStream::connect_from(own, nobody).await.err().expect("nobody listens");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        // TEST-NET-1 is nobody's.
        let foreign = "192.0.2.1".parse().expect("an address");
        let foreign = TcpStream::connect_from(foreign, nobody).await.err().expect("not this host's");
        assert_eq!(foreign.kind(), std::io::ErrorKind::AddrNotAvailable);
    });
}

#[test]
fn many_connections_get_back_what_they_send() {
    const CONNECTIONS: usize = 50;
    let listener = bind();
    let address = listener.local_addr();
    let clients = std::thread::spawn(move || {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|nth| {
                std::thread::spawn(move || {
                    let mut client = connect(address);
                    for length in [1, nth + 1, 1000 * (nth + 1), 3] {
                        let sent = pattern(length);
                        client.write_all(&sent).expect("an open connection");
                        let mut answer = vec![0; length];
                        client.read_exact(&mut answer).expect("an answer");
                        assert!(answer == sent, "other bytes came back");
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().expect("a client that got its bytes");
        }
    });
    on_a_shard(move || async move {
        let listener = listener.into_listener();
        let pool = Rc::new(BufferPool::new());
        let mut tasks = Vec::new();
        for _ in 0..CONNECTIONS {
            let (stream, peer) = listener.accept().await.expect("a connection");
            assert_eq!(stream.peer_addr().expect("a connected socket"), peer);
            assert_eq!(stream.local_addr().expect("a connected socket"), address);
            let pool = pool.clone();
            tasks.push(spawn(async move {
                while let Some(bytes) = stream.recv(&pool).await.expect("an open connection") {
                    stream.send(vec![bytes.freeze()]).await.expect("an open connection");
                }
            }));
        }
        for task in tasks {
            task.await;
        }
    });
    clients.join().expect("clients that got their bytes");
}

#[test]
fn a_port_is_shared_only_by_those_who_say_so() {
    let alone = bind();
    let options = |reuse_port| ListenOptions { reuse_port, ..ListenOptions::default() };
    assert_eq!(
        BoundListener::bind(alone.local_addr(), options(true)).expect_err("taken").kind(),
        std::io::ErrorKind::AddrInUse
    );
    let shared = BoundListener::bind(([127, 0, 0, 1], 0).into(), options(true)).expect("a port");
    assert_ne!(shared.local_addr().port(), 0);
    let second = BoundListener::bind(shared.local_addr(), options(true)).expect("a shared port");
    assert_eq!(second.local_addr(), shared.local_addr());
    BoundListener::bind(shared.local_addr(), options(false)).expect_err("not shared by this one");
}

#[test]
fn a_large_send_to_a_slow_reader_arrives_whole_while_the_other_direction_goes_on() {
    let listener = bind();
    on_a_shard(|| async move {
        let listener = listener.into_listener();
        let (near, far) = pair(&listener).await;
        let (near, far) = (Rc::new(near), Rc::new(far));
        let pool = Rc::new(BufferPool::new());
        let everything = Bytes::from(pattern(12 << 20));

        // Far more slices than one call takes, of all sizes, empty ones among them.
        let mut segments = Vec::new();
        let mut rest = everything.clone();
        for nth in 0.. {
            if rest.is_empty() {
                break;
            }
            let size = (nth * nth * 37 % 20_011).min(rest.len());
            segments.push(rest.split_to(size));
        }
        segments.push(rest);
        assert!(segments.len() > 1000);
        let sender = spawn({
            let near = near.clone();
            async move { near.send(segments).await }
        });

        // Small messages the other way, on the same two sockets.
        let pings = spawn({
            let (near, far, pool) = (near.clone(), far.clone(), pool.clone());
            async move {
                for nth in 0..200u8 {
                    far.send(vec![Bytes::copy_from_slice(&[nth])]).await.expect("an open connection");
                    let ping = near.recv(&pool).await.expect("an open connection").expect("a byte");
                    assert_eq!(&ping[..], [nth]);
                    yield_now().await;
                }
            }
        });

        let mut read = 0;
        let mut rounds = 0;
        while read < everything.len() {
            if rounds % 64 == 0 {
                // Long enough for the socket's buffers to fill up.
                sleep(Duration::from_millis(1)).await;
            }
            rounds += 1;
            let bytes = far.recv(&pool).await.expect("an open connection").expect("more bytes");
            assert!(everything[read..].starts_with(&bytes), "other bytes at {read}");
            read += bytes.len();
        }
        sender.await.expect("all was sent");
        pings.await;
    });
}

#[test]
fn a_send_to_a_reader_that_takes_everything_lets_other_tasks_run() {
    let listener = bind();
    let address = listener.local_addr();
    let reader = std::thread::spawn(move || {
        let mut client = connect(address);
        std::io::copy(&mut client, &mut std::io::sink()).expect("an open connection")
    });
    on_a_shard(move || async move {
        let listener = listener.into_listener();
        let (stream, _) = listener.accept().await.expect("a connection");
        let turns = Rc::new(Cell::new(0));
        let others = spawn({
            let turns = turns.clone();
            async move {
                loop {
                    turns.set(turns.get() + 1);
                    yield_now().await;
                }
            }
        });
        let part = Bytes::from(vec![0; 1 << 20]);
        stream.send(vec![part; 64]).await.expect("an open connection");
        assert!(turns.get() >= 32, "{} turns of others beside 64 MiB", turns.get());
        others.cancel().await;
    });
    assert_eq!(reader.join().expect("a reader"), 64 << 20);
}

#[test]
fn a_receive_that_is_dropped_over_and_over_loses_nothing() {
    /// So many parts come only after a wait was dropped, the others whenever they come.
    const DROPPED: usize = 20;
    let listener = bind();
    let address = listener.local_addr();
    let everything = pattern(200_000);
    let sent = everything.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let sender = std::thread::spawn(move || {
        let mut client = connect(address);
        for (nth, part) in sent.chunks(1009).enumerate() {
            if nth < DROPPED {
                // Whoever comes late finds nothing to read before a wait was dropped.
                told.recv_timeout(PATIENCE).expect("a wait that was dropped");
            }
            client.write_all(part).expect("an open connection");
            std::thread::sleep(Duration::from_micros(300));
        }
    });
    on_a_shard(move || async move {
        let listener = listener.into_listener();
        let (stream, _) = listener.accept().await.expect("a connection");
        let pool = BufferPool::new();
        let (mut read, mut dropped) = (Vec::new(), 0);
        loop {
            match timeout(Duration::from_micros(100), stream.recv(&pool)).await {
                Ok(bytes) => match bytes.expect("an open connection") {
                    Some(bytes) => read.extend_from_slice(&bytes),
                    None => break,
                },
                Err(_) => {
                    dropped += 1;
                    // The sender listens for the first of them only.
                    let _ = tell.send(());
                }
            }
        }
        assert!(dropped >= DROPPED, "only {dropped} waits were dropped");
        assert!(read == everything, "{} bytes of {}, or others", read.len(), everything.len());
    });
    sender.join().expect("a sender");
}

#[test]
fn an_end_is_seen_behind_bytes_that_nobody_has_read() {
    let listener = bind();
    let address = listener.local_addr();
    on_a_shard(move || async move {
        let listener = listener.into_listener();
        let mut client = connect(address);
        let (stream, _) = listener.accept().await.expect("a connection");
        let everything = pattern(30_000);
        client.write_all(&everything).expect("room in the socket");
        assert!(timeout(Duration::from_millis(100), stream.closed_by_peer()).await.is_err(), "bytes alone are no end");
        drop(client);
        timeout(PATIENCE, stream.closed_by_peer()).await.expect("the end is seen");
        // Also by one who looks again, and the bytes are still there.
        timeout(PATIENCE, stream.closed_by_peer()).await.expect("the end is seen");
        assert!(read_all(&stream, &BufferPool::new()).await == everything);
    });
}

#[test]
fn a_watch_on_a_socket_never_speaks_for_a_later_one_of_the_same_number() {
    let listener = bind();
    let address = listener.local_addr();
    on_a_shard(move || async move {
        let listener = listener.into_listener();
        for _ in 0..200 {
            let first_client = connect(address);
            let (first, _) = listener.accept().await.expect("a connection");
            {
                let mut watch = std::pin::pin!(first.closed_by_peer());
                assert!(futures_util::FutureExt::now_or_never(watch.as_mut()).is_none());
                // The report may be on its way when the watch goes.
                drop(first_client);
            }
            drop(first);
            let second_client = connect(address);
            let (second, _) = listener.accept().await.expect("a connection");
            let mut watch = std::pin::pin!(second.closed_by_peer());
            assert!(timeout(Duration::from_millis(1), watch.as_mut()).await.is_err(), "this one is open");
            drop(second_client);
            timeout(PATIENCE, watch).await.expect("the end is seen");
        }
    });
}

#[test]
fn a_stream_that_is_dropped_while_it_waits_ends_at_once_and_an_aborted_one_resets() {
    let listener = bind();
    let address = listener.local_addr();
    on_a_shard(move || async move {
        let listener = listener.into_listener();
        let pool = BufferPool::new();
        for abort in [false, true] {
            let mut client = connect(address);
            let (stream, _) = listener.accept().await.expect("a connection");
            assert!(timeout(Duration::from_millis(2), stream.recv(&pool)).await.is_err(), "nothing is there");
            if abort {
                stream.abort_on_close().expect("an open socket");
            } else {
                stream.send(vec![Bytes::from_static(b"bye")]).await.expect("an open connection");
            }
            drop(stream);
            let began = Instant::now();
            let (read, bytes) = std::thread::spawn(move || {
                let mut bytes = Vec::new();
                (client.read_to_end(&mut bytes), bytes)
            })
            .join_on_shard()
            .await;
            assert!(began.elapsed() < PATIENCE / 2, "took {:?}", began.elapsed());
            if abort {
                assert_eq!(read.expect_err("a reset").kind(), std::io::ErrorKind::ConnectionReset);
            } else {
                read.expect("an orderly end");
                assert_eq!(bytes, b"bye");
            }
        }
    });
}

#[test]
fn a_reset_is_an_error_to_the_reader_and_an_end_to_the_watch() {
    let listener = bind();
    on_a_shard(|| async move {
        let listener = listener.into_listener();
        let pool = BufferPool::new();
        let (near, far) = pair(&listener).await;
        near.abort_on_close().expect("an open socket");
        let watch = spawn(async move {
            timeout(PATIENCE, far.closed_by_peer()).await.expect("the reset is seen");
            far
        });
        yield_now().await;
        drop(near);
        let far = watch.await;
        assert_eq!(far.recv(&pool).await.expect_err("a reset").kind(), std::io::ErrorKind::ConnectionReset);
        let error = far.send(vec![Bytes::from_static(b"x")]).await.expect_err("a connection that is gone");
        assert!(matches!(error.kind(), std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset));
    });
}

#[test]
fn the_rest_of_a_frame_is_read_into_its_own_buffer() {
    let listener = bind();
    on_a_shard(|| async move {
        let listener = listener.into_listener();
        let pool = BufferPool::new();
        let (near, far) = pair(&listener).await;
        let everything = Bytes::from(pattern(3 << 20));
        let sender = spawn({
            let everything = everything.clone();
            async move {
                near.send(vec![everything]).await.expect("an open connection");
                near.shutdown(std::net::Shutdown::Write).expect("an open connection");
                near
            }
        });
        let start = far.recv(&pool).await.expect("an open connection").expect("bytes");
        let mut frame = BytesMut::with_capacity(everything.len());
        frame.extend_from_slice(&start);
        while frame.len() < everything.len() {
            far.readable().await.expect("an open connection");
            let (read, back) = far.recv_into(frame).await;
            assert!(read.expect("an open connection") > 0);
            frame = back;
        }
        assert!(frame == everything);
        let (read, _) = far.recv_into(BytesMut::with_capacity(10)).await;
        assert_eq!(read.expect("an orderly end"), 0);
        drop(sender.await);
    });
}

#[test]
fn a_listener_that_is_dropped_while_it_waits_gives_up_its_port() {
    let listener = bind();
    let address = listener.local_addr();
    on_a_shard(move || async move {
        let listener = listener.into_listener();
        assert_eq!(listener.local_addr(), address);
        assert!(timeout(Duration::from_millis(5), listener.accept()).await.is_err(), "nobody comes");
        drop(listener);
        let refused = async {
            while std::net::TcpStream::connect(address).is_ok() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, refused).await.expect("the port is closed");
    });
}

#[test]
fn connections_that_came_in_a_burst_are_all_accepted_in_turns() {
    const BURST: usize = 300;
    let listener = bind();
    let address = listener.local_addr();
    let clients: Vec<_> = (0..BURST).map(|_| connect(address)).collect();
    on_a_shard(move || async move {
        let listener = listener.into_listener();
        let turns = Rc::new(Cell::new(0));
        let others = spawn({
            let turns = turns.clone();
            async move {
                loop {
                    turns.set(turns.get() + 1);
                    yield_now().await;
                }
            }
        });
        let mut streams = Vec::new();
        while streams.len() < BURST {
            streams.push(timeout(PATIENCE, listener.accept()).await.expect("a connection waits").expect("no error"));
        }
        assert!(turns.get() >= 4, "{} turns of others", turns.get());
        others.cancel().await;
        drop(clients);
    });
}

#[test]
fn a_send_that_is_given_up_holds_nobody() {
    let listener = bind();
    on_a_shard(|| async move {
        let listener = listener.into_listener();
        let (near, far) = pair(&listener).await;
        let part = Bytes::from(vec![0; 1 << 20]);
        let sent = timeout(Duration::from_millis(50), near.send(vec![part.clone(); 64])).await;
        assert!(sent.is_err(), "nobody reads, so it cannot have been sent");
        assert!(part.is_unique(), "what was not sent is let go");
        drop(near);
        let pool = BufferPool::new();
        let read = timeout(PATIENCE, read_all(&far, &pool)).await.expect("the end comes");
        assert!(!read.is_empty() && read.len() < 64 << 20);
    });
}

/// Waiting for a thread without holding up the shard.
trait JoinOnShard<T> {
    fn join_on_shard(self) -> impl Future<Output = T>;
}

impl<T: Send + 'static> JoinOnShard<T> for std::thread::JoinHandle<T> {
    async fn join_on_shard(self) -> T {
        let (done, result) = ringgate_runtime::oneshot();
        std::thread::spawn(move || {
            // The shard waits for it until it gets it.
            let _ = done.send(self.join());
        });
        result.await.expect("a thread that sends").expect("a thread that does not panic")
    }
}
