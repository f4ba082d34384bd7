//! The check before decoding: whether a request's counts and lengths fit the bytes that are there.
//!
//! The codec allocates arrays by the count on the wire, so one hostile count would end the process. Here
//! every request is walked by its shape first: a count whose elements could not fit the bytes left, a length
//! past the end, a null where none is allowed, or more than `max_decoded_bytes` in all is refused.
//!
//! What must stay true: for a body that passes, the codec takes exactly the bytes that the walk took. The
//! codec reads a tagged field that it knows without looking at its size, so the walk refuses one whose size
//! is not what its type takes; else everything behind it would be checked at other places than it is read.
//! A client checks responses the same way ([`check_response`]).

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Buf;

use crate::frame::uvarint;
use crate::limits::{
    DECODED_ELEMENT_BYTES, DECODED_RESPONSE_ELEMENT_BYTES, DECODED_TAG_BYTES, DECODED_TAGS_BYTES, DECODED_TEXT_BYTES,
};
use schema::{Field, Type, parse};

mod fill;
mod responses;
mod schema;

/// Requests made from their shapes, for tests of those who serve them.
#[doc(hidden)]
pub mod testing {
    pub use super::fill::full_request;
}

mod shapes;
#[cfg(test)]
mod tests;

/// Why a message is not decoded.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CountError {
    /// Nothing is known of the API.
    #[error("API {0} has no shape here")]
    UnknownApi(i16),
    /// A length or count does not fit.
    #[error("{field} does not fit the message")]
    DoesNotFit {
        /// The field's name.
        field: &'static str,
    },
    /// A null where the protocol has none.
    #[error("{field} must not be null")]
    Null {
        /// The field's name.
        field: &'static str,
    },
    /// Too much in all.
    #[error("{field}: the message would decode to more than max_decoded_bytes = {most}")]
    TooLarge {
        /// The field at which the bound was passed.
        field: &'static str,
        /// The bound.
        most: usize,
    },
}

struct Shape {
    flexible_since: i16,
    fields: Vec<Field>,
}

type Shapes = LazyLock<HashMap<i16, Shape>>;

fn parsed(shapes: &[shapes::Message]) -> HashMap<i16, Shape> {
    let shape = |&(key, flexible_since, text): &shapes::Message| (key, Shape { flexible_since, fields: parse(text) });
    shapes.iter().map(shape).collect()
}

fn shape(api_key: i16) -> Option<&'static Shape> {
    static REQUESTS: Shapes = LazyLock::new(|| parsed(shapes::REQUESTS));
    REQUESTS.get(&api_key)
}

/// Walks a request's body and says how many bytes of it the request takes; the rest is trailing.
///
/// # Errors
/// The request must not be decoded.
pub fn check(api_key: i16, version: i16, body: &[u8], max_decoded_bytes: usize) -> Result<usize, CountError> {
    let shape = shape(api_key).ok_or(CountError::UnknownApi(api_key))?;
    check_message(shape, version, body, DECODED_ELEMENT_BYTES, max_decoded_bytes)
}

/// As [`check`], for the body of a response.
///
/// # Errors
/// The response must not be decoded.
pub fn check_response(api_key: i16, version: i16, body: &[u8], max_decoded_bytes: usize) -> Result<usize, CountError> {
    static RESPONSES: Shapes = LazyLock::new(|| parsed(responses::RESPONSES));
    let shape = RESPONSES.get(&api_key).ok_or(CountError::UnknownApi(api_key))?;
    check_message(shape, version, body, DECODED_RESPONSE_ELEMENT_BYTES, max_decoded_bytes)
}

fn check_message(
    shape: &Shape,
    version: i16,
    body: &[u8],
    element_bytes: usize,
    most: usize,
) -> Result<usize, CountError> {
    let flexible = version >= shape.flexible_since;
    let mut walk = Walk { left: body, version, flexible, element_bytes, decoded: 0, most };
    walk.fields(&shape.fields)?;
    Ok(body.len() - walk.left.len())
}

/// Checks the blob of a member's subscription (`ConsumerProtocolSubscription`) and says as which version
/// the bytes behind its leading version are to be decoded: a newer one than known begins like the newest
/// that is (as Kafka's `ConsumerProtocol` reads it), with bytes left over.
///
/// # Errors
/// The blob must not be decoded.
pub fn check_subscription(blob: &[u8], max_decoded_bytes: usize) -> Result<i16, CountError> {
    static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| parse(shapes::SUBSCRIPTION));
    check_blob(&FIELDS, blob, max_decoded_bytes)
}

/// As [`check_subscription`], for the blob of an assignment (`ConsumerProtocolAssignment`).
///
/// # Errors
/// The blob must not be decoded.
pub fn check_assignment(blob: &[u8], max_decoded_bytes: usize) -> Result<i16, CountError> {
    static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| parse(shapes::ASSIGNMENT));
    check_blob(&FIELDS, blob, max_decoded_bytes)
}

fn check_blob(fields: &[Field], mut blob: &[u8], most: usize) -> Result<i16, CountError> {
    let version = blob.try_get_i16().ok().filter(|version| *version >= 0);
    let version = version.ok_or(CountError::DoesNotFit { field: "version" })?;
    let version = version.min(shapes::CONSUMER_PROTOCOL_NEWEST);
    let element_bytes = DECODED_ELEMENT_BYTES;
    Walk { left: blob, version, flexible: false, element_bytes, decoded: 0, most }.fields(fields)?;
    Ok(version)
}

