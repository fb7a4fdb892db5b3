//! From words to a tree.

use std::collections::BTreeMap;

use karmada_apimachinery::Value;

use super::Error;
use super::functions;
use super::lex::{Placed, Token};

/// A template and those it defines.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) body: Vec<Node>,
    pub(super) defined: BTreeMap<String, Vec<Node>>,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    Text(String),
    /// Prints what a pipeline leads to, unless it only sets a variable.
    Print(Pipeline),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template {
        name: String,
        argument: Option<Pipeline>,
        line: usize,
    },
    Break,
    Continue,
}

#[derive(Debug, Clone)]
pub(super) struct Branch {
    pub(super) pipeline: Pipeline,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
}

#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    /// Variables it sets; two for the place and the element of a range.
    pub(super) variables: Vec<String>,
    pub(super) is_declared: bool,
    pub(super) commands: Vec<Command>,
    pub(super) line: usize,
}

/// Operands; the first may be a function.
pub(super) type Command = Vec<Operand>;

#[derive(Debug, Clone)]
pub(super) enum Operand {
    Dot,
    Constant(Value),
    Variable(String),
    Function(String),
    Inner(Box<Pipeline>),
    /// Fields of what stands before them.
    Fields(Box<Operand>, Vec<String>),
}

/// What ended a list of nodes.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    AtLast,
    ByEnd,
    WithElse,
}

pub(super) fn parse(tokens: Vec<Placed>) -> Result<Tree, Error> {
    let mut parser =
        Parser { tokens, at: 0, scopes: vec!["$".to_owned()], defined: BTreeMap::new() };
    let (body, end) = parser.list()?;
    match end {
        Ended::AtLast => Ok(Tree { body, defined: parser.defined }),
        Ended::ByEnd => Err(parser.error("unexpected {{end}}")),
        Ended::WithElse => Err(parser.error("unexpected {{else}}")),
    }
}

struct Parser {
    tokens: Vec<Placed>,
    at: usize,
    /// Variables that can be named here.
    scopes: Vec<String>,
    defined: BTreeMap<String, Vec<Node>>,
}

impl Parser {
    fn line(&self) -> usize {
        let place = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(place).map_or(1, |(_, line)| *line)
    }

