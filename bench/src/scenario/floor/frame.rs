//! Frames: a `u32` big-endian length, then as many bytes, of which the first twelve are the size wanted of the answer
//! (`u32`, its length field counted) and the request's number (`u64`). A plain echo sends frames back as they are.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes of a frame at least: its head.
pub const FRAME_MIN: usize = 16;
/// And at most: a bound for what is announced on the wire.
pub const FRAME_MAX: usize = 16 << 20;

/// A frame that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes: from {FRAME_MIN} to {FRAME_MAX} were expected")]
pub struct BadFrame(pub usize);

/// The head of a frame of `bytes` in all.
pub fn head(bytes: usize, wanted: usize, number: u64) -> Bytes {
    let mut head = BytesMut::with_capacity(FRAME_MIN);
    head.put_u32((bytes - 4) as u32);
    head.put_u32(wanted as u32);
    head.put_u64(number);
    head.freeze()
}

/// A frame that has arrived: its size in all, and its head's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its length field counted.
    pub bytes: usize,
    /// The size wanted of an answer.
    pub wanted: usize,
    /// The request's number.
    pub number: u64,
}

/// The frame at the front, once all of it is there.
pub fn peek(held: &[u8]) -> Result<Option<Arrived>, BadFrame> {
    let Some(mut head) = held.get(..4) else { return Ok(None) };
    let bytes = 4 + head.get_u32() as usize;
    if !(FRAME_MIN..=FRAME_MAX).contains(&bytes) {
        return Err(BadFrame(bytes));
    }
    let Some(frame) = held.get(..bytes) else { return Ok(None) };
    let mut head = &frame[4..];
    Ok(Some(Arrived { bytes, wanted: head.get_u32() as usize, number: head.get_u64() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_seen_when_all_of_it_is_there() {
        let mut bytes = head(20, 64, 7).to_vec();
        bytes.extend([0; 4]);
        assert_eq!(peek(&bytes[..3]), Ok(None));
        assert_eq!(peek(&bytes[..19]), Ok(None));
        assert_eq!(peek(&bytes), Ok(Some(Arrived { bytes: 20, wanted: 64, number: 7 })));
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert_eq!(peek(&[0, 0, 0, 3, 1, 2, 3]), Err(BadFrame(7)));
        assert!(peek(&[255; 8]).is_err());
    }
}
