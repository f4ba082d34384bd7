//! Accepting when the process has no descriptors left. Alone in its process, since it uses all of them.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use common::{PATIENCE, bind, on_a_shard};
use ringgate_runtime::{BufferPool, sleep, spawn, timeout};
use socket2::{Domain, Socket, Type};

#[test]
fn a_listener_outlives_the_lack_of_descriptors() {
    let limit = libc::rlimit { rlim_cur: 200, rlim_max: 200 };
    // SAFETY: `limit` is readable memory of the right type.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let listener = bind();
    let address = listener.local_addr();
    on_a_shard(move || async move {
        let listener = listener.into_listener();
        let client = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        client.set_read_timeout(Some(PATIENCE)).expect("an open socket");

        // One wait begins while there are descriptors, and gets its connection when there are none.
        let waits = spawn(async move {
            let first = listener.accept().await;
            (listener, first)
        });
        sleep(Duration::from_millis(5)).await;
        let mut hoard = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            hoard.push(file);
        }
        client.connect(&address.into()).expect("a connection");
        let (listener, first) = timeout(PATIENCE, waits).await.expect("an answer");
        assert_eq!(first.err().expect("no descriptors").raw_os_error(), Some(libc::EMFILE));
        let again = timeout(PATIENCE, listener.accept()).await.expect("an answer");
        assert_eq!(again.err().expect("no descriptors").raw_os_error(), Some(libc::EMFILE));

        drop(hoard);
        let (stream, _) = timeout(PATIENCE, listener.accept()).await.expect("an answer").expect("a connection");
        (&client).write_all(b"hello").expect("an open connection");
        let bytes = stream.recv(&BufferPool::new()).await.expect("an open connection").expect("bytes");
        stream.send(vec![bytes.freeze()]).await.expect("an open connection");
        drop(stream);
        let mut answer = Vec::new();
        (&client).read_to_end(&mut answer).expect("an orderly end");
        assert_eq!(answer, b"hello");
    });
}
