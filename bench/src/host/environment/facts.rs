//! Facts by name, and why others are missing.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::Value;

use crate::host::root::Root;

/// What is being collected.
pub(super) struct Facts {
    pub root: Root,
    facts: BTreeMap<String, Value>,
    unread: BTreeMap<String, String>,
}

impl Facts {
    pub fn new(root: Root) -> Facts {
        Facts { root, facts: BTreeMap::new(), unread: BTreeMap::new() }
    }

    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.facts.insert(name.to_owned(), value.into());
    }

    /// A fact that may be unreadable.
    pub fn read<V: Into<Value>>(&mut self, name: &str, value: io::Result<V>) {
        match value {
            Ok(value) => self.set(name, value),
            Err(error) => {
                self.unread.insert(name.to_owned(), error.to_string());
            }
        }
    }

    /// A whole file as text.
    pub fn file(&mut self, name: &str, below: impl AsRef<Path>) {
        let text = self.root.text(below);
        self.read(name, text);
    }

    pub fn finish(mut self) -> BTreeMap<String, Value> {
        let unread: serde_json::Map<String, Value> =
            self.unread.into_iter().map(|(name, reason)| (name, reason.into())).collect();
        self.facts.insert("unread".to_owned(), unread.into());
        self.facts
    }
}
