//! User headers: a row of name and value, each with a kind and a length.

use bytes::BufMut;

use super::{USER_HEADER_PART_BYTES_MAX, u32_at};

/// Bytes.
pub const HEADER_KIND_RAW: u8 = 1;
/// UTF-8.
pub const HEADER_KIND_STRING: u8 = 2;
/// Bytes of a part before its content: kind and length.
const PART_BYTES: usize = 5;
/// Raw, String, Bool, integers of both signs, floats.
const KINDS: std::ops::RangeInclusive<u8> = 1..=15;

/// One user header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserHeader<'a> {
    /// What kind the name is of.
    pub name_kind: u8,
    /// The name's bytes.
    pub name: &'a [u8],
    /// What kind the value is of.
    pub value_kind: u8,
    /// The value's bytes.
    pub value: &'a [u8],
}

/// The user headers of a message, in order; names may repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserHeaders<'a> {
    left: &'a [u8],
}

impl<'a> UserHeaders<'a> {
    /// The headers that these bytes are.
    pub fn new(bytes: &'a [u8]) -> UserHeaders<'a> {
        UserHeaders { left: bytes }
    }

    /// Whether the bytes are headers to their end, and what they have otherwise.
    pub fn check(&self) -> Result<(), &'static str> {
        let mut all = self.clone();
        while !all.left.is_empty() {
            all.take_one()?;
        }
        Ok(())
    }

    fn take_one(&mut self) -> Result<UserHeader<'a>, &'static str> {
        let (name_kind, name) = self.part()?;
        let (value_kind, value) = self.part()?;
        Ok(UserHeader { name_kind, name, value_kind, value })
    }

    fn part(&mut self) -> Result<(u8, &'a [u8]), &'static str> {
        let (head, rest) = self.left.split_at_checked(PART_BYTES).ok_or("a user header that is cut off")?;
        let length = u32_at(head, 1) as usize;
        if !KINDS.contains(&head[0]) {
            return Err("a user header of an unknown kind");
        }
        if !(1..=USER_HEADER_PART_BYTES_MAX).contains(&length) {
            return Err("a user header whose name or value is not 1 to 255 bytes long");
        }
        let (content, rest) = rest.split_at_checked(length).ok_or("a user header past its end")?;
        self.left = rest;
        Ok((head[0], content))
    }
}

impl<'a> Iterator for UserHeaders<'a> {
    type Item = UserHeader<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let header = self.take_one();
        if header.is_err() {
            self.left = &[];
        }
        header.ok()
    }
}

/// Writes one header. Name and value have 1 to 255 bytes: the caller has seen to it.
pub fn put_user_header(out: &mut impl BufMut, header: &UserHeader<'_>) {
    for (kind, content) in [(header.name_kind, header.name), (header.value_kind, header.value)] {
        debug_assert!((1..=USER_HEADER_PART_BYTES_MAX).contains(&content.len()));
        out.put_u8(kind);
        out.put_u32_le(content.len() as u32);
        out.put_slice(content);
    }
}
