//! Pages of a listing: at most [`MAX_ROWS`] rows and [`MAX_PAGE_BYTES`] bytes, in either form, with the offset of the
//! next one.

use crate::protocol::{Code, Fault};

/// Most rows of a page.
pub const MAX_ROWS: usize = 256;
/// Most bytes of a page, as text and as JSON.
pub const MAX_PAGE_BYTES: usize = 65_536;
/// What a page keeps for everything around its rows. The longest frame quotes four identities of 256 bytes, of at most
/// 770 characters each, and says a few sentences.
const FRAME_BYTES: usize = 4_096;

/// One row in both forms. Text is ASCII, without the line feed; JSON is one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// For people.
    pub text: String,
    /// For programs.
    pub json: String,
}

/// Consecutive rows of a listing. Both forms hold the same rows, so an offset means the same in both.
#[derive(Clone, Debug)]
pub struct Page {
    /// The rows.
    pub lines: Vec<Line>,
    /// Number of the first row, from 0.
    pub offset: usize,
    /// All rows of the listing.
    pub total: usize,
}

impl Page {
    /// Takes rows from `offset` on, until `limit` or the bounds are reached. `row` makes the row of a number below
    /// `total`; it is asked for no more than one row beyond the page.
    ///
    /// # Errors
    /// `resource_limit` if the first row alone is too long.
    pub fn fill(total: usize, offset: usize, limit: usize, mut row: impl FnMut(usize) -> Line) -> Result<Self, Fault> {
        let mut page = Self { lines: Vec::new(), offset, total };
        let (mut text, mut json) = (FRAME_BYTES, FRAME_BYTES);
        for number in offset..total {
            if page.lines.len() >= limit.min(MAX_ROWS) {
                break;
            }
            let line = row(number);
            text += line.text.len() + 1;
            json += line.json.len() + 1;
            if text > MAX_PAGE_BYTES || json > MAX_PAGE_BYTES {
                if page.lines.is_empty() {
                    return Err(Fault::new(Code::ResourceLimit, "one row alone is longer than a page"));
                }
                break;
            }
            page.lines.push(line);
        }
        Ok(page)
    }

    /// Takes further lines that stand beside the rows, at most `most`, as far as the page has room for them in both
    /// forms.
    pub fn beside(&self, most: usize, lines: impl Iterator<Item = Line>) -> Vec<Line> {
        let (mut text, mut json) = (FRAME_BYTES, FRAME_BYTES);
        let mut fits = |line: &Line| {
            text += line.text.len() + 1;
            json += line.json.len() + 1;
            text <= MAX_PAGE_BYTES && json <= MAX_PAGE_BYTES
        };
        let rows = self.lines.len();
        self.lines.iter().cloned().chain(lines).take(rows + most).take_while(|line| fits(line)).skip(rows).collect()
    }

    /// Number of the next row, where there is one.
    #[must_use]
    pub fn next_offset(&self) -> Option<usize> {
        let next = self.offset.saturating_add(self.lines.len());
        (next < self.total).then_some(next)
    }

    /// `first..last/total` for people, counted from 1.
    #[must_use]
    pub fn range(&self) -> String {
        if self.lines.is_empty() {
            return format!("none/{}", self.total);
        }
        format!("{}..{}/{}", self.offset + 1, self.offset + self.lines.len(), self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, MAX_PAGE_BYTES, Page};

    fn line(text: usize, json: usize) -> Line {
        Line { text: "x".repeat(text), json: "x".repeat(json) }
    }

    #[test]
    fn a_page_ends_at_its_first_bound() {
        let page = |total, offset, limit, size| Page::fill(total, offset, limit, |_| line(size, size)).unwrap();
        assert_eq!((page(300, 0, 300, 1).lines.len(), page(300, 0, 300, 1).next_offset()), (256, Some(256)));
        assert_eq!((page(10, 8, 5, 1).lines.len(), page(10, 8, 5, 1).next_offset()), (2, None));
        assert_eq!((page(10, 99, 5, 1).lines.len(), page(10, 99, 5, 1).next_offset()), (0, None));
        assert_eq!((page(10, 99, 5, 1).range().as_str(), page(10, 8, 5, 1).range().as_str()), ("none/10", "9..10/10"));
        assert_eq!(page(0, 0, 5, 1).range(), "none/0");
        let long = page(99, 3, 256, 2000);
        assert_eq!((long.lines.len(), long.next_offset()), (30, Some(33)));
        for (text, json) in [(MAX_PAGE_BYTES, 1), (1, MAX_PAGE_BYTES)] {
            let refused = Page::fill(2, 0, 256, |_| line(text, json)).unwrap_err();
            assert_eq!(refused.code().as_str(), "resource_limit");
            // A long row in second place waits for the next page.
            let page = Page::fill(2, 0, 256, |n| if n == 0 { line(1, 1) } else { line(text, json) }).unwrap();
            assert_eq!(page.next_offset(), Some(1));
        }
    }
}
