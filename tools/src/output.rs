//! What is shown: tables for people, one JSON document for programs, errors on stderr.

use std::io::{self, BufWriter, Write};

use serde_json::{Map, Value, json};

/// Why a tool ends early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Whoever read the output has seen enough.
    #[error("nobody reads any more")]
    NobodyReads,
    /// The output cannot be written.
    #[error("the output cannot be written: {0}")]
    Output(io::Error),
    /// Anything else, in words.
    #[error("{0}")]
    Why(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::NobodyReads,
            _ => Failure::Output(error),
        }
    }
}

impl From<ringgate_client::CallError> for Failure {
    fn from(error: ringgate_client::CallError) -> Failure {
        Failure::Why(error.to_string())
    }
}

/// Where a tool's output goes, as it comes.
pub struct Output<W: Write> {
    out: BufWriter<W>,
    json: bool,
    /// A list of the document is open, and has elements.
    list: Option<bool>,
    errors: Vec<Value>,
}

impl<W: Write> Output<W> {
    /// As JSON or as text.
    pub fn new(out: W, json: bool) -> Output<W> {
        Output { out: BufWriter::new(out), json, list: None, errors: Vec::new() }
    }

    /// Whether it is JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether anything went wrong.
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Begins the document: what it has beside the list `name`, whose elements follow.
    pub fn begin(&mut self, beside: Map<String, Value>, name: &str) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        write!(self.out, "{{\"version\":1")?;
        for (name, value) in beside {
            write!(self.out, ",{}:{value}", Value::String(name))?;
        }
        write!(self.out, ",{}:[", Value::from(name))?;
        self.list = Some(false);
        Ok(())
    }

    /// One more element of the list.
    pub fn element(&mut self, element: &Value) -> Result<(), Failure> {
        let separator = if self.list.replace(true) == Some(true) { ",\n" } else { "\n" };
        write!(self.out, "{separator}{element}")?;
        Ok(())
    }

    /// Text as it is.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes())?;
        Ok(())
    }

    /// A line for people that is no part of what programs read.
    pub fn note(&mut self, text: &str) -> Result<(), Failure> {
        if self.json { Ok(()) } else { self.text(&format!("{}\n", printable(text))) }
    }

    /// What is written so far is to be seen now.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush()?;
        Ok(())
    }

    /// Tells people that there is nothing to show, where a program finds an empty list; on stderr, for what is shown is
    /// a table and nothing else.
    pub fn nothing(&self, text: &str) {
        if !self.json {
            eprintln!("ringgate: {}", printable(text));
        }
    }

    /// Tells what is missing and why; the exit code will be 1. What belongs before it has been shown by then.
    pub fn error(&mut self, subject: &str, why: &str) -> Result<(), Failure> {
        self.flush()?;
        // Most errors say themselves what they are about.
        let why = without_subject(why, subject);
        eprintln!("ringgate: {}: {}", printable(subject), printable(why));
        self.errors.push(json!({"subject": subject, "error": why}));
        Ok(())
    }

    /// That the tool could not do what it was to do at all, in words; the exit code will be 1.
    pub fn fail(&mut self, why: &str) -> Result<(), Failure> {
        self.flush()?;
        eprintln!("ringgate: {}", printable(why));
        self.errors.push(json!({"subject": null, "error": why}));
        Ok(())
    }

    /// Ends the document. One that was never begun says why.
    pub fn end(&mut self) -> Result<(), Failure> {
        if self.json {
            let errors = Value::from(self.errors.clone());
            match self.list.take() {
                Some(_) => writeln!(self.out, "],\"errors\":{errors}}}")?,
                None => writeln!(self.out, "{}", json!({"version": 1, "errors": errors}))?,
            }
        }
        self.flush()
    }
}

/// What an error says beside what it is about, where that is said already.
pub fn without_subject<'a>(why: &'a str, subject: &str) -> &'a str {
    why.strip_prefix(subject).and_then(|why| why.strip_prefix(": ")).unwrap_or(why)
}

/// Names come from clients: what would move a terminal's cursor is shown as its escape.
pub fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_string();
    }
    text.chars()
        .map(|letter| if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() })
        .collect()
}

/// `1 member`, `2 members`.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A text for programs: null where there is none.
pub fn text_or_null(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}

