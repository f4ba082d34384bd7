//! UTF-8 text that shares its bytes.

use std::borrow::Borrow;
use std::fmt;
use std::str::Utf8Error;

use bytes::Bytes;

/// A string whose clones share one allocation. It may be a slice of a read buffer; what a group keeps
/// is [`Text::detached`] from it first, so that no buffer outlives its request.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(Bytes);

impl Text {
    /// No characters.
    pub const EMPTY: Text = Text(Bytes::new());

    /// Text of a constant.
    pub const fn from_static(text: &'static str) -> Text {
        Text(Bytes::from_static(text.as_bytes()))
    }

    /// Takes over bytes that must be UTF-8.
    pub fn from_utf8(bytes: Bytes) -> Result<Text, Utf8Error> {
        std::str::from_utf8(&bytes)?;
        Ok(Text(bytes))
    }

    /// The characters.
    pub fn as_str(&self) -> &str {
        // Checked when it was made; checking again keeps this crate free of unsafe code.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The bytes, UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, UTF-8.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Bytes of UTF-8.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no characters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A copy with an allocation of its own.
    pub fn detached(&self) -> Text {
        Text(detached(&self.0))
    }
}

/// A copy with an allocation of its own, exactly as large as the bytes.
pub(crate) fn detached(bytes: &[u8]) -> Bytes {
    if bytes.is_empty() { Bytes::new() } else { Bytes::copy_from_slice(bytes) }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(Bytes::from(text.into_bytes()))
    }
}

// `[u8]` hashes and compares as `Bytes` does, so maps keyed by text can be asked by bytes.
impl Borrow<[u8]> for Text {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_map_keyed_by_text_can_be_asked_by_bytes() {
        let map: HashMap<Text, i32> = [(Text::from("orders"), 1)].into();
        assert_eq!(map.get(b"orders".as_slice()), Some(&1));
        assert_eq!(map.get(b"other".as_slice()), None);
    }

    #[test]
    fn bytes_that_are_no_utf8_are_refused() {
        assert!(Text::from_utf8(Bytes::from_static(b"\xff")).is_err());
    }
}
