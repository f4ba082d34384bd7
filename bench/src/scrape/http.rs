//! One GET by HTTP/1.1, bounded in time and bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::{Failed, Url};

/// Bytes of an answer's status and headers.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What is read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The body of the answer, which has status 200.
///
/// # Errors
/// It did not come whole within `timeout`, is over `bytes_max`, or is none.
pub fn get(url: &Url, timeout: Duration, bytes_max: usize) -> Result<Vec<u8>, Failed> {
    let deadline = Instant::now() + timeout;
    let mut stream = connect(url, deadline)?;
    let ask = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: ringgate-bench\r\nAccept: text/plain;version=0.0.4\r\n\
         Accept-Encoding: identity\r\nConnection: close\r\n\r\n",
        url.path,
        url.authority()
    );
    stream.set_write_timeout(Some(left(deadline)?)).map_err(told)?;
    stream.write_all(ask.as_bytes()).map_err(told)?;
    let mut answer = Vec::new();
    let mut head = None;
    loop {
        if head.is_none() {
            head = Head::read(&answer)?;
        }
        if let Some(head) = &head
            && let Some(body) = head.body(&answer[head.length..], false)?
        {
            return Ok(body);
        }
        if answer.len() > bytes_max {
            return Err(Failed(format!("the answer is over {} MiB", bytes_max >> 20)));
        }
        stream.set_read_timeout(Some(left(deadline)?)).map_err(told)?;
        let had = answer.len();
        answer.resize(had + PIECE_BYTES, 0);
        let came = match stream.read(&mut answer[had..]) {
            Ok(came) => came,
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                answer.truncate(had);
                continue;
            }
            Err(error) => return Err(told(error)),
        };
        answer.truncate(had + came);
        if came == 0 {
            let head = head.ok_or_else(|| Failed("the connection ended before an answer".into()))?;
            let body = head.body(&answer[head.length..], true)?;
            return body.ok_or_else(|| Failed("the connection ended within the answer".into()));
        }
    }
}

fn connect(url: &Url, deadline: Instant) -> Result<TcpStream, Failed> {
    let addresses: Vec<SocketAddr> = (url.host.as_str(), url.port)
        .to_socket_addrs()
        .map_err(|_| Failed(format!("{} has no address", url.host)))?
        .collect();
    let mut failed = Failed(format!("{} has no address", url.host));
    for address in addresses {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = told(error),
        }
    }
    Err(failed)
}

fn left(deadline: Instant) -> Result<Duration, Failed> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(late()) } else { Ok(left) }
}

fn late() -> Failed {
    Failed("no whole answer in time".into())
}

fn told(error: std::io::Error) -> Failed {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => late(),
        ErrorKind::ConnectionRefused => Failed("connection refused".into()),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Failed("connection reset".into()),
        _ => Failed(error.to_string()),
    }
}

/// How the body is told from what may follow.
enum Framing {
    Length(usize),
    Chunked,
    ToTheEnd,
}

struct Head {
    /// Bytes of it, with the empty line.
    length: usize,
    framing: Framing,
}

impl Head {
    /// `None` when it has not come whole.
    fn read(answer: &[u8]) -> Result<Option<Head>, Failed> {
        let none = || Failed("the answer is no HTTP".into());
        let looked_at = &answer[..answer.len().min(HEAD_BYTES_MAX)];
        let Some(end) = looked_at.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            let begins = b"HTTP/1.";
            let as_far = answer.len().min(begins.len());
            let hopeless = answer.len() > HEAD_BYTES_MAX || answer[..as_far] != begins[..as_far];
            return if hopeless { Err(none()) } else { Ok(None) };
        };
        let text = std::str::from_utf8(&answer[..end]).map_err(|_| none())?;
        let mut lines = text.split("\r\n");
        let status = lines.next().filter(|line| line.starts_with("HTTP/1.")).and_then(|line| line.split(' ').nth(1));
        match status.and_then(|status| status.parse::<u16>().ok()) {
            Some(200) => {}
            Some(status) => return Err(Failed(format!("answered with status {status}"))),
            None => return Err(none()),
        }
        let mut framing = Framing::ToTheEnd;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("transfer-encoding") && !value.eq_ignore_ascii_case("identity") {
                if !value.eq_ignore_ascii_case("chunked") {
                    return Err(Failed(format!("the answer is encoded as {value:.40}")));
                }
                framing = Framing::Chunked;
            } else if name.eq_ignore_ascii_case("content-length") && !matches!(framing, Framing::Chunked) {
                framing = Framing::Length(value.parse().map_err(|_| none())?);
            } else if name.eq_ignore_ascii_case("content-encoding") && !value.eq_ignore_ascii_case("identity") {
                return Err(Failed(format!("the answer is encoded as {value:.40}")));
            }
        }
        Ok(Some(Head { length: end + 4, framing }))
    }

    /// `None` when it has not come whole. `ended` when nothing more comes.
    fn body(&self, came: &[u8], ended: bool) -> Result<Option<Vec<u8>>, Failed> {
        match self.framing {
            Framing::Length(length) => Ok(came.get(..length).map(<[u8]>::to_vec)),
            Framing::ToTheEnd => Ok(ended.then(|| came.to_vec())),
            Framing::Chunked => chunks(came),
        }
    }
}

