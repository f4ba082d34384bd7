//! A way to a server that ends, or falls silent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Passes connections on to a server, and closes them all after a while; later ones are closed at once.
pub struct Cut {
    /// Where it listens.
    pub address: String,
}

/// Both ends of every connection; `None` when it has ended.
type Ends = Arc<Mutex<Option<Vec<TcpStream>>>>;

impl Cut {
    /// The while begins with the first connection.
    pub fn after(server: &str, after: Duration) -> Cut {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = server.to_owned();
        let ends: Ends = Arc::new(Mutex::new(Some(Vec::new())));
        std::thread::spawn(move || {
            let mut timer = Some(ends.clone());
            for near in listener.incoming() {
                let near = near.expect("a connection");
                if let Some(ends) = timer.take() {
                    std::thread::spawn(move || end(&ends, after));
                }
                let far = TcpStream::connect(&server).expect("the server listens");
                let mut held = ends.lock().expect("nobody panics with it");
                let Some(held) = held.as_mut() else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    held.push(from.try_clone().expect("a descriptor"));
                    let (from, to) = (from.try_clone().expect("a descriptor"), to.try_clone().expect("a descriptor"));
                    std::thread::spawn(move || pass(from, to));
                }
            }
        });
        Cut { address }
    }
}

impl Cut {
    /// Passes so many connections on; on later ones nothing is ever answered.
    pub fn mute_after(server: &str, connections: usize) -> Cut {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = server.to_owned();
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for near in listener.incoming() {
                let near = near.expect("a connection");
                if held.len() < connections {
                    let far = TcpStream::connect(&server).expect("the server listens");
                    for (from, to) in [(&near, &far), (&far, &near)] {
                        let (from, to) = (from.try_clone().expect("one more"), to.try_clone().expect("one more"));
                        std::thread::spawn(move || pass(from, to));
                    }
                }
                held.push(near);
            }
        });
        Cut { address }
    }
}

fn end(ends: &Ends, after: Duration) {
    std::thread::sleep(after);
    let held = ends.lock().expect("nobody panics with it").take();
    for stream in held.into_iter().flatten() {
        // It may have been closed already.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // The other end may be gone.
    let _ = to.shutdown(Shutdown::Write);
}