    fn error(&self, message: impl Into<String>) -> Error {
        let place = self.at.saturating_sub(1).min(self.tokens.len().saturating_sub(1));
        let line = self.tokens.get(place).map_or(1, |(_, line)| *line);
        Error::Parse { line, message: message.into() }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).map(|(token, _)| token.clone());
        self.at += 1;
        token
    }

    fn close(&mut self) -> Result<(), Error> {
        match self.next() {
            Some(Token::Close) => Ok(()),
            other => Err(self.error(format!("unexpected {} in action", show(other.as_ref())))),
        }
    }

    /// Nodes up to the end of their block.
    fn list(&mut self) -> Result<(Vec<Node>, Ended), Error> {
        let mut nodes = Vec::new();
        loop {
            match self.next() {
                None => return Ok((nodes, Ended::AtLast)),
                Some(Token::Text(text)) => nodes.push(Node::Text(text)),
                Some(Token::Open) => match self.peek() {
                    Some(Token::Word(word)) => {
                        let word = word.clone();
                        match word.as_str() {
                            "end" => {
                                self.at += 1;
                                self.close()?;
                                return Ok((nodes, Ended::ByEnd));
                            }
                            "else" => {
                                self.at += 1;
                                return Ok((nodes, Ended::WithElse));
                            }
                            _ => nodes.extend(self.keyword(&word)?),
                        }
                    }
                    _ => nodes.push(self.print()?),
                },
                other => return Err(self.error(format!("unexpected {}", show(other.as_ref())))),
            }
        }
    }

    fn print(&mut self) -> Result<Node, Error> {
        let pipeline = self.pipeline()?;
        self.close()?;
        Ok(Node::Print(pipeline))
    }

    fn keyword(&mut self, word: &str) -> Result<Option<Node>, Error> {
        if !["if", "with", "range", "template", "define", "break", "continue"].contains(&word) {
            return self.print().map(Some);
        }
        self.at += 1;
        Ok(Some(match word {
            "if" => Node::If(self.branch("if")?),
            "with" => Node::With(self.branch("with")?),
            "range" => Node::Range(self.branch("range")?),
            "break" | "continue" => {
                self.close()?;
                if word == "break" { Node::Break } else { Node::Continue }
            }
            "template" => {
                let line = self.line();
                let name = self.name_in_quotes()?;
                let argument = match self.peek() {
                    Some(Token::Close) => None,
                    _ => Some(self.pipeline()?),
                };
                self.close()?;
                Node::Template { name, argument, line }
            }
            _ => {
                let name = self.name_in_quotes()?;
                self.close()?;
                let scopes = std::mem::replace(&mut self.scopes, vec!["$".to_owned()]);
                let (body, end) = self.list()?;
                self.scopes = scopes;
                self.expect_end(&end)?;
                self.defined.insert(name, body);
                return Ok(None);
            }
        }))
    }

    fn name_in_quotes(&mut self) -> Result<String, Error> {
        match self.next() {
            Some(Token::String(name)) => Ok(name),
            other => {
                Err(self.error(format!("unexpected {} in template clause", show(other.as_ref()))))
            }
        }
    }

    fn expect_end(&self, end: &Ended) -> Result<(), Error> {
        match end {
            Ended::ByEnd => Ok(()),
            Ended::AtLast => Err(self.error("unexpected EOF")),
            Ended::WithElse => Err(self.error("unexpected {{else}}")),
        }
    }

    fn branch(&mut self, kind: &str) -> Result<Branch, Error> {
        let known = self.scopes.len();
        let pipeline = self.pipeline()?;
        self.close()?;
        let (body, end) = self.list()?;
        let mut otherwise = Vec::new();
        if end == Ended::WithElse {
            if matches!(self.peek(), Some(Token::Word(word)) if word == kind && kind != "range") {
                self.at += 1;
                let inner = self.branch(kind)?;
                otherwise.push(if kind == "if" { Node::If(inner) } else { Node::With(inner) });
            } else {
                self.close()?;
                let (nodes, end) = self.list()?;
                self.expect_end(&end)?;
                otherwise = nodes;
            }
        } else {
            self.expect_end(&end)?;
        }
        self.scopes.truncate(known);
        Ok(Branch { pipeline, body, otherwise })
    }

    fn pipeline(&mut self) -> Result<Pipeline, Error> {
        let line = self.line();
        let (variables, is_declared) = self.assigned()?;
        let mut commands = vec![self.command()?];
        while self.peek() == Some(&Token::Pipe) {
            self.at += 1;
            commands.push(self.command()?);
        }
        if is_declared {
            self.scopes.extend(variables.iter().cloned());
        }
        Ok(Pipeline { variables, is_declared, commands, line })
    }

    /// The variables before `:=` or `=`, if the pipeline begins so.
    fn assigned(&mut self) -> Result<(Vec<String>, bool), Error> {
        let at = |offset: usize| self.tokens.get(self.at + offset).map(|(token, _)| token);
        let variable = |token: Option<&Token>| match token {
            Some(Token::Variable(name)) => Some(name.clone()),
            _ => None,
        };
        let Some(first) = variable(at(0)) else { return Ok((Vec::new(), false)) };
        let (names, sign) = match (at(1), variable(at(2))) {
            (Some(Token::Comma), Some(second)) => (vec![first, second], 3),
            _ => (vec![first], 1),
        };
        let is_declared = match at(sign) {
            Some(Token::Declare) => true,
            Some(Token::Assign) => false,
            _ => return Ok((Vec::new(), false)),
        };
        self.at += sign + 1;
        if let Some(unknown) = names.iter().find(|name| !is_declared && !self.scopes.contains(name))
        {
            return Err(self.error(format!("undefined variable {unknown:?}")));
        }
        Ok((names, is_declared))
    }

    fn command(&mut self) -> Result<Command, Error> {
        let mut operands = Vec::new();
        while let Some(token) = self.peek().cloned() {
            let operand = match token {
                Token::Close | Token::Pipe | Token::RightParen => break,
                Token::Field(name, false) => match name.as_str() {
                    "" => Operand::Dot,
                    _ => Operand::Fields(Box::new(Operand::Dot), vec![name]),
                },
                Token::Field(name, true) => {
                    let Some(before) = operands.pop() else {
                        return Err(self.error(format!("unexpected .{name}")));
                    };
                    extend(before, name)
                }
                Token::Variable(name) if self.scopes.contains(&name) => Operand::Variable(name),
                Token::Variable(name) => {
                    return Err(self.error(format!("undefined variable {name:?}")));
                }
                Token::String(text) => Operand::Constant(text.into()),
                Token::Number(number, true) => Operand::Constant((number as i64).into()),
                Token::Number(number, false) => Operand::Constant(number.into()),
                Token::Word(word) => match word.as_str() {
                    "true" | "false" => Operand::Constant((word == "true").into()),
                    "nil" => Operand::Constant(Value::Null),
                    name if functions::is_known(name) => Operand::Function(word),
                    _ => return Err(self.error(format!("function {word:?} not defined"))),
                },
                Token::LeftParen => {
                    self.at += 1;
                    let inner = self.pipeline()?;
                    if self.peek() != Some(&Token::RightParen) {
                        return Err(self.error("unclosed left paren"));
                    }
                    Operand::Inner(Box::new(inner))
                }
                other => return Err(self.error(format!("unexpected {}", show(Some(&other))))),
            };
            self.at += 1;
            operands.push(operand);
        }
        if operands.is_empty() {
            return Err(self.error("missing value for command"));
        }
        Ok(operands)
    }
}

fn extend(before: Operand, name: String) -> Operand {
    match before {
        Operand::Fields(base, mut fields) => {
            fields.push(name);
            Operand::Fields(base, fields)
        }
        other => Operand::Fields(Box::new(other), vec![name]),
    }
}

fn show(token: Option<&Token>) -> String {
    match token {
        None => "EOF".to_owned(),
        Some(Token::Word(word)) => format!("<{word}>"),
        Some(Token::Close) => "\"}}\"".to_owned(),
        Some(Token::Declare) => "\":=\"".to_owned(),
        Some(Token::Assign) => "\"=\"".to_owned(),
        Some(Token::Pipe) => "\"|\"".to_owned(),
        Some(Token::Comma) => "\",\"".to_owned(),
        Some(Token::RightParen) => "right paren".to_owned(),
        Some(other) => format!("{other:?}"),
    }
}
