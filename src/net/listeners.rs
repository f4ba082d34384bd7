//! The ports: bound before anything else starts, refused when somebody has them.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use ringgate_runtime::{BoundListener, ListenOptions};

use super::advertise::{Advertise, Advertised};
use crate::limits::{PORT_PATIENCE, PORT_RETRY};

/// The sockets of one `--listen` address.
pub struct Bound {
    /// What it tells clients.
    pub advertised: Advertised,
    /// The address of the port that all shards share.
    pub bootstrap: SocketAddr,
    /// One socket on the shared port for each shard.
    pub shared: Vec<BoundListener>,
    /// Each shard's own; none in `gateway` mode.
    pub own: Vec<BoundListener>,
}

/// How a listener is to present itself.
#[derive(Debug, Clone)]
pub struct Presentation {
    /// How the gateway presents itself.
    pub mode: Advertise,
    /// This gateway among others.
    pub gateway_id: u16,
    /// How many shards there are.
    pub shards: u16,
    /// The name that clients use.
    pub advertised_host: Option<String>,
    /// The port that clients use, in `gateway` mode.
    pub advertised_port: Option<u16>,
    /// See [`bind_shared`].
    pub incoming_cpus: Vec<usize>,
}

/// Binds the ports of one address: the shared one, and in `shards` mode one more for each shard, at the
/// ports that follow it. With port 0 the kernel chooses all of them.
///
/// # Errors
/// A port that is taken, by its address: each is first bound without sharing, since with it two
/// gateways would share their clients silently.
pub fn bind(address: SocketAddr, presentation: &Presentation) -> io::Result<Bound> {
    let (bootstrap, shared) = bind_shared(address, presentation.shards, &presentation.incoming_cpus)?;
    let mut own = Vec::new();
    if presentation.mode == Advertise::Shards {
        for shard in 0..presentation.shards {
            let port = if address.port() == 0 {
                0
            } else {
                u16::try_from(u32::from(address.port()) + 1 + u32::from(shard)).map_err(|_| {
                    io::Error::other(format!("shard {shard} of listener {address} would need a port above 65535"))
                })?
            };
            let listening = listen(SocketAddr::new(address.ip(), port), ListenOptions::default());
            own.push(listening.map_err(|error| own_port_refused(shard, address, &error))?);
        }
    }
    let shard_ports = own.iter().map(|l| l.local_addr().port()).collect();
    let own_host = (!address.ip().is_unspecified()).then(|| address.ip().to_canonical().to_string());
    let advertised = Advertised {
        mode: presentation.mode,
        gateway_id: presentation.gateway_id,
        host: presentation.advertised_host.clone().or(own_host),
        gateway_port: presentation.advertised_port,
        bootstrap_port: bootstrap.port(),
        shard_ports,
    };
    Ok(Bound { advertised, bootstrap, shared, own })
}

/// Binds one port that all shards share, with a socket for each of them; its address and the sockets.
///
/// The kernel spreads connections over them by a hash, or with the shards' CPUs in `incoming_cpus` by the one that their first
/// packet comes in on.
///
/// # Errors
/// As [`bind`].
pub fn bind_shared(
    address: SocketAddr,
    shards: u16,
    incoming_cpus: &[usize],
) -> io::Result<(SocketAddr, Vec<BoundListener>)> {
    let options = |shard: u16| ListenOptions {
        reuse_port: true,
        incoming_cpu: incoming_cpus.get(usize::from(shard)).copied(),
        ..ListenOptions::default()
    };
    if address.port() != 0 {
        // Closed again at once: it only finds out that the port is free.
        drop(listen(address, ListenOptions::default())?);
    }
    let first = listen(address, options(0))?;
    let bound = first.local_addr();
    let mut shared = vec![first];
    for shard in 1..shards {
        shared.push(listen(bound, options(shard))?);
    }
    Ok((bound, shared))
}

/// Tells whose port it is: it follows from the listener's, so it stands in no setting.
fn own_port_refused(shard: u16, listener: SocketAddr, error: &io::Error) -> io::Error {
    let text = format!("{error}; shard {shard} of listener {listener} needs it (advertise = gateway needs one port)");
    io::Error::new(error.kind(), text)
}

/// A port that a killed process held is free only a moment after its end, when the kernel has taken its
/// ring down; so a port is called taken when it has been for [`PORT_PATIENCE`].
fn listen(address: SocketAddr, options: ListenOptions) -> io::Result<BoundListener> {
    let began = Instant::now();
    loop {
        match BoundListener::bind(address, options) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && began.elapsed() < PORT_PATIENCE => {
                std::thread::sleep(PORT_RETRY);
            }
            Err(error) => return Err(io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_of_a_shard_is_refused_with_the_shard_and_the_listener_it_follows() {
        let holder = std::net::TcpListener::bind("127.0.0.7:0").unwrap();
        let taken = holder.local_addr().unwrap();
        let listener = SocketAddr::new(taken.ip(), taken.port() - 1);
        let presentation = Presentation {
            mode: Advertise::Shards,
            gateway_id: 1,
            shards: 1,
            advertised_host: None,
            advertised_port: None,
            incoming_cpus: Vec::new(),
        };
        let error = bind(listener, &presentation).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        let text = error.to_string();
        for part in [&taken.to_string(), &format!("shard 0 of listener {listener}")] {
            assert!(text.contains(part.as_str()), "{part} in {text}");
        }
    }
}
