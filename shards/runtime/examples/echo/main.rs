//! A TCP echo server on the runtime facade: the baseline that a gateway's round trip is held against.
//!
//! `echo [--listen ADDRESS] [--shards N] [--cpus LIST|none] [--spin MICROSECONDS] [--answer BYTES [--answers N]]`;
//! it prints the address that all shards share and runs until it is killed. Frames are a `u32` big-endian length
//! and as many bytes. With `--answer` each frame is answered by one of so many bytes instead of by itself: the send
//! loop that a Fetch from memory is held against. There are N of those, which take turns, so that what is sent
//! lies in the caches no more than what is fetched does.

mod server;

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use ringgate_runtime::{BoundListener, Config, Executors, ListenOptions, Placement, allowed_cpus};

fn main() -> Result<(), Box<dyn Error>> {
    let mut listen: SocketAddr = ([127, 0, 0, 1], 0).into();
    let mut shards = None;
    let mut placement = Placement::Cpus(allowed_cpus()?);
    let mut spin = Duration::ZERO;
    let (mut answer, mut answers) = (None, 1);
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or_else(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--listen" => listen = value.parse()?,
            "--shards" => shards = Some(value.parse()?),
            "--cpus" if value == "none" => placement = Placement::Unpinned,
            "--cpus" => placement = Placement::Cpus(value.split(',').map(str::parse).collect::<Result<_, _>>()?),
            "--spin" => spin = Duration::from_micros(value.parse()?),
            "--answer" => answer = Some(value.parse()?),
            "--answers" => answers = value.parse()?,
            _ => return Err(format!("unknown flag {flag}").into()),
        }
    }
    let shards = match (shards, &placement) {
        (Some(shards), _) => shards,
        (None, Placement::Cpus(cpus)) => u16::try_from(cpus.len())?,
        (None, Placement::Unpinned) => 1,
    };

    let fixed: Vec<Bytes> = answer.map_or_else(Vec::new, |bytes| (0..answers).map(|_| frame(bytes)).collect());

    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    let first = BoundListener::bind(listen, options)?;
    let address = first.local_addr();
    let mut listeners = vec![first];
    for _ in 1..shards {
        listeners.push(BoundListener::bind(address, options)?);
    }

    let mut executors = Executors::start(&Config { shards, placement, spin })?;
    println!("{address}");
    let mut listeners = listeners.into_iter();
    executors.run(|_| {
        let (listener, fixed) = (listeners.next(), fixed.clone());
        move || async move {
            if let Some(listener) = listener {
                server::serve(listener.into_listener(), fixed).await;
            }
        }
    });
    executors.join();
    Ok(())
}

/// A frame of so many bytes after its length.
fn frame(bytes: u32) -> Bytes {
    let mut frame = BytesMut::with_capacity(4 + bytes as usize);
    frame.put_u32(bytes);
    frame.put_bytes(0, bytes as usize);
    frame.freeze()
}
