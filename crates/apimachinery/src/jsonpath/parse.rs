//! From text to nodes and steps.

use super::{Error, Node, Slice, Step};

/// Filters and unions nest; deeper than this nobody means it.
const MAX_DEPTH: usize = 32;

pub(super) fn template(text: &str) -> Result<Vec<Node>, Error> {
    let mut parser = Parser { rest: text, depth: 0 };
    let mut nodes = Vec::new();
    // Ranges that are still open, each with the nodes before it.
    let mut open: Vec<(Vec<Step>, Vec<Node>)> = Vec::new();
    while !parser.rest.is_empty() {
        if let Some(plain) = parser.plain_text() {
            nodes.push(Node::Text(plain.to_owned()));
            continue;
        }
        let steps = parser.action()?;
        match steps.split_first() {
            Some((Step::Word(word), over)) if word == "range" => {
                open.push((over.to_vec(), std::mem::take(&mut nodes)));
            }
            Some((Step::Word(word), _)) if word == "end" => {
                let (over, before) =
                    open.pop().ok_or_else(|| Error::new("not in range, nothing to end"))?;
                let body = std::mem::replace(&mut nodes, before);
                nodes.push(Node::Range { over, body });
            }
            _ => nodes.push(Node::Action(steps)),
        }
    }
    // A range may stay open up to the end of the template.
    while let Some((over, before)) = open.pop() {
        let body = std::mem::replace(&mut nodes, before);
        nodes.push(Node::Range { over, body });
    }
    Ok(nodes)
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

fn ends_name(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// The text before the next action, if there is any.
    fn plain_text(&mut self) -> Option<&'t str> {
        let length = self.rest.find('{').unwrap_or(self.rest.len());
        (length > 0).then(|| self.take(length))
    }

    /// Reads `{…}`.
    fn action(&mut self) -> Result<Vec<Step>, Error> {
        self.take(1);
        let steps = self.steps(Some('}'))?;
        self.take(1);
        Ok(steps)
    }

    /// Parses text that stands for an action without its braces.
    fn nested(&self, text: &str) -> Result<Vec<Step>, Error> {
        if self.depth >= MAX_DEPTH {
            return Err(Error::new("expression is nested too deeply"));
        }
        Parser { rest: text, depth: self.depth + 1 }.steps(None)
    }

    fn steps(&mut self, end: Option<char>) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::new();
        loop {
            if self.rest.starts_with("[?(") {
                steps.push(self.filter()?);
                continue;
            }
            if self.rest.starts_with("..") {
                if matches!(steps.last(), Some(Step::Recursive)) {
                    return Err(Error::new("invalid multiple recursive descent"));
                }
                self.take(2);
                steps.push(Step::Recursive);
                if self.peek().is_some_and(is_word) {
                    steps.push(self.field());
                }
                continue;
            }
            match self.peek() {
                found if found == end => return Ok(steps),
                None | Some('\r' | '\n') => return Err(Error::new("unclosed action")),
                Some(' ' | '@' | '$') => drop(self.take(1)),
                Some('[') => self.brackets(&mut steps)?,
                Some(quote @ ('"' | '\'')) => steps.push(self.quoted(quote)?),
                Some('.') => {
                    self.take(1);
                    steps.push(self.field());
                }
                Some(c) if matches!(c, '+' | '-') || c.is_ascii_digit() => {
                    steps.push(self.number()?);
                }
                Some(c) if is_word(c) => steps.push(self.word()),
                Some(c) => {
                    return Err(Error::new(format!(
                        "unrecognized character in action: U+{:04X} '{c}'",
                        u32::from(c)
                    )));
                }
            }
        }
    }

    /// Reads a field name, in which a backslash takes the next character literally.
    fn field(&mut self) -> Step {
        let mut escaped = false;
        let length = self.rest.find(|c| {
            let ends = !escaped && ends_name(c);
            escaped = !escaped && c == '\\';
            ends
        });
        match self.take(length.unwrap_or(self.rest.len())) {
            "*" => Step::Wildcard,
            name => Step::Field(name.replace('\\', "")),
        }
    }

    fn word(&mut self) -> Step {
        match self.take(self.rest.find(ends_name).unwrap_or(self.rest.len())) {
            "true" => Step::Literal(true.into()),
            "false" => Step::Literal(false.into()),
            word => Step::Word(word.to_owned()),
        }
    }

    fn number(&mut self) -> Result<Step, Error> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest.get(sign..).unwrap_or_default();
        let length = digits.find(|c: char| c != '.' && !c.is_ascii_digit());
        let text = self.take(sign + length.unwrap_or(digits.len()));
        if let Ok(whole) = text.parse::<i64>() {
            return Ok(Step::Literal(whole.into()));
        }
        match text.parse::<f64>() {
            Ok(float) => Ok(Step::Literal(float.into())),
            Err(_) => Err(Error::new(format!("cannot parse number {text}"))),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Step, Error> {
        let mut previous = quote;
        let inner = self.rest.get(1..).unwrap_or_default();
        let end = inner.char_indices().find(|(_, c)| {
            let ends = *c == '\n' || (*c == quote && previous != '\\');
            previous = *c;
            ends
        });
        let Some((length, c)) = end.filter(|(_, c)| *c == quote) else {
            return Err(Error::new("unterminated quoted string"));
        };
        let text = self.take(length + 1 + c.len_utf8());
        let inner = text.get(1..text.len() - 1).unwrap_or_default();
        let plain = unescape(inner, quote)
            .ok_or_else(|| Error::new(format!("unquote string {text} error invalid syntax")))?;
        Ok(Step::Literal(plain.into()))
    }

    /// Reads `[…]`: an index, a slice, a quoted name, or several of them.
    fn brackets(&mut self, steps: &mut Vec<Step>) -> Result<(), Error> {
        let end = self.rest.find([']', '\n']);
        let Some(end) = end.filter(|end| self.rest.get(*end..).is_some_and(|r| r.starts_with(']')))
        else {
            return Err(Error::new("unterminated array"));
        };
        let text = self.take(end + 1);
        let text = text.get(1..text.len() - 1).unwrap_or_default();
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts =
                text.split(',').map(|part| self.nested(&format!("[{}]", part.trim_matches(' '))));
            steps.push(Step::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let name = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(name) = name.filter(|name| !name.contains('\'')) {
            steps.extend(self.nested(&format!(".{name}"))?);
            return Ok(());
        }
        steps.push(Step::Slice(slice(text)?));
        Ok(())
    }

    /// Reads `[?(left operator right)]` or `[?(path)]`.
    fn filter(&mut self) -> Result<Step, Error> {
        self.take(3);
        let mut quote = None;
        let mut closed = false;
        let mut previous = ' ';
        let mut end = None;
        for (index, c) in self.rest.char_indices() {
            match c {
                '\n' => break,
                '"' | '\'' => match quote {
                    None => quote = Some(c),
                    Some(open) if open == c && previous != '\\' => closed = true,
                    Some(_) => {}
                },
                ')' if quote.is_some() == closed => {
                    end = Some(index);
                    break;
                }
                _ => {}
            }
            previous = c;
        }
        let Some(end) = end else { return Err(Error::new("unterminated filter")) };
        let text = self.take(end);
        self.take(1);
        if self.take(1) != "]" {
            return Err(Error::new("unclosed array expect ]"));
        }
        let Some((left, operator, right)) = split_comparison(text) else {
            let left = self.nested(text)?;
            return Ok(Step::Filter { left, operator: "exists".to_owned(), right: Vec::new() });
        };
        Ok(Step::Filter {
            left: self.nested(left)?,
            operator: operator.to_owned(),
            right: self.nested(right)?,
        })
    }
}

/// Splits `left operator right`; the operator is the first run of comparison characters.
fn split_comparison(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let start = text.find(is_operator).filter(|start| *start > 0)?;
    let (left, rest) = text.split_at(start);
    let length = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
    let length = if length == rest.len() { length - 1 } else { length };
    let (operator, right) = rest.split_at(length);
    (!operator.is_empty()).then_some((left, operator, right))
}

fn slice(text: &str) -> Result<Slice, Error> {
    let wrong = || Error::new(format!("invalid array index {text}"));
    let mut parts = text.split(':');
    let mut number = || match parts.next() {
        None => Ok(None),
        Some("") => Ok(Some(None)),
        Some(part) => {
            let digits = part.strip_prefix('-').unwrap_or(part);
            if !digits.bytes().all(|c| c.is_ascii_digit()) {
                return Err(wrong());
            }
            let parsed = part.parse::<i64>();
            parsed
                .map(|value| Some(Some(value)))
                .map_err(|_| Error::new(format!("array index {part} is not a number")))
        }
    };
    let (start, end, step) = (number()?.flatten(), number()?, number()?.flatten());
    if parts.next().is_some() {
        return Err(wrong());
    }
    Ok(match end {
        Some(end) => Slice { start, end, step, plain_index: false },
        None => {
            let start = start.unwrap_or(0);
            let end = start.saturating_add(1);
            Slice { start: Some(start), end: Some(end), step, plain_index: true }
        }
    })
}

/// Resolves Go's escapes.
fn unescape(text: &str, quote: char) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        let escaped = chars.next()?;
        let digits = match escaped {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits > 0 {
            let code: String = chars.by_ref().take(digits).collect();
            let code = Some(code).filter(|code| code.len() == digits)?;
            plain.push(char::from_u32(u32::from_str_radix(&code, 16).ok()?)?);
            continue;
        }
        plain.push(match escaped {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' => '\\',
            c if c == quote => c,
            _ => return None,
        });
    }
    Some(plain)
}
