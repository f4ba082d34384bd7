//! What a round trip over TCP takes between two threads of this machine.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::{Outcome, Setting, Taken};

const BYTES: usize = 64;

/// Not counted: the first ones find cold caches and a connection that starts slowly.
const WARM_UP: usize = 100;

/// For one round trip, before it is given up.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn measure(setting: &Setting<'_>) -> Outcome {
    let times_ns = timed(setting).map_err(|error| error.to_string())?;
    let about = match setting.cpus {
        [one, other, ..] => format!("CPUs {one} and {other}"),
        _ => "wherever the kernel puts them".into(),
    };
    Taken::new(times_ns, about)
}

fn timed(setting: &Setting<'_>) -> io::Result<Vec<u64>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    // The kernel has the connection ready before it is accepted.
    let mut caller = TcpStream::connect(listener.local_addr()?)?;
    let (mut callee, _) = listener.accept()?;
    for stream in [&caller, &callee] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
    }
    let (here, there) = match setting.cpus {
        [one, other, ..] => (Some(*one), Some(*other)),
        _ => (None, None),
    };
    thread::scope(|threads| {
        let echo = threads.spawn(move || -> io::Result<()> {
            super::pin(there)?;
            let mut bytes = [0; BYTES];
            // Ends with an error of reading when the other side is done.
            while callee.read_exact(&mut bytes).is_ok() {
                callee.write_all(&bytes)?;
            }
            Ok(())
        });
        let calls = threads.spawn(move || -> io::Result<Vec<u64>> {
            super::pin(here)?;
            let mut bytes = [7; BYTES];
            let mut times_ns = Vec::new();
            let mut round_trip = || -> io::Result<(Instant, Instant)> {
                let began = Instant::now();
                caller.write_all(&bytes)?;
                caller.read_exact(&mut bytes)?;
                Ok((began, Instant::now()))
            };
            for _ in 0..WARM_UP {
                round_trip()?;
            }
            let until = Instant::now() + setting.budget(1.5);
            loop {
                let (began, ended) = round_trip()?;
                times_ns.push((ended - began).as_nanos() as u64);
                if ended >= until {
                    return Ok(times_ns);
                }
            }
        });
        let times_ns = super::joined(calls);
        super::joined(echo)?;
        times_ns
    })
}
