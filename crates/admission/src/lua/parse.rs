//! The grammar of Lua 5.1, followed only to see whether the text obeys it.

use super::scan::{Scanner, Token};

/// Nesting a script may have; deeper ones are refused rather than followed.
const MAX_DEPTH: usize = 200;

pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    pub(super) token: Token,
}

pub(super) type Parsed<T = ()> = Result<T, String>;

/// What a prefix expression turned out to be, as far as statements care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    Variable,
    Call,
    Parenthesised,
}

impl<'a> Parser<'a> {
    pub(super) fn new(source: &'a str) -> Parsed<Self> {
        let mut parser = Self { scanner: Scanner::new(source), token: Token::End };
        parser.advance()?;
        Ok(parser)
    }

    fn advance(&mut self) -> Parsed<Token> {
        let next = self.scanner.scan()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    pub(super) fn syntax_error<T>(&self) -> Parsed<T> {
        Err(self.scanner.error(self.token.text(), "syntax error"))
    }

    fn is(&self, text: &str) -> bool {
        match &self.token {
            Token::Symbol(token) | Token::Keyword(token) => token == text,
            _ => false,
        }
    }

    fn accept(&mut self, text: &str) -> Parsed<bool> {
        let found = self.is(text);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, text: &str) -> Parsed {
        if self.accept(text)? { Ok(()) } else { self.syntax_error() }
    }

    fn name(&mut self) -> Parsed {
        match self.token {
            Token::Name(_) => self.advance().map(drop),
            _ => self.syntax_error(),
        }
    }

    fn deeper(&self, depth: usize) -> Parsed<usize> {
        if depth < MAX_DEPTH { Ok(depth + 1) } else { self.syntax_error() }
    }

    /// Statements up to whatever ends them; the caller looks at what that is.
    pub(super) fn block(&mut self, depth: usize) -> Parsed {
        let depth = self.deeper(depth)?;
        loop {
            if self.accept(";")? {
                continue;
            }
            if self.is("return") || self.is("break") {
                let returns = self.accept("return")?;
                if !returns {
                    self.advance()?;
                } else if !self.ends_block() && !self.is(";") {
                    self.expressions(depth)?;
                }
                self.accept(";")?;
                return Ok(());
            }
            if self.ends_block() {
                return Ok(());
            }
            self.statement(depth)?;
        }
    }

    fn ends_block(&self) -> bool {
        self.token == Token::End || ["end", "else", "elseif", "until"].iter().any(|w| self.is(w))
    }

    fn closed_block(&mut self, depth: usize) -> Parsed {
        self.block(depth)?;
        self.expect("end")
    }

    fn statement(&mut self, depth: usize) -> Parsed {
        let Token::Keyword(word) = &self.token else {
            if self.accept("::")? {
                self.name()?;
                return self.expect("::");
            }
            return self.expression_statement(depth);
        };
        match word.clone().as_str() {
            "do" => {
                self.advance()?;
                self.closed_block(depth)
            }
            "while" => {
                self.advance()?;
                self.expression(depth)?;
                self.expect("do")?;
                self.closed_block(depth)
            }
            "repeat" => {
                self.advance()?;
                self.block(depth)?;
                self.expect("until")?;
                self.expression(depth)
            }
            "if" => self.condition(depth),
            "for" => self.loop_over(depth),
            "function" => {
                self.advance()?;
                self.name()?;
                while self.accept(".")? {
                    self.name()?;
                }
                if self.accept(":")? {
                    self.name()?;
                }
                self.function_body(depth)
            }
            "local" => self.local(depth),
            "goto" => {
                self.advance()?;
                self.name()
            }
            _ => self.syntax_error(),
        }
    }

    fn condition(&mut self, depth: usize) -> Parsed {
        loop {
            self.advance()?;
            self.expression(depth)?;
            self.expect("then")?;
            self.block(depth)?;
            if !self.is("elseif") {
                break;
            }
        }
        if self.accept("else")? {
            self.block(depth)?;
        }
        self.expect("end")
    }

    fn loop_over(&mut self, depth: usize) -> Parsed {
        self.advance()?;
        self.name()?;
        if self.accept("=")? {
            self.expression(depth)?;
            self.expect(",")?;
            self.expression(depth)?;
            if self.accept(",")? {
                self.expression(depth)?;
            }
        } else {
            while self.accept(",")? {
                self.name()?;
            }
            self.expect("in")?;
            self.expressions(depth)?;
        }
        self.expect("do")?;
        self.closed_block(depth)
    }

    fn local(&mut self, depth: usize) -> Parsed {
        self.advance()?;
        if self.accept("function")? {
            self.name()?;
            return self.function_body(depth);
        }
        self.name()?;
        while self.accept(",")? {
            self.name()?;
        }
        if self.accept("=")? {
            self.expressions(depth)?;
        }
        Ok(())
    }

    /// An assignment or a call; anything else that is an expression is no statement.
    fn expression_statement(&mut self, depth: usize) -> Parsed {
        let mut prefix = self.prefix_expression(depth)?;
        let assigns = prefix == Prefix::Variable && (self.is(",") || self.is("="));
        if !assigns {
            return match prefix {
                Prefix::Call => Ok(()),
                _ => Err(self.scanner.error(self.token.text(), "parse error")),
            };
        }
        while self.accept(",")? {
            prefix = self.prefix_expression(depth)?;
            if prefix != Prefix::Variable {
                return self.syntax_error();
            }
        }
        self.expect("=")?;
        self.expressions(depth)
    }

    fn expressions(&mut self, depth: usize) -> Parsed {
        self.expression(depth)?;
        while self.accept(",")? {
            self.expression(depth)?;
        }
        Ok(())
    }

    fn expression(&mut self, depth: usize) -> Parsed {
        const BINARY: [&str; 15] =
            ["or", "and", "<", ">", "<=", ">=", "~=", "==", "..", "+", "-", "*", "/", "%", "^"];
        let depth = self.deeper(depth)?;
        loop {
            while self.accept("not")? || self.accept("-")? || self.accept("#")? {}
            self.operand(depth)?;
            if !BINARY.iter().any(|operator| self.is(operator)) {
                return Ok(());
            }
            self.advance()?;
        }
    }

    fn operand(&mut self, depth: usize) -> Parsed {
        match &self.token {
            Token::Number(_) | Token::Text(_) => self.advance().map(drop),
            Token::Keyword(word) if ["nil", "true", "false"].contains(&&**word) => {
                self.advance().map(drop)
            }
            Token::Keyword(word) if word == "function" => {
                self.advance()?;
                self.function_body(depth)
            }
            Token::Symbol(symbol) if symbol == "..." => self.advance().map(drop),
            Token::Symbol(symbol) if symbol == "{" => self.table(depth),
            _ => self.prefix_expression(depth).map(drop),
        }
    }

    fn prefix_expression(&mut self, depth: usize) -> Parsed<Prefix> {
        let depth = self.deeper(depth)?;
        let mut prefix = if self.accept("(")? {
            self.expression(depth)?;
            self.expect(")")?;
            Prefix::Parenthesised
        } else {
            self.name()?;
            Prefix::Variable
        };
        loop {
            prefix = if self.accept(".")? {
                self.name()?;
                Prefix::Variable
            } else if self.accept("[")? {
                self.expression(depth)?;
                self.expect("]")?;
                Prefix::Variable
            } else if self.accept(":")? {
                self.name()?;
                if !self.arguments(depth)? {
                    return self.syntax_error();
                }
                Prefix::Call
            } else if self.arguments(depth)? {
                Prefix::Call
            } else {
                return Ok(prefix);
            };
        }
    }

    fn arguments(&mut self, depth: usize) -> Parsed<bool> {
        if let Token::Text(_) = self.token {
            self.advance()?;
            return Ok(true);
        }
        if self.is("{") {
            self.table(depth)?;
            return Ok(true);
        }
        if !self.accept("(")? {
            return Ok(false);
        }
        if !self.accept(")")? {
            self.expressions(depth)?;
            self.expect(")")?;
        }
        Ok(true)
    }

    fn table(&mut self, depth: usize) -> Parsed {
        self.expect("{")?;
        while !self.accept("}")? {
            if self.accept("[")? {
                self.expression(depth)?;
                self.expect("]")?;
                self.expect("=")?;
                self.expression(depth)?;
            } else {
                // `name = value` looks like the expression `name` until the sign.
                let is_name = matches!(self.token, Token::Name(_));
                self.expression(depth)?;
                if is_name && self.accept("=")? {
                    self.expression(depth)?;
                }
            }
            if !self.accept(",")? && !self.accept(";")? {
                return self.expect("}");
            }
        }
        Ok(())
    }

    fn function_body(&mut self, depth: usize) -> Parsed {
        self.expect("(")?;
        if !self.accept(")")? {
            loop {
                if self.accept("...")? {
                    break;
                }
                self.name()?;
                if !self.accept(",")? {
                    break;
                }
            }
            self.expect(")")?;
        }
        self.closed_block(depth)
    }
}