/// A number, or a dash where there is none.
pub fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// A table whose columns stand under each other. Rows may be taken from it while it grows; columns only become wider.
pub struct Table {
    /// A name that begins with `>` is of a column of numbers, which stand right.
    head: &'static [&'static str],
    widths: Vec<usize>,
    rows: Vec<Vec<String>>,
    headed: bool,
}

impl Table {
    /// Without rows.
    pub fn new(head: &'static [&'static str]) -> Table {
        let widths = head.iter().map(|name| name.trim_start_matches('>').chars().count()).collect();
        Table { head, widths, rows: Vec::new(), headed: false }
    }

    /// One more row, as many cells as there are columns.
    pub fn row(&mut self, cells: Vec<String>) {
        let cells: Vec<String> =
            cells.into_iter().map(|cell| if cell.is_empty() { "-".into() } else { printable(&cell) }).collect();
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.chars().count());
        }
        self.rows.push(cells);
    }

    /// The rows so far, once, below the head, once.
    pub fn take(&mut self) -> String {
        let mut text = String::new();
        if self.rows.is_empty() {
            return text;
        }
        if !std::mem::replace(&mut self.headed, true) {
            let head: Vec<String> = self.head.iter().map(|name| name.trim_start_matches('>').to_string()).collect();
            self.line(&head, &mut text);
        }
        for row in std::mem::take(&mut self.rows) {
            self.line(&row, &mut text);
        }
        text
    }

    fn line(&self, cells: &[String], text: &mut String) {
        let from = text.len();
        for ((cell, width), name) in cells.iter().zip(&self.widths).zip(self.head) {
            if text.len() > from {
                text.push_str("  ");
            }
            let pad = width.saturating_sub(cell.chars().count());
            if name.starts_with('>') {
                text.extend(std::iter::repeat_n(' ', pad));
                text.push_str(cell);
            } else {
                text.push_str(cell);
                text.extend(std::iter::repeat_n(' ', pad));
            }
        }
        text.truncate(text.trim_end().len().max(from));
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other_and_numbers_right() {
        let mut table = Table::new(&["GROUP", ">LAG", "STATE"]);
        assert_eq!(table.take(), "");
        table.row(vec!["billing".into(), "7".into(), "Stable".into()]);
        table.row(vec!["b".into(), "12345".into(), String::new()]);
        assert_eq!(table.take(), "GROUP      LAG  STATE\nbilling      7  Stable\nb        12345  -\n");
        table.row(vec!["a\u{1b}[2Jb".into(), "1".into(), "Dead".into()]);
        assert_eq!(table.take(), "a\\u{1b}[2Jb      1  Dead\n");
    }

    #[test]
    fn a_document_is_whole_with_and_without_elements_and_errors() {
        let read = |elements: usize, fail: bool| -> Value {
            let mut bytes = Vec::new();
            let mut out = Output::new(&mut bytes, true);
            let beside = Map::from_iter([("group".to_string(), json!("g"))]);
            out.begin(beside, "partitions").expect("written");
            for element in 0..elements {
                out.element(&json!({"partition": element})).expect("written");
            }
            if fail {
                out.error("group h", "GROUP_ID_NOT_FOUND").expect("written");
            }
            out.end().expect("written");
            assert_eq!(out.has_errors(), fail);
            drop(out);
            serde_json::from_slice(&bytes).expect("JSON")
        };
        assert_eq!(read(0, false), json!({"version": 1, "group": "g", "partitions": [], "errors": []}));
        let two = read(2, true);
        assert_eq!(two["partitions"][1]["partition"], 1);
        assert_eq!(two["errors"][0], json!({"subject": "group h", "error": "GROUP_ID_NOT_FOUND"}));
    }

    #[test]
    fn an_error_that_says_what_it_is_about_says_it_once() {
        let mut bytes = Vec::new();
        let mut out = Output::new(&mut bytes, true);
        for why in ["group g: NOT_COORDINATOR", "NOT_COORDINATOR"] {
            out.error("group g", why).expect("written");
        }
        out.end().expect("written");
        drop(out);
        let document: Value = serde_json::from_slice(&bytes).expect("JSON");
        for error in document["errors"].as_array().expect("errors") {
            assert_eq!(*error, json!({"subject": "group g", "error": "NOT_COORDINATOR"}));
        }
    }

    #[test]
    fn a_reader_who_has_seen_enough_is_told_from_an_output_that_fails() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(failure, Failure::NobodyReads));
        assert!(matches!(Failure::from(io::Error::other("full")), Failure::Output(_)));
    }
}
