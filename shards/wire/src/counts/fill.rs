//! Messages made from their shapes: what the codec must read to the end and write again the same.

use bytes::BufMut;

#[cfg(test)]
use super::schema::parse;
use super::schema::{Field, Type};
use super::{Shape, shape};

/// How a message is filled.
#[derive(Clone, Copy)]
pub(super) struct Fill {
    pub(super) version: i16,
    pub(super) flexible: bool,
    /// Elements in every array.
    pub(super) elements: usize,
    /// Whether everything that may be null is.
    pub(super) nulls: bool,
}

/// Writes a request with every field of the version set and two elements in every array.
pub fn full_request(api_key: i16, version: i16, out: &mut impl BufMut) {
    let Shape { flexible_since, fields } = shape(api_key).expect("a shape");
    let flexible = version >= *flexible_since;
    Fill { version, flexible, elements: 2, nulls: false }.fields(fields, out);
}

/// A request with nulls and empty arrays.
#[cfg(test)]
pub(super) fn bare_request(api_key: i16, version: i16, out: &mut impl BufMut) {
    let Shape { flexible_since, fields } = shape(api_key).expect("a shape");
    let flexible = version >= *flexible_since;
    Fill { version, flexible, elements: 0, nulls: true }.fields(fields, out);
}

/// Writes any message of a shape.
#[cfg(test)]
pub(super) fn message(text: &'static str, fill: Fill, out: &mut impl BufMut) {
    fill.fields(&parse(text), out);
}

impl Fill {
    fn fields(self, fields: &[Field], out: &mut impl BufMut) {
        for field in fields.iter().filter(|f| f.is_in(self.version)) {
            self.value(&field.ty, out);
        }
        if self.flexible {
            let mut tagged: Vec<_> = fields.iter().filter(|f| f.tag.is_some() && f.is_known(self.version)).collect();
            tagged.sort_by_key(|f| f.tag);
            if self.nulls {
                tagged.clear();
            }
            out.put_u8(tagged.len() as u8);
            for field in tagged {
                let mut value = Vec::new();
                self.value(&field.ty, &mut value);
                // Two bytes hold what two elements of a few fields take.
                out.put_u8(field.tag.expect("it is tagged") as u8);
                match value.len() {
                    size @ 0..0x80 => out.put_u8(size as u8),
                    size => {
                        assert!(size < 1 << 14);
                        out.put_u8(size as u8 | 0x80);
                        out.put_u8((size >> 7) as u8);
                    }
                }
                out.put_slice(&value);
            }
        }
    }

    fn value(self, ty: &Type, out: &mut impl BufMut) {
        match ty {
            // One is a true bool, too.
            Type::Fixed(size) => {
                out.put_bytes(0, size - 1);
                out.put_u8(1);
            }
            Type::Text { nullable_since, wide } => {
                if self.nulls && self.version >= *nullable_since {
                    return self.length(-1, *wide, out);
                }
                self.length(3, *wide, out);
                out.put_slice(b"abc");
            }
            Type::Array { nullable_since, element } => {
                if self.nulls && self.version >= *nullable_since {
                    return self.length(-1, true, out);
                }
                self.length(self.elements as i8, true, out);
                for _ in 0..self.elements {
                    self.value(element, out);
                }
            }
            Type::Struct { nullable: false, fields } => self.fields(fields, out),
            Type::Struct { nullable: true, .. } if self.nulls => out.put_i8(-1),
            Type::Struct { nullable: true, fields } => {
                out.put_i8(1);
                self.fields(fields, out);
            }
        }
    }

    fn length(self, length: i8, wide: bool, out: &mut impl BufMut) {
        match (self.flexible, wide) {
            (true, _) => out.put_i8(length + 1),
            (false, true) => out.put_i32(length.into()),
            (false, false) => out.put_i16(length.into()),
        }
    }
}
