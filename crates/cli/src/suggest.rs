//! The nearest right word to a wrong one.

/// The candidate that needs the fewest changes, if it is near enough to have been meant.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let bound = (word.len() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= bound || (word.len() > 2 && candidate.starts_with(word))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// A question to put behind an error, or nothing.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    nearest(word, candidates)
        .map_or_else(String::new, |found| format!(" (did you mean {found:?}?)"))
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(a != b);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant_and_nothing_far_fetched() {
        let kinds = ["pods", "deployments", "propagationpolicies", "clusters"];
        for (word, expected) in [
            ("pdos", Some("pods")),
            ("deploymnts", Some("deployments")),
            ("propagationpolicys", Some("propagationpolicies")),
            ("clus", Some("clusters")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, kinds), expected, "{word}");
        }
    }
}
