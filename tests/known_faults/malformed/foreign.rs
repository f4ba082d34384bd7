//! Frames whose length is wrong, and other protocols.

use std::io::Write;
use std::net::TcpStream;

use super::{Witness, assert_no_panic, options};
use crate::common::frames::framed;
use crate::common::gateway::Gateway;
use crate::common::raw::Raw;

#[test]
fn k111_memory_grows_by_the_bytes_that_came_and_not_by_those_that_were_announced() {
    let gateway = Gateway::start(options());
    let mut witness = Witness::of(&gateway);
    witness.is_served();
    let before = gateway.rss();
    let announced: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(gateway.bootstrap()).expect("connect");
            stream.write_all(&(100u32 << 20).to_be_bytes()).expect("send");
            stream.write_all(&[0]).expect("send");
            stream
        })
        .collect();
    witness.is_served();
    let grown = gateway.rss().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB for {} announced frames of 100 MiB", announced.len());
    // Past the limit, or too little for a header: closed at once.
    for length in [(100 << 20) + 1, i32::MAX, -1, i32::MIN, 0, 3, 7] {
        let mut raw = Raw::connect(gateway.bootstrap());
        raw.send_bytes(&length.to_be_bytes());
        raw.assert_closed();
        witness.is_served();
    }
    let mut raw = Raw::connect(gateway.bootstrap());
    raw.send_bytes(&framed(&[0, 18, 0]));
    raw.assert_closed();
    drop(announced);
    assert_no_panic(&gateway);
}

#[test]
fn k114_other_protocols_are_closed_at_once_with_a_line_that_says_what_they_look_like() {
    // DESIGN: TLS is not served yet, so there is no TLS port to speak plaintext to.
    let gateway = Gateway::start(options());
    let mut witness = Witness::of(&gateway);
    witness.is_served();
    let before = gateway.rss();
    let tls_hello = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03];
    for (bytes, hint) in [
        (&tls_hello[..], "TLS"),
        (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", "HTTP"),
        (b"POST /topics HTTP/1.1\r\nHost: here\r\n\r\n", "HTTP"),
        (b"HEAD / HTTP/1.0\r\n\r\n", "HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
    ] {
        let mut raw = Raw::connect(gateway.bootstrap());
        raw.send_bytes(bytes);
        raw.assert_closed();
        gateway.until_logged(&[&raw.address().to_string(), hint]);
        witness.is_served();
    }
    let grown = gateway.rss().saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB more");
    assert_no_panic(&gateway);
}
