//! The check before decoding: whether a request's counts and lengths fit the bytes that are there.
//!
//! The codec allocates arrays by the count on the wire, so one hostile count would end the process. Here
//! every request is walked by its shape first: a count whose elements could not fit the bytes left, a length
//! past the end, a null where none is allowed, or more than `max_decoded_bytes` in all is refused.

use std::collections::HashMap;
use std::sync::OnceLock;

use bytes::Buf;

use crate::frame::uvarint;
use crate::limits::DECODED_ELEMENT_BYTES;
use crate::schema::{Element, Field, Type, parse};

/// Why a request is not decoded.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CountError {
    /// Nothing is known of the API.
    #[error("API {0} has no shape here")]
    UnknownApi(i16),
    /// A length or count does not fit.
    #[error("{field} does not fit the request")]
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
    #[error("{field}: the request would decode to more than max_decoded_bytes = {most}")]
    TooLarge {
        /// The field at which the bound was passed.
        field: &'static str,
        /// The bound.
        most: usize,
    },
}

/// The shapes of the requests that are served: API, first flexible version, fields.
const SHAPES: &[(i16, i16, &str)] = &[
    (
        0,
        9,
        "transactional_id:nstr acks:i16 timeout_ms:i32 topic_data:[ name:str/0-12 topic_id:uuid/13 \
         partition_data:[ index:i32 records:nbytes ] ]",
    ),
    (
        1,
        12,
        "replica_id:i32/0-14 max_wait_ms:i32 min_bytes:i32 max_bytes:i32 isolation_level:i8 session_id:i32/7 \
         session_epoch:i32/7 topics:[ topic:str/0-12 topic_id:uuid/13 partitions:[ partition:i32 \
         current_leader_epoch:i32/9 fetch_offset:i64 last_fetched_epoch:i32/12 log_start_offset:i64/5 \
         partition_max_bytes:i32 ] ] forgotten_topics_data:[ topic:str/0-12 topic_id:uuid/13 partitions:[ :i32 ] ]/7 \
         rack_id:str/11",
    ),
    (
        2,
        6,
        "replica_id:i32 isolation_level:i8/2 topics:[ name:str partitions:[ partition_index:i32 \
         current_leader_epoch:i32/4 timestamp:i64 ] ] timeout_ms:i32/10",
    ),
    (
        3,
        9,
        "topics:n[ topic_id:uuid/10 name:nstr ] allow_auto_topic_creation:bool/4 \
         include_cluster_authorized_operations:bool/8-10 include_topic_authorized_operations:bool/8",
    ),
    (
        8,
        8,
        "group_id:str generation_id:i32 member_id:str group_instance_id:nstr/7 retention_time_ms:i64/2-4 topics:[ \
         name:str partitions:[ partition_index:i32 committed_offset:i64 committed_leader_epoch:i32/6 \
         committed_metadata:nstr ] ]",
    ),
    (
        9,
        6,
        "group_id:str/0-7 topics:n[ name:str partition_indexes:[ :i32 ] ]/0-7 groups:[ group_id:str \
         member_id:nstr/9 member_epoch:i32/9 topics:n[ name:str partition_indexes:[ :i32 ] ] ]/8 \
         require_stable:bool/7",
    ),
    (10, 3, "key:str/0-3 key_type:i8/1 coordinator_keys:[ :str ]/4"),
    (
        11,
        6,
        "group_id:str session_timeout_ms:i32 rebalance_timeout_ms:i32/1 member_id:str group_instance_id:nstr/5 \
         protocol_type:str protocols:[ name:str metadata:bytes ] reason:nstr/8",
    ),
    (12, 4, "group_id:str generation_id:i32 member_id:str group_instance_id:nstr/3"),
    (
        13,
        4,
        "group_id:str member_id:str/0-2 members:[ member_id:str group_instance_id:nstr reason:nstr/5 ]/3",
    ),
    (
        14,
        4,
        "group_id:str generation_id:i32 member_id:str group_instance_id:nstr/3 protocol_type:nstr/5 \
         protocol_name:nstr/5 assignments:[ member_id:str assignment:bytes ]",
    ),
    (15, 5, "groups:[ :str ] include_authorized_operations:bool/3"),
    (16, 3, "states_filter:[ :str ]/4 types_filter:[ :str ]/5"),
    (18, 3, "client_software_name:str/3 client_software_version:str/3"),
    (
        19,
        5,
        "topics:[ name:str num_partitions:i32 replication_factor:i16 assignments:[ partition_index:i32 \
         broker_ids:[ :i32 ] ] configs:[ name:str value:nstr ] ] timeout_ms:i32 validate_only:bool",
    ),
    (20, 4, "topics:[ name:nstr topic_id:uuid ]/6 topic_names:[ :str ]/0-5 timeout_ms:i32"),
    (22, 2, "transactional_id:nstr transaction_timeout_ms:i32 producer_id:i64/3 producer_epoch:i16/3"),
];

pub(crate) struct Shape {
    pub(crate) flexible_since: i16,
    pub(crate) fields: Vec<Field>,
}

pub(crate) fn shape(api_key: i16) -> Option<&'static Shape> {
    static PARSED: OnceLock<HashMap<i16, Shape>> = OnceLock::new();
    PARSED
        .get_or_init(|| {
            let shape = |&(key, flexible_since, text)| (key, Shape { flexible_since, fields: parse(text) });
            SHAPES.iter().map(shape).collect()
        })
        .get(&api_key)
}

