//! The grammar of label selector text: tokens, then requirements separated by commas.

use std::collections::BTreeSet;

use super::ParseError;
use super::labels::{Operator, Requirement};
use crate::field::{FieldError, Path};
use crate::names;

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

impl Token {
    /// Where a key or value may stand, the two word operators are plain words.
    fn as_word(self) -> Self {
        if matches!(self, Self::In | Self::NotIn) { Self::Identifier } else { self }
    }

    fn of_symbols(text: &str) -> Option<Self> {
        Some(match text {
            ")" => Self::Close,
            "," => Self::Comma,
            "!" => Self::Not,
            "==" => Self::DoubleEquals,
            "=" => Self::Equals,
            ">" => Self::Greater,
            "<" => Self::Less,
            "!=" => Self::NotEquals,
            "(" => Self::Open,
            _ => return None,
        })
    }

    fn of_word(text: &str) -> Self {
        match text {
            "in" => Self::In,
            "notin" => Self::NotIn,
            _ => Self::Identifier,
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

/// Splits text into tokens with their spelling; a NUL ends it.
fn tokens(text: &str) -> Vec<(Token, &str)> {
    let mut rest = text.split('\0').next().unwrap_or_default();
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next() else { break };
        let (token, length) = if is_symbol(first) {
            let two = rest.get(..2).and_then(Token::of_symbols).map(|token| (token, 2));
            let one = || rest.get(..1).and_then(Token::of_symbols).map(|token| (token, 1));
            let Some(found) = two.or_else(one) else { break };
            found
        } else {
            let length = rest.find(|c| is_symbol(c) || is_space(c)).unwrap_or(rest.len());
            (Token::of_word(rest.get(..length).unwrap_or_default()), length)
        };
        let (spelled, after) = rest.split_at(length);
        tokens.push((token, spelled));
        rest = after;
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    position: usize,
}

fn expected<T>(found: &str, expected: &str) -> Result<T, ParseError> {
    Err(ParseError(format!("found '{found}', expected: {expected}")))
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, ParseError> {
    let mut parser = Parser { tokens: tokens(text), position: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            (Token::Identifier | Token::Not, _) => {
                let requirement = parser
                    .requirement()
                    .map_err(|error| ParseError(format!("unable to parse requirement: {error}")))?;
                requirements.push(requirement);
                match parser.next() {
                    (Token::End, _) => return Ok(requirements),
                    (Token::Comma, _) => match parser.peek() {
                        (Token::Identifier | Token::Not, _) => {}
                        (_, found) => return expected(found, "identifier after ','"),
                    },
                    (_, found) => return expected(found, "',' or 'end of string'"),
                }
            }
            (Token::End, _) => return Ok(requirements),
            (_, found) => return expected(found, "!, identifier, or 'end of string'"),
        }
    }
}

impl<'a> Parser<'a> {
    fn peek(&self) -> (Token, &'a str) {
        let (token, text) = self.tokens.get(self.position).copied().unwrap_or((Token::End, ""));
        (token.as_word(), text)
    }

    fn next(&mut self) -> (Token, &'a str) {
        let (token, text) = self.next_operator();
        (token.as_word(), text)
    }

    fn next_operator(&mut self) -> (Token, &'a str) {
        let found = self.tokens.get(self.position).copied().unwrap_or((Token::End, ""));
        self.position += 1;
        found
    }

    fn requirement(&mut self) -> Result<Requirement, ParseError> {
        let (mut token, mut key) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next();
        }
        if token != Token::Identifier {
            return expected(key, "identifier");
        }
        let wrong = names::qualified_name(key);
        if !wrong.is_empty() {
            let error = FieldError::invalid(&Path::root(), key, wrong.join("; "));
            return Err(ParseError(error.to_string()));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.value_list()?,
            _ => BTreeSet::from([self.value()?]),
        };
        Requirement::new(key, operator, values.into_iter().map(str::to_owned).collect())
    }

    fn operator(&mut self) -> Result<Operator, ParseError> {
        Ok(match self.next_operator() {
            (Token::In, _) => Operator::In,
            (Token::NotIn, _) => Operator::NotIn,
            (Token::Equals, _) => Operator::Equals,
            (Token::DoubleEquals, _) => Operator::DoubleEquals,
            (Token::NotEquals, _) => Operator::NotEquals,
            (Token::Greater, _) => Operator::GreaterThan,
            (Token::Less, _) => Operator::LessThan,
            (_, found) => return expected(found, OPERATORS),
        })
    }

    fn value(&mut self) -> Result<&'a str, ParseError> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok("");
        }
        match self.next() {
            (Token::Identifier, value) => Ok(value),
            (_, found) => expected(found, "identifier"),
        }
    }

    fn value_list(&mut self) -> Result<BTreeSet<&'a str>, ParseError> {
        let (token, found) = self.next();
        if token != Token::Open {
            return Err(ParseError(format!("found '{found}' expected: '('")));
        }
        match self.peek() {
            (Token::Identifier | Token::Comma, first) => {
                let values = self.identifiers()?;
                match self.next() {
                    (Token::Close, _) => Ok(values),
                    // Compat: the message names the first value, not what was found.
                    _ => expected(first, "')'"),
                }
            }
            (Token::Close, _) => {
                self.position += 1;
                Ok(BTreeSet::from([""]))
            }
            (_, found) => expected(found, "',', ')' or identifier"),
        }
    }

    /// Reads values up to, not including, the closing parenthesis; empty places are empty values.
    fn identifiers(&mut self) -> Result<BTreeSet<&'a str>, ParseError> {
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                (Token::Identifier, value) => {
                    values.insert(value);
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, found) => return expected(found, "',' or ')'"),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.insert("");
                    }
                    match self.peek().0 {
                        Token::Close => {
                            values.insert("");
                            return Ok(values);
                        }
                        Token::Comma => {
                            values.insert("");
                        }
                        _ => {}
                    }
                }
                (_, found) => return expected(found, "',', or identifier"),
            }
        }
    }
}
