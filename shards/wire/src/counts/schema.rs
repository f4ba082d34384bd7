//! A small language for the shape of messages, so that one walker can check them all.
//!
//! Fields `name:type` stand in wire order. Types are `bool i8 i16 i32 i64 uuid str bytes`, `[ ... ]` for an
//! array of structs, `[ :type ]` for one of values, and `{ ... }` for a struct. An `n` before the type allows
//! null, `n7` from version 7 on. `@1` makes it a tagged field with tag 1. `/5` is there from version 5,
//! `/3-7` in these. In flexible versions strings, bytes and arrays have varint lengths and every struct ends
//! with tagged fields.

/// The version in which nothing is.
const NEVER: i16 = i16::MAX;

/// A type on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Type {
    /// This many bytes.
    Fixed(usize),
    /// A string, or bytes when `wide`.
    Text { nullable_since: i16, wide: bool },
    /// An array.
    Array { nullable_since: i16, element: Box<Type> },
    /// A struct; one that may be null has a byte in front that says whether it is there.
    Struct { nullable: bool, fields: Vec<Field> },
}

/// A field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) ty: Type,
    /// Its tag, when it is a tagged field.
    pub(super) tag: Option<u32>,
    pub(super) since: i16,
    pub(super) until: i16,
}

impl Field {
    /// Whether it stands among the ordinary fields of this version.
    pub(super) fn is_in(&self, version: i16) -> bool {
        self.tag.is_none() && self.is_known(version)
    }

    /// Whether this version has it, tagged or not.
    pub(super) fn is_known(&self, version: i16) -> bool {
        (self.since..=self.until).contains(&version)
    }
}

/// Reads a shape. It is part of the program: a mistake in it is found by any test that uses it.
pub(super) fn parse(text: &'static str) -> Vec<Field> {
    let mut words = text.split_whitespace().peekable();
    let fields = fields(&mut words);
    assert!(words.next().is_none(), "unbalanced brackets in a shape");
    fields
}

type Words = std::iter::Peekable<std::str::SplitWhitespace<'static>>;

fn fields(words: &mut Words) -> Vec<Field> {
    let mut fields = Vec::new();
    while let Some(word) = words.next_if(|word| !word.starts_with([']', '}'])) {
        let (name, spec) = word.split_once(':').expect("name:type");
        let (nullable_since, spec) = nullable(spec);
        let (ty, place) = match spec {
            "[" => {
                let mut inner = self::fields(words);
                let element = match &inner[..] {
                    [only] if only.name.is_empty() => inner.remove(0).ty,
                    _ => Type::Struct { nullable: false, fields: inner },
                };
                let element = Box::new(element);
                let ty = Type::Array { nullable_since, element };
                (ty, close(words, ']'))
            }
            "{" => {
                let fields = self::fields(words);
                let nullable = nullable_since != NEVER;
                (Type::Struct { nullable, fields }, close(words, '}'))
            }
            _ => {
                let (ty, place) = spec.split_at(spec.find(['@', '/']).unwrap_or(spec.len()));
                (scalar(ty, nullable_since), place)
            }
        };
        let (tag, (since, until)) = placed(place);
        fields.push(Field { name, ty, tag, since, until });
    }
    fields
}

fn close(words: &mut Words, bracket: char) -> &'static str {
    let word = words.next().expect("a closing bracket");
    word.strip_prefix(bracket).expect("the same bracket closes")
}

fn nullable(spec: &'static str) -> (i16, &'static str) {
    let Some(spec) = spec.strip_prefix('n') else {
        return (NEVER, spec);
    };
    let digits = spec.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let since = &spec[..digits];
    (if since.is_empty() { 0 } else { version(since) }, &spec[digits..])
}

fn scalar(ty: &str, nullable_since: i16) -> Type {
    match ty {
        "bool" | "i8" => Type::Fixed(1),
        "i16" => Type::Fixed(2),
        "i32" => Type::Fixed(4),
        "i64" => Type::Fixed(8),
        "uuid" => Type::Fixed(16),
        "str" => Type::Text { nullable_since, wide: false },
        "bytes" => Type::Text { nullable_since, wide: true },
        other => panic!("no such type: {other}"),
    }
}

/// Tag and versions.
fn placed(place: &str) -> (Option<u32>, (i16, i16)) {
    let (tag, versions) = match place.strip_prefix('@') {
        None => (None, place),
        Some(rest) => {
            let (tag, versions) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (Some(tag.parse().expect("a tag")), versions)
        }
    };
    let range = match versions.strip_prefix('/') {
        None => (0, NEVER),
        Some(range) => match range.split_once('-') {
            Some((since, until)) => (version(since), version(until)),
            None => (version(range), NEVER),
        },
    };
    (tag, range)
}

fn version(text: &str) -> i16 {
    text.parse().expect("a version")
}