/// The chunks' content; `None` when the last has not come.
fn chunks(mut came: &[u8]) -> Result<Option<Vec<u8>>, Failed> {
    let wrong = || Failed("the answer's chunks are wrong".into());
    let mut body = Vec::new();
    loop {
        let Some(end) = came.windows(2).position(|bytes| bytes == b"\r\n") else {
            return if came.len() > 1_024 { Err(wrong()) } else { Ok(None) };
        };
        let line = std::str::from_utf8(&came[..end]).map_err(|_| wrong())?;
        let size = line.split(';').next().unwrap_or(line).trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| wrong())?;
        if size == 0 {
            return Ok(Some(body));
        }
        let from = end + 2;
        let to = from.checked_add(size).ok_or_else(wrong)?;
        let Some(next) = to.checked_add(2).filter(|next| *next <= came.len()) else { return Ok(None) };
        if &came[to..next] != b"\r\n" {
            return Err(wrong());
        }
        body.extend_from_slice(&came[from..to]);
        came = &came[next..];
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Far beyond what loopback takes.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// What came of an answer that is written in these pieces; then the connection is closed, unless it `stays`.
    fn answered(pieces: &[&[u8]], stays: bool, timeout: Duration) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url: Url = format!("http://{}/m?x=1", listener.local_addr().unwrap()).parse().unwrap();
        let came = std::thread::scope(|scope| {
            let (over, is_over) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    asked.extend(byte);
                }
                assert!(asked.starts_with(b"GET /m?x=1 HTTP/1.1\r\nHost: 127.0.0.1:"), "{asked:?}");
                for piece in pieces {
                    // Whoever has enough may have gone.
                    let _ = stream.write_all(piece);
                }
                if stays {
                    let _ = is_over.recv_timeout(PATIENCE);
                }
            });
            let came = get(&url, timeout, 1 << 20);
            drop(over);
            came
        });
        came.map(|body| String::from_utf8(body).unwrap()).map_err(|failed| failed.to_string())
    }

    #[test]
    fn a_body_is_read_however_its_end_is_told() {
        let body = Ok("a 1\nb 2\n".to_owned());
        let length: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n", b"\r\na 1\nb", b" 2\n"];
        assert_eq!(answered(length, true, PATIENCE), body, "by its length, whether or not the connection is closed");
        let chunked: &[&[u8]] =
            &[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5;x=y\r\na 1\nb\r", b"\n3\r\n 2\n\r\n0\r\n\r\n"];
        assert_eq!(answered(chunked, true, PATIENCE), body, "by chunks");
        let ends: &[&[u8]] = &[b"HTTP/1.0 200 OK\r\n\r\na 1\n", b"b 2\n"];
        assert_eq!(answered(ends, false, PATIENCE), body, "by the connection's end");
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let long = [b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &vec![b'#'; 2 << 20]].concat();
        for (pieces, says) in [
            (&[b"HTTP/1.1 503 Busy\r\n\r\n".as_slice()] as &[&[u8]], "answered with status 503"),
            (&[b"SSH-2.0-x\r\n"], "no HTTP"),
            (&[b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na 1"], "ended within the answer"),
            (&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"], "chunks are wrong"),
            (&[b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"], "encoded as gzip"),
            (&[], "ended before an answer"),
            (&[long.as_slice()], "over 1 MiB"),
        ] {
            let said = answered(pieces, false, PATIENCE).unwrap_err();
            assert!(said.contains(says), "{said}, not {says}");
        }
        let never = answered(&[b"HTTP/1.1 200 OK\r\n"], true, Duration::from_millis(50));
        assert_eq!(never, Err("no whole answer in time".into()));
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refused = get(&format!("http://{free}").parse().unwrap(), PATIENCE, 1).unwrap_err();
        assert_eq!(refused.to_string(), "connection refused");
    }
}
