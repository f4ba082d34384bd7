//! A way to a server that ends, or falls silent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Passes connections on to a server, and closes them all when so many have had an answer; later ones are closed at once.
pub struct Cut {
    /// Where it listens.
    pub address: String,
}

/// Both ends of every connection; `None` when it has ended.
type Ends = Arc<Mutex<Option<Vec<TcpStream>>>>;

impl Cut {
    /// Ends with the first answer on the connection of this number, from 1, in the order of their answers.
    pub fn after(server: &str, connections: usize) -> Cut {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = server.to_owned();
        let ends: Ends = Arc::new(Mutex::new(Some(Vec::new())));
        std::thread::spawn(move || {
            let answered = Arc::new(AtomicUsize::new(0));
            for near in listener.incoming() {
                let near = near.expect("a connection");
                let far = TcpStream::connect(&server).expect("the server listens");
                let mut held = ends.lock().expect("nobody panics with it");
                let Some(held) = held.as_mut() else { continue };
                held.extend([&near, &far].map(copy));
                let (asking, asked) = (copy(&near), copy(&far));
                std::thread::spawn(move || pass(asking, asked, || ()));
                let (ends, answered) = (ends.clone(), answered.clone());
                let count = move || {
                    if answered.fetch_add(1, Ordering::SeqCst) + 1 == connections {
                        end(&ends);
                    }
                };
                std::thread::spawn(move || pass(far, near, count));
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
                        let (from, to) = (copy(from), copy(to));
                        std::thread::spawn(move || pass(from, to, || ()));
                    }
                }
                held.push(near);
            }
        });
        Cut { address }
    }
}

fn copy(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a descriptor")
}

fn end(ends: &Ends) {
    let held = ends.lock().expect("nobody panics with it").take();
    for stream in held.into_iter().flatten() {
        // It may have been closed already.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Passes bytes on, and tells when it has passed on the first.
fn pass(mut from: TcpStream, mut to: TcpStream, first: impl FnOnce()) {
    let (mut bytes, mut first) = ([0; 4096], Some(first));
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
        if let Some(first) = first.take() {
            first();
        }
    }
    // The other end may be gone.
    let _ = to.shutdown(Shutdown::Write);
}
