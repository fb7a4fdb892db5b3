//! Cuts a template into text and the words of its actions.

use super::Error;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// What is printed as it stands.
    Text(String),
    Open,
    Close,
    /// A name: a keyword, a function, `true`, `false` or `nil`.
    Word(String),
    /// `.a`; the name is empty for the dot alone. The flag says whether it follows what is before it directly.
    Field(String, bool),
    /// `$` or `$x`.
    Variable(String),
    String(String),
    Number(f64, bool),
    Declare,
    Assign,
    Pipe,
    Comma,
    LeftParen,
    RightParen,
}

/// A token and the line it is on.
pub(super) type Placed = (Token, usize);

pub(super) fn lex(text: &str) -> Result<Vec<Placed>, Error> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 1);
    let mut trim_next = false;
    loop {
        let Some((plain, action)) = rest.split_once("{{") else {
            push_text(&mut tokens, rest, trim_next, false, line);
            return Ok(tokens);
        };
        let trim_before =
            action.starts_with("- ") || action.starts_with("-\n") || action.starts_with("-/*");
        push_text(&mut tokens, plain, trim_next, trim_before, line);
        line += plain.matches('\n').count();
        let unclosed = || Error::Parse { line, message: "unclosed action".to_owned() };
        let end = end_of_action(action).ok_or_else(unclosed)?;
        let (inside, after) = (&action[..end], &action[end + 2..]);
        trim_next = inside.ends_with(" -") || inside.ends_with("\n-") || inside.ends_with("*/-");
        let inside = if trim_before { &inside[1..] } else { inside };
        let inside = if trim_next { inside.strip_suffix('-').unwrap_or(inside) } else { inside };
        if !inside.trim().starts_with("/*") {
            tokens.push((Token::Open, line));
            lex_action(inside, &mut line.clone(), &mut tokens)?;
            tokens.push((Token::Close, line));
        }
        line += action[..end].matches('\n').count();
        rest = after;
    }
}

fn push_text(tokens: &mut Vec<Placed>, text: &str, trim_start: bool, trim_end: bool, line: usize) {
    let text = if trim_start { text.trim_start() } else { text };
    let text = if trim_end { text.trim_end() } else { text };
    if !text.is_empty() {
        tokens.push((Token::Text(text.to_owned()), line));
    }
}

/// Where `}}` stands, outside of quotes and comments.
fn end_of_action(action: &str) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    let trimmed = action.trim_start_matches('-').trim_start();
    if trimmed.starts_with("/*") {
        let comment = action.find("*/")?;
        return action[comment..].find("}}").map(|end| comment + end);
    }
    for (place, character) in action.char_indices() {
        match quote {
            Some('"' | '\'') if is_escaped => is_escaped = false,
            Some('"' | '\'') if character == '\\' => is_escaped = true,
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if ['"', '`', '\''].contains(&character) => quote = Some(character),
            None if action[place..].starts_with("}}") => return Some(place),
            None => {}
        }
    }
    None
}

fn lex_action(text: &str, line: &mut usize, tokens: &mut Vec<Placed>) -> Result<(), Error> {
    let mut rest = text;
    let mut follows = false;
    while let Some(first) = rest.chars().next() {
        let name_end = |from: usize| {
            rest[from..].find(|c: char| !is_name(c)).map_or(rest.len(), |end| from + end)
        };
        let (token, length) = match first {
            '\n' => {
                *line += 1;
                follows = false;
                rest = &rest[1..];
                continue;
            }
            c if c.is_whitespace() => {
                follows = false;
                rest = &rest[c.len_utf8()..];
                continue;
            }
            '"' | '`' | '\'' => {
                let (text, length) = lex_string(rest, first, *line)?;
                (Token::String(text), length)
            }
            '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let end = name_end(1);
                (Token::Field(rest[1..end].to_owned(), follows), end)
            }
            '$' => {
                let end = name_end(1);
                (Token::Variable(rest[..end].to_owned()), end)
            }
            ':' if rest.starts_with(":=") => (Token::Declare, 2),
            '=' => (Token::Assign, 1),
            '|' => (Token::Pipe, 1),
            ',' => (Token::Comma, 1),
            '(' => (Token::LeftParen, 1),
            ')' => (Token::RightParen, 1),
            c if c.is_ascii_digit() || c == '-' || c == '+' || c == '.' => lex_number(rest, *line)?,
            c if is_name(c) => {
                let end = name_end(0);
                (Token::Word(rest[..end].to_owned()), end)
            }
            other => {
                let message = format!("unexpected {other:?} in command");
                return Err(Error::Parse { line: *line, message });
            }
        };
        follows = true;
        tokens.push((token, *line));
        rest = &rest[length..];
    }
    Ok(())
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn lex_number(rest: &str, line: usize) -> Result<(Token, usize), Error> {
    let end = rest[1..].find(|c: char| !(is_name(c) || c == '.')).map_or(rest.len(), |end| end + 1);
    let text = &rest[..end];
    let bad = || Error::Parse { line, message: format!("bad number syntax: {text:?}") };
    let number: f64 = text.parse().map_err(|_| bad())?;
    Ok((Token::Number(number, text.parse::<i64>().is_ok()), end))
}

/// The text between quotes, and how long it is with them.
fn lex_string(rest: &str, quote: char, line: usize) -> Result<(String, usize), Error> {
    let unterminated = || Error::Parse { line, message: "unterminated quoted string".to_owned() };
    if quote == '`' {
        let end = rest[1..].find('`').ok_or_else(unterminated)?;
        return Ok((rest[1..=end].to_owned(), end + 2));
    }
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((place, character)) = characters.next() {
        match character {
            c if c == quote => return Ok((text, place + 1)),
            '\\' => match characters.next().ok_or_else(unterminated)?.1 {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
    Err(unterminated())
}
