//! The payload of a message whose record does not fit user headers: an empty or long key; a null, empty, long
//! or repeated header; headers over Iggy's bound.
//!
//! `u8 flags (1 key, 2 value), u32 key length, key, u32 value length, value, u32 headers, each: u32 name
//! length, name, u8 present, u32 value length, value`, little-endian.

use bytes::BufMut;
use ringgate_wire::records::Record;

const HAS_KEY: u8 = 1;
const HAS_VALUE: u8 = 2;

/// A record without its place and time.
pub(super) struct Parts<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

/// Bytes of the envelope that [`put`] writes.
pub(super) fn size(record: &Record<'_>) -> usize {
    let length = |bytes: Option<&[u8]>| 4 + bytes.map_or(0, <[u8]>::len);
    let headers: usize = record.headers.clone().map(|(name, value)| 4 + name.len() + 1 + length(value)).sum();
    1 + length(record.key) + length(record.value) + 4 + headers
}

/// Writes the envelope of a record, whose parts have less than 4 GiB.
pub(super) fn put(out: &mut impl BufMut, record: &Record<'_>) {
    let flag = |bytes: Option<&[u8]>, flag| if bytes.is_some() { flag } else { 0 };
    out.put_u8(flag(record.key, HAS_KEY) | flag(record.value, HAS_VALUE));
    put_bytes(out, record.key);
    put_bytes(out, record.value);
    out.put_u32_le(record.headers.len() as u32);
    for (name, value) in record.headers.clone() {
        put_bytes(out, Some(name));
        out.put_u8(value.is_some().into());
        put_bytes(out, value);
    }
}

fn put_bytes(out: &mut impl BufMut, bytes: Option<&[u8]>) {
    let bytes = bytes.unwrap_or_default();
    out.put_u32_le(bytes.len() as u32);
    out.put_slice(bytes);
}

/// Reads an envelope to its end.
pub(super) fn read(payload: &[u8]) -> Result<Parts<'_>, &'static str> {
    let left = &mut &payload[..];
    let flags = take(left, 1)?[0];
    if flags & !(HAS_KEY | HAS_VALUE) != 0 {
        return Err("an envelope with unknown flags");
    }
    let key = optional(take_bytes(left)?, flags & HAS_KEY != 0)?;
    let value = optional(take_bytes(left)?, flags & HAS_VALUE != 0)?;
    let count = take_u32(left)?;
    // Not by the count, which is any number: each header takes bytes that are there or ends this.
    let mut headers = Vec::new();
    for _ in 0..count {
        let name = take_bytes(left)?;
        let is_there = match take(left, 1)?[0] {
            0 => false,
            1 => true,
            _ => return Err("an envelope whose header is neither there nor not"),
        };
        headers.push((name, optional(take_bytes(left)?, is_there)?));
    }
    if !left.is_empty() {
        return Err("bytes behind its envelope");
    }
    Ok(Parts { key, value, headers })
}

fn optional(bytes: &[u8], is_there: bool) -> Result<Option<&[u8]>, &'static str> {
    match (is_there, bytes.is_empty()) {
        (true, _) => Ok(Some(bytes)),
        (false, true) => Ok(None),
        (false, false) => Err("an envelope with bytes of what is not there"),
    }
}

fn take<'a>(left: &mut &'a [u8], length: usize) -> Result<&'a [u8], &'static str> {
    let (bytes, rest) = left.split_at_checked(length).ok_or("an envelope that is cut off")?;
    *left = rest;
    Ok(bytes)
}

fn take_u32(left: &mut &[u8]) -> Result<u32, &'static str> {
    let bytes = take(left, 4)?;
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn take_bytes<'a>(left: &mut &'a [u8]) -> Result<&'a [u8], &'static str> {
    let length = take_u32(left)?;
    take(left, usize::try_from(length).unwrap_or(usize::MAX))
}
