//! A small language for the shape of requests, so that one walker can check them all.
//!
//! `name:type` fields in wire order, each with the versions that have it (`/5` from 5, `/3-7`). Types are
//! `bool i8 i16 i32 i64 uuid str nstr bytes nbytes`; `[ ... ]` is an array of structs and `[ :type ]` one of
//! values; `n[` may be null. In flexible versions strings, bytes and arrays have varint lengths and
//! every struct ends with tagged fields.

/// A type on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    /// This many bytes.
    Fixed(usize),
    /// A string or bytes.
    Text { nullable: bool, wide: bool },
    /// An array.
    Array { nullable: bool, element: Element },
}

/// What an array holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Element {
    Value(Box<Type>),
    Struct(Vec<Field>),
}

/// A field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) ty: Type,
    pub(crate) since: i16,
    pub(crate) until: i16,
}

impl Field {
    pub(crate) fn is_in(&self, version: i16) -> bool {
        (self.since..=self.until).contains(&version)
    }
}

/// Reads a shape. It is part of the program: a mistake in it is found by any test that uses it.
pub(crate) fn parse(text: &'static str) -> Vec<Field> {
    let mut words = text.split_whitespace().peekable();
    let fields = fields(&mut words);
    assert!(words.next().is_none(), "unbalanced brackets in a request's shape");
    fields
}

type Words = std::iter::Peekable<std::str::SplitWhitespace<'static>>;

fn fields(words: &mut Words) -> Vec<Field> {
    let mut fields = Vec::new();
    while let Some(word) = words.next_if(|word| !word.starts_with(']')) {
        let (name, spec) = word.split_once(':').expect("name:type");
        let (ty, versions) = match spec {
            "[" | "n[" => {
                let mut inner = self::fields(words);
                let close = words.next().expect("a closing bracket");
                let element = match &inner[..] {
                    [only] if only.name.is_empty() => Element::Value(Box::new(inner.remove(0).ty)),
                    _ => Element::Struct(inner),
                };
                (Type::Array { nullable: spec.starts_with('n'), element }, close.strip_prefix(']').unwrap_or(""))
            }
            _ => {
                let (ty, versions) = spec.split_once('/').map_or((spec, ""), |(ty, _)| (ty, &spec[ty.len()..]));
                (scalar(ty), versions)
            }
        };
        let (since, until) = range(versions);
        fields.push(Field { name, ty, since, until });
    }
    fields
}

fn scalar(ty: &str) -> Type {
    match ty {
        "bool" | "i8" => Type::Fixed(1),
        "i16" => Type::Fixed(2),
        "i32" => Type::Fixed(4),
        "i64" => Type::Fixed(8),
        "uuid" => Type::Fixed(16),
        "str" => Type::Text { nullable: false, wide: false },
        "nstr" => Type::Text { nullable: true, wide: false },
        "bytes" => Type::Text { nullable: false, wide: true },
        "nbytes" => Type::Text { nullable: true, wide: true },
        other => panic!("no such type: {other}"),
    }
}

fn range(versions: &str) -> (i16, i16) {
    let Some(versions) = versions.strip_prefix('/') else { return (0, i16::MAX) };
    match versions.split_once('-') {
        Some((since, until)) => (since.parse().expect("a version"), until.parse().expect("a version")),
        None => (versions.parse().expect("a version"), i16::MAX),
    }
}