/// Walks a request's body and says how many bytes of it the request takes; the rest is trailing.
///
/// # Errors
/// The request must not be decoded.
pub fn check(api_key: i16, version: i16, body: &[u8], max_decoded_bytes: usize) -> Result<usize, CountError> {
    let shape = shape(api_key).ok_or(CountError::UnknownApi(api_key))?;
    let mut walk = Walk {
        left: body,
        version,
        flexible: version >= shape.flexible_since,
        decoded: 0,
        most: max_decoded_bytes,
    };
    walk.fields(&shape.fields)?;
    Ok(body.len() - walk.left.len())
}

struct Walk<'a> {
    left: &'a [u8],
    version: i16,
    flexible: bool,
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
            self.tags()?;
        }
        Ok(())
    }

    fn value(&mut self, field: &'static str, ty: &Type) -> Result<(), CountError> {
        match ty {
            Type::Fixed(size) => self.skip(field, *size),
            Type::Text { nullable, wide } => match self.length(field, *wide)? {
                None if *nullable => Ok(()),
                None => Err(CountError::Null { field }),
                Some(length) => self.skip(field, length),
            },
            Type::Array { nullable, element } => {
                let count = match self.length(field, true)? {
                    None if *nullable => return Ok(()),
                    None => return Err(CountError::Null { field }),
                    Some(count) => count,
                };
                if count.saturating_mul(self.least(element).max(1)) > self.left.len() {
                    return Err(CountError::DoesNotFit { field });
                }
                self.add(field, count.saturating_mul(DECODED_ELEMENT_BYTES))?;
                for _ in 0..count {
                    match element {
                        Element::Value(ty) => self.value(field, ty)?,
                        Element::Struct(fields) => self.fields(fields)?,
                    }
                }
                Ok(())
            }
        }
    }

    /// The fewest bytes that one element takes.
    fn least(&self, element: &Element) -> usize {
        match element {
            Element::Value(ty) => self.least_value(ty),
            Element::Struct(fields) => {
                let fields = fields.iter().filter(|f| f.is_in(self.version));
                fields.map(|f| self.least_value(&f.ty)).sum::<usize>() + usize::from(self.flexible)
            }
        }
    }

    fn least_value(&self, ty: &Type) -> usize {
        match ty {
            Type::Fixed(size) => *size,
            Type::Text { wide: false, .. } if !self.flexible => 2,
            Type::Text { .. } | Type::Array { .. } => if self.flexible { 1 } else { 4 },
        }
    }

    fn length(&mut self, field: &'static str, wide: bool) -> Result<Option<usize>, CountError> {
        let does_not_fit = CountError::DoesNotFit { field };
        if self.flexible {
            let length = uvarint(&mut self.left).ok_or(does_not_fit)?;
            return Ok((length as usize).checked_sub(1));
        }
        let length = if wide {
            self.left.try_get_i32().map_err(|_| CountError::DoesNotFit { field })?
        } else {
            i32::from(self.left.try_get_i16().map_err(|_| CountError::DoesNotFit { field })?)
        };
        match length {
            -1 => Ok(None),
            _ => usize::try_from(length).map(Some).map_err(|_| does_not_fit),
        }
    }

    fn tags(&mut self) -> Result<(), CountError> {
        let field = "tagged fields";
        let does_not_fit = || CountError::DoesNotFit { field };
        let count = uvarint(&mut self.left).ok_or_else(does_not_fit)? as usize;
        if count.saturating_mul(2) > self.left.len() {
            return Err(does_not_fit());
        }
        self.add(field, count * DECODED_ELEMENT_BYTES)?;
        for _ in 0..count {
            uvarint(&mut self.left).ok_or_else(does_not_fit)?;
            let size = uvarint(&mut self.left).ok_or_else(does_not_fit)?;
            self.skip(field, size as usize)?;
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

/// Requests made from the shapes, for tests.
#[doc(hidden)]
pub mod testing {
    use super::{Element, Field, Shape, Type, shape};
    use bytes::BufMut;

    /// Writes a request with every field of the version set and two elements in every array.
    pub fn fill(api_key: i16, version: i16, out: &mut impl BufMut) {
        if let Some(Shape { flexible_since, fields }) = shape(api_key) {
            fill_fields(fields, version, version >= *flexible_since, out);
        }
    }

    fn fill_fields(fields: &[Field], version: i16, flexible: bool, out: &mut impl BufMut) {
        for field in fields.iter().filter(|f| f.is_in(version)) {
            fill_value(&field.ty, version, flexible, out);
        }
        if flexible {
            out.put_u8(0);
        }
    }

    fn fill_value(ty: &Type, version: i16, flexible: bool, out: &mut impl BufMut) {
        match ty {
            // One is a true bool, too.
            Type::Fixed(size) => {
                out.put_bytes(0, size - 1);
                out.put_u8(1);
            }
            Type::Text { wide, .. } => {
                match (flexible, wide) {
                    (true, _) => out.put_u8(4),
                    (false, true) => out.put_i32(3),
                    (false, false) => out.put_i16(3),
                }
                out.put_slice(b"abc");
            }
            Type::Array { element, .. } => {
                if flexible {
                    out.put_u8(3);
                } else {
                    out.put_i32(2);
                }
                for _ in 0..2 {
                    match element {
                        Element::Value(ty) => fill_value(ty, version, flexible, out),
                        Element::Struct(fields) => fill_fields(fields, version, flexible, out),
                    }
                }
            }
        }
    }
}
