//! Whether a target that a hook started or stopped is there.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::engine::Interrupt;
use crate::limits::{REACH_ATTEMPT, REACH_PAUSE};

/// What counts as there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It takes connections: all that can be seen through TLS, and of what speaks another protocol.
    Connects,
    /// It answers ApiVersions: a broker takes connections long before it is ready.
    Answers,
}

/// Waits until one of the `addresses` (`host:port`) gives the sign. The error is the last attempt's, or that it was
/// interrupted.
pub fn until_there(addresses: &[String], sign: Sign, most: Duration, interrupt: &Interrupt) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let mut last = String::new();
        for address in addresses {
            match attempt(address, sign) {
                Ok(()) => return Ok(()),
                Err(error) => last = format!("{address}: {error}"),
            }
        }
        if interrupt.is_told() {
            return Err("interrupted".into());
        }
        if begun.elapsed() >= most {
            return Err(format!("not reachable within {} s: {last}", most.as_secs_f64()));
        }
        std::thread::sleep(REACH_PAUSE);
    }
}

/// Waits until no address takes connections.
pub fn until_gone(addresses: &[String], most: Duration) -> Result<(), String> {
    let begun = Instant::now();
    while let Some(there) = addresses.iter().find(|address| attempt(address, Sign::Connects).is_ok()) {
        if begun.elapsed() >= most {
            return Err(format!("{there} still takes connections {} s after it was stopped", most.as_secs_f64()));
        }
        std::thread::sleep(REACH_PAUSE);
    }
    Ok(())
}

fn attempt(address: &str, sign: Sign) -> io::Result<()> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
    for address in address.to_socket_addrs()? {
        let attempt = TcpStream::connect_timeout(&address, REACH_ATTEMPT).and_then(|stream| match sign {
            Sign::Connects => Ok(()),
            Sign::Answers => answers(stream),
        });
        match attempt {
            Ok(()) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Asks ApiVersions, version 0, which every broker answers, before authentication too.
fn answers(mut stream: TcpStream) -> io::Result<()> {
    const CORRELATION: [u8; 4] = *b"here";
    stream.set_read_timeout(Some(REACH_ATTEMPT))?;
    stream.set_write_timeout(Some(REACH_ATTEMPT))?;
    let mut request = vec![0, 0, 0, 10, 0, 18, 0, 0];
    request.extend(CORRELATION);
    // No client id.
    request.extend((-1i16).to_be_bytes());
    stream.write_all(&request)?;
    let mut head = [0; 8];
    stream.read_exact(&mut head)?;
    if head[4..] == CORRELATION {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "answers, but not as a Kafka broker"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_that_does_not_answer_connects_and_is_not_ready() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = [listener.local_addr().unwrap().to_string()];
        let now = Duration::ZERO;
        let interrupt = Interrupt::new();
        assert_eq!(until_there(&addresses, Sign::Connects, now, &interrupt), Ok(()));
        let error = until_there(&addresses, Sign::Answers, now, &interrupt).unwrap_err();
        assert!(error.starts_with("not reachable within 0 s: 127.0.0.1:"), "{error}");
        assert!(until_gone(&addresses, now).unwrap_err().contains("still takes connections"));
        drop(listener);
        assert_eq!(until_gone(&addresses, Duration::from_secs(5)), Ok(()));
    }

    #[test]
    fn one_that_answers_is_ready() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = [listener.local_addr().unwrap().to_string()];
        let broker = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 14];
            stream.read_exact(&mut request).unwrap();
            let mut answer = vec![0, 0, 0, 10];
            answer.extend(&request[8..12]);
            answer.extend([0, 0, 0, 0, 0, 0]);
            stream.write_all(&answer).unwrap();
            request
        });
        let interrupt = Interrupt::new();
        assert_eq!(until_there(&addresses, Sign::Answers, Duration::from_secs(10), &interrupt), Ok(()));
        assert_eq!(broker.join().unwrap()[4..8], [0, 18, 0, 0]);
    }
}
