//! Colours, where they are wanted.

use std::io::IsTerminal;

/// `--color`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set or TERM is `dumb`.
    #[default]
    Auto,
    /// Whatever the output is.
    Always,
    /// Plain text.
    Never,
}

/// Paints text, or leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    enabled: bool,
}

impl Paint {
    /// Plain text.
    pub const PLAIN: Paint = Paint { enabled: false };

    /// As the user wants it on this stream.
    pub fn of(choice: ColorChoice, stream: &impl IsTerminal) -> Paint {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let enabled = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            // https://no-color.org: any value but the empty one.
            ColorChoice::Auto => {
                stream.is_terminal() && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
            }
        };
        Paint { enabled }
    }

    /// Whether it paints.
    pub fn is_enabled(self) -> bool {
        self.enabled
    }

    /// What the eye should find first.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What is there for completeness.
    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// As it should be.
    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// Not as it should be.
    pub fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// To be minded.
    pub fn warn(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.enabled { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_not_painted_unless_asked_for() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(Paint::of(ColorChoice::Auto, &file), Paint::PLAIN);
        assert_eq!(Paint::of(ColorChoice::Always, &file).bad("x"), "\x1b[1;31mx\x1b[0m");
        assert_eq!(Paint::of(ColorChoice::Never, &file).bad("x"), "x");
    }
}
