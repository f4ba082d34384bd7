//! Clients that stall: before they say anything, in the middle of a frame, or just before its end.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use kafka_protocol::messages::FetchRequest;

use super::{Witness, assert_no_panic, options};
use crate::common::fetch::fetch_request;
use crate::common::gateway::Gateway;
use crate::common::metrics::metric;
use crate::common::partition::create;
use crate::common::raw::Raw;
use crate::common::{eventually, within};

/// Clients of each kind.
const EACH: usize = 100;
/// What the one partition may have open, whose files were not counted before.
const PARTITION_FILES: usize = 4;
/// Between two bytes of a client that dribbles: shorter than any timeout.
const A_BYTE: Duration = Duration::from_millis(100);

fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k116_clients_that_stall_are_let_go_and_one_that_waits_for_records_is_not() {
    let gateway = Gateway::start(options().set("frame-timeout", "500ms").set("idle-timeout", "4s"));
    let files = gateway.open_files();
    let topic = create(&mut Raw::connect(gateway.bootstrap()), "quiet", 1, &[]);
    let mut before = 0;
    for round in 0..2 {
        // Longer than the client may be idle.
        let fetch = fetch_request(12, &[(&topic, &[(0, 0)])]).with_max_wait_ms(6_000);
        let address = gateway.bootstrap();
        let parked = tokio::task::spawn_blocking(move || Raw::connect(address).call::<FetchRequest>(12, &fetch));

        let megabyte = (1u32 << 20).to_be_bytes();
        let whole_but_one = {
            let mut bytes = megabyte.to_vec();
            bytes.resize(bytes.len() + (1 << 20) - 1, 0);
            bytes
        };
        let connect = |first: &[u8]| {
            let mut stream = TcpStream::connect(gateway.bootstrap()).expect("connect");
            // Where the machine is slow it is let go before all is sent.
            let _ = stream.write_all(first);
            stream.set_nonblocking(true).expect("nonblocking");
            stream
        };
        let silent = (0..EACH).map(|_| connect(&[]));
        let nearly = (0..EACH / 10).map(|_| connect(&whole_but_one));
        let mut stalled: Vec<TcpStream> = silent.chain(nearly).collect();
        let mut dribbling: Vec<TcpStream> = (0..EACH).map(|_| connect(&megabyte)).collect();
        eventually("all who stall are let go", || {
            // The pace of the client, not a wait for anything.
            std::thread::sleep(A_BYTE);
            dribbling.iter_mut().for_each(|stream| drop(stream.write_all(&[0])));
            Witness::of(&gateway).is_served();
            stalled.iter_mut().chain(&mut dribbling).all(is_closed)
        })
        .await;
        drop((stalled, dribbling));

        let answer = within("the fetch that waits", parked).await.expect("an answer");
        assert_eq!((answer.error_code, answer.responses[0].partitions[0].error_code), (0, 0), "it was not idle");
        eventually("their descriptors are free", || gateway.open_files() <= files + PARTITION_FILES).await;
        match round {
            0 => before = gateway.rss(),
            _ => {
                let grown = gateway.rss().saturating_sub(before);
                assert!(grown < 16 << 10, "{grown} KiB more than after the first round");
            }
        }
    }
    let hits = |limit: &str| metric(&gateway, "ringgate_limit_hit_total", &format!("limit=\"{limit}\""));
    assert!(hits("idle_timeout") >= 2 * EACH as u64);
    assert_eq!(hits("frame_timeout"), 2 * (EACH + EACH / 10) as u64);
    assert_no_panic(&gateway);
}
