//! GET requests to the admin port of a gateway that was started with `admin-listen`.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::LIVENESS;
use super::gateway::Gateway;
use super::metrics::admin;

/// Status and body of the answer.
pub fn get(gateway: &Gateway, path: &str) -> (u16, String) {
    get_as(gateway, path, &admin(gateway).to_string())
}

/// As [`get`], by a client that knows the admin port by this name.
pub fn get_as(gateway: &Gateway, path: &str, host: &str) -> (u16, String) {
    ask(gateway, "GET", path, host)
}

/// As [`get_as`], with this method.
pub fn ask(gateway: &Gateway, method: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(admin(gateway)).expect("connect");
    stream.set_read_timeout(Some(LIVENESS)).expect("read timeout");
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("ask");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_string())
}
