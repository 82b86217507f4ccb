//! Plain tables: ASCII cells in aligned columns, two spaces between, no colour.

/// How a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a header. Cells are printed as they are: make them safe with [`super::label()`] first.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(header: &[(&'static str, Align)]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; missing cells are empty, surplus ones dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().take(self.header.len()).collect();
        cells.resize(self.header.len(), String::new());
        self.rows.push(cells);
    }

    /// True without a row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines, each ended by a line feed and indented by `indent` spaces.
    #[must_use]
    pub fn render(&self, indent: usize) -> String {
        let mut widths: Vec<usize> = self.header.iter().map(|(name, _)| name.len()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let names: Vec<String> = self.header.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut out = String::new();
        for row in std::iter::once(&names).chain(&self.rows) {
            let mut line = " ".repeat(indent);
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if index > 0 {
                    line.push_str("  ");
                }
                let space = " ".repeat(width - cell.chars().count());
                match self.header[index].1 {
                    Align::Left => line.extend([cell.as_str(), &space]),
                    Align::Right => line.extend([&space, cell.as_str()]),
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{Align, Table};

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&[("work", Align::Left), ("n", Align::Right)]);
        table.row(["a".to_owned(), "10".to_owned()]);
        table.row(["longer".to_owned(), "1".to_owned()]);
        assert_eq!(table.render(2), "  work     n\n  a       10\n  longer   1\n");
        assert!(!table.is_empty());
    }
}
