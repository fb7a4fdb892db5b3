//! Problems of an expression, shown with the line they are in.

/// One problem at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) at: usize,
    pub(crate) text: String,
}

/// All problems as clients know them: message, line, and a mark below it.
pub(crate) fn render(source: &str, problems: &[Problem]) -> String {
    let shown: Vec<String> = problems.iter().map(|problem| show(source, problem)).collect();
    shown.join("\n")
}

fn show(source: &str, problem: &Problem) -> String {
    let chars: Vec<char> = source.chars().collect();
    let at = problem.at.min(chars.len());
    let before = &chars[..at];
    let line = before.iter().filter(|c| **c == '\n').count() + 1;
    let start = before.iter().rposition(|c| *c == '\n').map_or(0, |newline| newline + 1);
    let column = at - start;
    let text: String = chars[start..].iter().take_while(|c| **c != '\n').collect();
    let dots = ".".repeat(column);
    format!("ERROR: <input>:{line}:{}: {}\n | {text}\n | {dots}^", column + 1, problem.text)
}
