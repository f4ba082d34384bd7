//! The guard: one closed-loop connection through the echo is never silent for long, with and without busy
//! neighbours on the shard's CPU.
//!
//! `RINGGATE_SOAK_ROUND_TRIPS` sets the number of round trips (20,000).

#[path = "../examples/echo/server.rs"]
mod server;

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{bind, connect};
use ringgate_runtime::{Config, Executors, Placement, allowed_cpus, notifier};

/// A connection that hears nothing for so long is stuck.
const SILENCE: Duration = Duration::from_secs(5);

/// A whole frame: 4 bytes of length and 56 more.
const FRAME: usize = 60;

/// The tests take turns, since they measure silence on the same CPU.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn round_trips() -> u64 {
    match std::env::var("RINGGATE_SOAK_ROUND_TRIPS") {
        Ok(count) => count.parse().expect("RINGGATE_SOAK_ROUND_TRIPS is a number"),
        Err(_) => 20_000,
    }
}

fn soak(neighbours: usize) {
    let _turn = ONE_AT_A_TIME.lock();
    let cpu = allowed_cpus().expect("an affinity mask")[0];
    let config = Config { shards: 1, placement: Placement::Cpus(vec![cpu]), spin: Duration::ZERO };
    let mut executors = Executors::start(&config).expect("an executor");
    let listener = bind();
    let address = listener.local_addr();
    let (stop, stopped) = notifier();
    let mut main = Some(move || async move {
        let server = ringgate_runtime::spawn(server::serve(listener.into_listener(), Vec::new()));
        stopped.notified().await;
        server.cancel().await;
    });
    executors.run(|_| main.take().expect("one shard"));

    let over = Arc::new(AtomicBool::new(false));
    let neighbours: Vec<_> = (0..neighbours)
        .map(|_| {
            let over = over.clone();
            std::thread::spawn(move || {
                pin_to(cpu);
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();

    let mut client = connect(address);
    client.set_read_timeout(Some(SILENCE)).expect("an open socket");
    let (mut longest, began) = (Duration::ZERO, Instant::now());
    let mut frame = [7u8; FRAME];
    frame[..4].copy_from_slice(&(FRAME as u32 - 4).to_be_bytes());
    for nth in 0..round_trips() {
        frame[4..12].copy_from_slice(&nth.to_be_bytes());
        let sent = Instant::now();
        client.write_all(&frame).expect("an open connection");
        let mut answer = [0; FRAME];
        if let Err(error) = client.read_exact(&mut answer) {
            panic!("silence of {:?} after {nth} round trips: {error}", sent.elapsed());
        }
        assert_eq!(answer, frame);
        longest = longest.max(sent.elapsed());
    }
    let stats = &executors.guard().stats()[0];
    println!(
        "{} round trips in {:?}, the longest {longest:?}; {} pokes, {} stalls",
        round_trips(),
        began.elapsed(),
        stats.pokes(),
        stats.stalls(),
    );
    assert!(longest < SILENCE);

    over.store(true, Ordering::Relaxed);
    for neighbour in neighbours {
        neighbour.join().expect("a neighbour that only spins");
    }
    drop(client);
    stop.notify();
    executors.join();
}

fn pin_to(cpu: usize) {
    // SAFETY: `cpu_set_t` is plain old data for which all zeroes is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the CPU comes from such a set, so it is below the number of bits.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is readable memory of the size given.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) }, 0);
}

#[test]
fn a_closed_loop_connection_is_never_silent() {
    soak(0);
}

#[test]
fn a_closed_loop_connection_is_never_silent_beside_busy_neighbours() {
    soak(2);
}
