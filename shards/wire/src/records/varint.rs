//! Zigzag varints inside records. Lengths and deltas are of 32 bits and take 5 bytes at most, timestamps of
//! 64 bits and 10: Kafka's `ByteUtils` refuses longer ones, so a record with one could not be consumed.

use bytes::{BufMut, BytesMut};

/// The last shift of a 32-bit varint, and the last byte's largest value.
pub(super) const LAST_32: (u32, u8) = (28, 0x0f);
/// The same for 64 bits.
pub(super) const LAST_64: (u32, u8) = (63, 1);

pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Takes a 64-bit varint off the front; `None` when it is cut off or too long.
pub(super) fn take_64(bytes: &mut &[u8]) -> Option<i64> {
    take(bytes, LAST_64)
}

/// Takes a 32-bit varint off the front; `None` when it is cut off or too long.
pub(super) fn take_32(bytes: &mut &[u8]) -> Option<i32> {
    take(bytes, LAST_32).map(|value| value as i32)
}

fn take(bytes: &mut &[u8], (last_shift, last_most): (u32, u8)) -> Option<i64> {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let (&byte, rest) = bytes.split_first()?;
        if shift == last_shift && byte > last_most {
            return None;
        }
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(unzigzag(value));
        }
        shift += 7;
    }
}

/// Writes a varint of either width.
pub(super) fn put(out: &mut BytesMut, value: i64) {
    let mut value = (value << 1 ^ value >> 63) as u64;
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Bytes that [`put`] writes.
pub(super) fn size(value: i64) -> usize {
    let value = (value << 1 ^ value >> 63) as u64;
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back_and_have_the_size_foretold() {
        let edges = [0, 1, -1, 63, 64, -64, -65, 8191, 8192, i32::MAX.into(), i32::MIN.into(), i64::MAX, i64::MIN];
        for value in edges {
            let mut out = BytesMut::new();
            put(&mut out, value);
            assert_eq!(out.len(), size(value), "{value}");
            let mut left = &out[..];
            assert_eq!((take_64(&mut left), left.len()), (Some(value), 0));
            let expected = i32::try_from(value).ok();
            assert_eq!(take_32(&mut &out[..]), expected, "{value}");
        }
    }

    #[test]
    fn too_long_and_cut_off_varints_are_refused() {
        assert_eq!(take_32(&mut &[0x80, 0x80, 0x80, 0x80, 0x80, 0][..]), None);
        assert_eq!(take_32(&mut &[0x80, 0x80, 0x80, 0x80, 0][..]), Some(0));
        assert_eq!(take_32(&mut &[0xff, 0xff, 0xff, 0xff, 0x1f][..]), None);
        assert_eq!(take_64(&mut &[0xff; 10][..]), None);
        assert_eq!(take_64(&mut &[0x80; 3][..]), None);
        assert_eq!(take_64(&mut &[][..]), None);
    }
}
