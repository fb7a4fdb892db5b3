//! Lines up cells in columns, byte for byte as kubectl's writer does: each cell is padded to the widest of its
//! column plus three, and the last cell of a line is not padded.

/// The least width of a column, its padding included.
const LEAST: usize = 6;
const PADDING: usize = 3;

/// Widths of columns that outlive one table, so that lines of a watch go on lining up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    widths: Vec<usize>,
}

impl Columns {
    /// Lays out lines; the cells of each are padded except the last.
    pub(crate) fn lay_out(&mut self, lines: &[Vec<String>]) -> String {
        for line in lines {
            let padded = line.len().saturating_sub(1);
            for (place, cell) in line.iter().take(padded).enumerate() {
                let width = (cell.chars().count() + PADDING).max(LEAST);
                match self.widths.get_mut(place) {
                    Some(widest) => *widest = (*widest).max(width),
                    None => self.widths.push(width),
                }
            }
        }
        let mut text = String::new();
        for line in lines {
            for (place, cell) in line.iter().enumerate() {
                text.push_str(cell);
                if place + 1 < line.len() {
                    let width = self.widths.get(place).copied().unwrap_or_default();
                    text.extend(std::iter::repeat_n(
                        ' ',
                        width.saturating_sub(cell.chars().count()),
                    ));
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Lays out one table.
pub(crate) fn lay_out(lines: &[Vec<String>]) -> String {
    Columns::default().lay_out(lines)
}

/// Lays out a table whose last cells are padded too, as `top` prints them.
pub(crate) fn lay_out_padded(lines: &[Vec<String>]) -> String {
    let with_end: Vec<Vec<String>> = lines
        .iter()
        .map(|line| line.iter().cloned().chain(std::iter::once(String::new())).collect())
        .collect();
    lay_out(&with_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect()
    }

    #[test]
    fn cells_line_up_as_kubectl_lines_them_up() {
        let table = lines(&[&["NAME", "CLUSTER", "A", "AGE"], &["nginx", "Karmada", "1", "8s"]]);
        assert_eq!(lay_out(&table), "NAME    CLUSTER   A     AGE\nnginx   Karmada   1     8s\n");
        let top = lines(&[&["NAME", "MEMORY(bytes)"], &["a", "8Mi"]]);
        assert_eq!(lay_out_padded(&top), "NAME   MEMORY(bytes)   \na      8Mi             \n");
    }

    #[test]
    fn widths_are_remembered_between_tables() {
        let mut columns = Columns::default();
        columns.lay_out(&lines(&[&["a-long-name", "x"]]));
        assert_eq!(columns.lay_out(&lines(&[&["b", "y"]])), "b             y\n");
    }
}
