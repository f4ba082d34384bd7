//! Columns that stand under each other.

use std::fmt;

/// Which side of its column a cell keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers, so that their units stand under each other.
    Right,
}

/// A table of plain text: columns as wide as their widest cell, two spaces between.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these headings; a table whose headings are all "" has none.
    pub fn new<const N: usize>(columns: [(&str, Align); N]) -> Table {
        Table { columns: columns.into_iter().map(|(name, align)| (name.to_owned(), align)).collect(), rows: Vec::new() }
    }

    /// Adds a row, a cell per column.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.columns.len());
        self.rows.push(cells.into());
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headings: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let headed = headings.iter().any(|name| !name.is_empty());
        let lines = headed.then_some(&headings).into_iter().chain(&self.rows);
        let width = |cell: &str| cell.chars().count();
        let widths: Vec<usize> =
            (0..self.columns.len()).map(|at| lines.clone().map(|line| width(&line[at])).max().unwrap_or(0)).collect();
        for line in lines {
            let mut text = String::new();
            for (at, (cell, (_, align))) in line.iter().zip(&self.columns).enumerate() {
                let padding = " ".repeat(widths[at] - width(cell));
                text.push_str("  ");
                match align {
                    Align::Left => text.extend([cell, padding.as_str()]),
                    Align::Right => text.extend([padding.as_str(), cell]),
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([("name", Align::Left), ("p99", Align::Right)]);
        table.row(["rt".into(), "3.21 ms".into()]);
        table.row(["heartbeat".into(), "5.00 µs".into()]);
        assert_eq!(table.to_string(), "  name           p99\n  rt         3.21 ms\n  heartbeat  5.00 µs\n");
    }
}