struct Walk<'a> {
    left: &'a [u8],
    version: i16,
    flexible: bool,
    /// What a struct in an array is taken to hold.
    element_bytes: usize,
    /// More than what was walked takes once it is decoded.
    decoded: usize,
    most: usize,
}

impl Walk<'_> {
    fn fields(&mut self, fields: &[Field]) -> Result<(), CountError> {
        let version = self.version;
        for field in fields.iter().filter(|f| f.is_in(version)) {
            self.value(field.name, &field.ty)?;
        }
        if self.flexible {
            self.tags(fields)?;
        }
        Ok(())
    }

    fn value(&mut self, field: &'static str, ty: &Type) -> Result<(), CountError> {
        match ty {
            Type::Fixed(size) => self.skip(field, *size),
            Type::Text { nullable_since, wide } => match self.length(field, *wide)? {
                None if self.version >= *nullable_since => Ok(()),
                None => Err(CountError::Null { field }),
                Some(length) => self.skip(field, length),
            },
            Type::Array { nullable_since, element } => {
                let count = match self.length(field, true)? {
                    None if self.version >= *nullable_since => return Ok(()),
                    None => return Err(CountError::Null { field }),
                    Some(count) => count,
                };
                if count.saturating_mul(self.least(element).max(1)) > self.left.len() {
                    return Err(CountError::DoesNotFit { field });
                }
                let each = match &**element {
                    Type::Fixed(size) => *size,
                    Type::Text { .. } => DECODED_TEXT_BYTES,
                    Type::Array { .. } | Type::Struct { .. } => self.element_bytes,
                };
                self.add(field, count.saturating_mul(each))?;
                for _ in 0..count {
                    self.value(field, element)?;
                }
                Ok(())
            }
            Type::Struct { nullable: false, fields } => self.fields(fields),
            Type::Struct { nullable: true, fields } => match self.left.try_get_i8() {
                Ok(1) => self.fields(fields),
                Ok(-1) => Ok(()),
                _ => Err(CountError::DoesNotFit { field }),
            },
        }
    }

    /// The fewest bytes that a value takes.
    fn least(&self, ty: &Type) -> usize {
        match ty {
            Type::Fixed(size) => *size,
            Type::Text { .. } | Type::Array { .. } if self.flexible => 1,
            Type::Text { wide: false, .. } => 2,
            Type::Text { .. } | Type::Array { .. } => 4,
            Type::Struct { nullable: true, .. } => 1,
            Type::Struct { nullable: false, fields } => {
                let fields = fields.iter().filter(|f| f.is_in(self.version));
                fields.map(|f| self.least(&f.ty)).sum::<usize>() + usize::from(self.flexible)
            }
        }
    }

    fn length(&mut self, field: &'static str, wide: bool) -> Result<Option<usize>, CountError> {
        let does_not_fit = CountError::DoesNotFit { field };
        if self.flexible {
            let length = uvarint(&mut self.left).ok_or(does_not_fit)?;
            return Ok((length as usize).checked_sub(1));
        }
        let length = if wide { self.left.try_get_i32().ok() } else { self.left.try_get_i16().ok().map(i32::from) };
        match length {
            Some(-1) => Ok(None),
            Some(length) => usize::try_from(length).map(Some).map_err(|_| does_not_fit),
            None => Err(does_not_fit),
        }
    }

    /// The tagged fields behind a struct's own.
    fn tags(&mut self, fields: &[Field]) -> Result<(), CountError> {
        let field = "tagged fields";
        let does_not_fit = || CountError::DoesNotFit { field };
        let count = uvarint(&mut self.left).ok_or_else(does_not_fit)? as usize;
        if count == 0 {
            return Ok(());
        }
        if count.saturating_mul(2) > self.left.len() {
            return Err(does_not_fit());
        }
        self.add(field, DECODED_TAGS_BYTES + count * DECODED_TAG_BYTES)?;
        for _ in 0..count {
            let tag = uvarint(&mut self.left).ok_or_else(does_not_fit)?;
            let size = uvarint(&mut self.left).ok_or_else(does_not_fit)? as usize;
            let known = fields.iter().find(|f| f.tag == Some(tag) && f.is_known(self.version));
            let Some(known) = known else {
                self.skip(field, size)?;
                continue;
            };
            let before = self.left.len();
            self.value(known.name, &known.ty)?;
            if before - self.left.len() != size {
                return Err(CountError::DoesNotFit { field: known.name });
            }
        }
        Ok(())
    }

    fn skip(&mut self, field: &'static str, size: usize) -> Result<(), CountError> {
        self.left = self.left.get(size..).ok_or(CountError::DoesNotFit { field })?;
        Ok(())
    }

    fn add(&mut self, field: &'static str, bytes: usize) -> Result<(), CountError> {
        self.decoded = self.decoded.saturating_add(bytes);
        if self.decoded > self.most {
            return Err(CountError::TooLarge { field, most: self.most });
        }
        Ok(())
    }
}
