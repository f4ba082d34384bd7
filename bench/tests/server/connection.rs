//! One connection: a thread that reads, and one that answers when it is time.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use super::{Decided, Fault, Shared};

/// A protocol of frames with a `u32` length in front.
pub trait Speaks: Send + Sync {
    /// Whether the request is one that delays, stalls and faults concern.
    fn is_counted(&self, frame: &[u8]) -> bool;
    /// The answer's frame, without its length; `None` when the request wants none.
    fn answer(&self, frame: &[u8], fault: Option<Fault>) -> Option<Vec<u8>>;
    /// OffsetCommit requests that came, by group.
    fn commits(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
    /// Appends a batch to a partition.
    fn append(&self, _topic: &str, _partition: i32, _batch: &[u8]) {}
    /// How often each partition was fetched, by topic and partition.
    fn fetched(&self) -> BTreeMap<(String, i32), u64> {
        BTreeMap::new()
    }
}

/// Sends frames back.
pub struct Echo;

impl Speaks for Echo {
    fn is_counted(&self, _: &[u8]) -> bool {
        true
    }

    fn answer(&self, frame: &[u8], _: Option<Fault>) -> Option<Vec<u8>> {
        Some(frame.to_vec())
    }
}

/// Serves it to its end.
pub fn serve(mut stream: TcpStream, speaks: Arc<dyn Speaks>, shared: Arc<Shared>) {
    stream.set_nodelay(true).expect("a TCP connection");
    let (answers, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    let mut out = stream.try_clone().expect("a descriptor");
    std::thread::spawn(move || {
        for (at, answer) in due {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            let mut frame = (answer.len() as u32).to_be_bytes().to_vec();
            frame.extend(answer);
            if out.write_all(&frame).is_err() {
                return;
            }
        }
    });
    let mut length = [0; 4];
    while stream.read_exact(&mut length).is_ok() {
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        if stream.read_exact(&mut frame).is_err() {
            return;
        }
        let Decided { at, fault } = if speaks.is_counted(&frame) { shared.decide() } else { shared.at_once() };
        match fault {
            Some(Fault::Silence) => continue,
            Some(Fault::Close) => {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
            Some(Fault::Error(_) | Fault::Forget) | None => {}
        }
        if let Some(answer) = speaks.answer(&frame, fault)
            && answers.send((at, answer)).is_err()
        {
            return;
        }
    }
}
