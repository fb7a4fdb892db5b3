//! Whether a text is a Lua 5.1 chunk, without running it. Errors read as the original's Lua reports them:
//! place, nearby token and "syntax error" or "parse error".

use std::iter::Peekable;
use std::str::Bytes;

/// Nesting a script may have; deeper ones are refused rather than followed.
const MAX_DEPTH: usize = 200;

/// Checks a chunk; the error text ends in a line break, as the original's does.
pub(crate) fn check(source: &str) -> Result<(), String> {
    let mut parser = Parser::new(source)?;
    parser.block(0)?;
    match parser.token {
        Token::End => Ok(()),
        _ => parser.syntax_error(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Name(String),
    Keyword(String),
    Number(String),
    Text(String),
    Symbol(String),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Name(text)
            | Self::Keyword(text)
            | Self::Number(text)
            | Self::Text(text)
            | Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

struct Scanner<'a> {
    bytes: Peekable<Bytes<'a>>,
    line: usize,
    column: usize,
    at_end: bool,
}

impl Scanner<'_> {
    fn peek(&mut self) -> Option<u8> {
        self.bytes.peek().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.next();
        match byte {
            Some(b'\n' | b'\r') => {
                // A pair of different line ends is one.
                let twin = if byte == Some(b'\n') { b'\r' } else { b'\n' };
                if self.peek() == Some(twin) {
                    self.bytes.next();
                }
                self.line += 1;
                self.column = 0;
                return Some(b'\n');
            }
            Some(_) => self.column += 1,
            None => self.at_end = true,
        }
        byte
    }

    fn error(&self, near: &str, message: &str) -> String {
        if self.at_end {
            return format!("<string> at EOF:   {message}\n");
        }
        let (line, column) = (self.line, self.column);
        format!("<string> line:{line}(column:{column}) near '{near}':   {message}\n")
    }

    fn scan(&mut self) -> Result<Token, String> {
        loop {
            let Some(byte) = self.next() else { return Ok(Token::End) };
            let token = match byte {
                b' ' | b'\t' | b'\n' | 0x0b | 0x0c => continue,
                b'-' if self.peek() == Some(b'-') => {
                    self.next();
                    self.skip_comment()?;
                    continue;
                }
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => self.word(byte),
                b'0'..=b'9' => self.number(byte)?,
                b'.' if self.peek().is_some_and(|b| b.is_ascii_digit()) => self.number(byte)?,
                b'"' | b'\'' => self.quoted(byte)?,
                b'[' if matches!(self.peek(), Some(b'[' | b'=')) => self.long_text()?,
                _ => self.symbol(byte)?,
            };
            return Ok(token);
        }
    }

    fn take_while(&mut self, first: u8, accepts: impl Fn(u8) -> bool) -> String {
        let mut text = String::from(first as char);
        while let Some(byte) = self.peek().filter(|byte| accepts(*byte)) {
            text.push(byte as char);
            self.next();
        }
        text
    }

    fn word(&mut self, first: u8) -> Token {
        let word = self.take_while(first, |b| b == b'_' || b.is_ascii_alphanumeric());
        if KEYWORDS.contains(&&*word) { Token::Keyword(word) } else { Token::Name(word) }
    }

    fn number(&mut self, first: u8) -> Result<Token, String> {
        if first == b'0' && matches!(self.peek(), Some(b'x' | b'X')) {
            self.next();
            let text = self.take_while(b'x', |byte| byte.is_ascii_hexdigit());
            return match &*text {
                "x" => Err(self.error("0x", "illegal hexadecimal number")),
                _ => Ok(Token::Number(format!("0{text}"))),
            };
        }
        let mut text = self.take_while(first, |byte| byte.is_ascii_digit());
        if first != b'.' && self.peek() == Some(b'.') {
            self.next();
            text.push_str(&self.take_while(b'.', |byte| byte.is_ascii_digit()));
        }
        if let Some(exponent) = self.peek().filter(|byte| matches!(byte, b'e' | b'E')) {
            self.next();
            text.push(exponent as char);
            if let Some(sign) = self.peek().filter(|byte| matches!(byte, b'+' | b'-')) {
                self.next();
                text.push(sign as char);
            }
            if let Some(digit) = self.next() {
                text.push_str(&self.take_while(digit, |byte| byte.is_ascii_digit()));
            }
        }
        Ok(Token::Number(text))
    }

    fn quoted(&mut self, quote: u8) -> Result<Token, String> {
        let mut text = Vec::new();
        loop {
            match self.next() {
                Some(byte) if byte == quote => break,
                None | Some(b'\n') => {
                    let text = String::from_utf8_lossy(&text);
                    return Err(self.error(&text, "unterminated string"));
                }
                Some(b'\\') => {
                    text.extend(self.next());
                }
                Some(byte) => text.push(byte),
            }
        }
        Ok(Token::Text(String::from_utf8_lossy(&text).into_owned()))
    }

    /// `[[…]]` or `[==[…]==]`; the first bracket was read.
    fn long_text(&mut self) -> Result<Token, String> {
        let level = self.equals_signs();
        if self.peek() != Some(b'[') {
            return match level {
                0 => Ok(Token::Symbol("[".to_owned())),
                _ => Err(self.error("=", "invalid multiline string")),
            };
        }
        self.next();
        self.until_closing(level).map(Token::Text)
    }

    fn equals_signs(&mut self) -> usize {
        let mut level = 0;
        while self.peek() == Some(b'=') {
            self.next();
            level += 1;
        }
        level
    }

    fn until_closing(&mut self, level: usize) -> Result<String, String> {
        let closing = format!("]{}]", "=".repeat(level));
        let mut text = Vec::new();
        while !text.ends_with(closing.as_bytes()) {
            match self.next() {
                Some(byte) => text.push(byte),
                None => return Err(self.error("", "unterminated multiline string")),
            }
        }
        text.truncate(text.len() - closing.len());
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn skip_comment(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'[') {
            self.next();
            let level = self.equals_signs();
            if self.peek() == Some(b'[') {
                self.next();
                return self.until_closing(level).map(drop);
            }
        }
        while self.peek().is_some_and(|byte| byte != b'\n' && byte != b'\r') {
            self.next();
        }
        Ok(())
    }

    fn symbol(&mut self, first: u8) -> Result<Token, String> {
        let mut text = String::from(first as char);
        let twin = match first {
            b'=' | b'<' | b'>' | b'~' => Some(b'='),
            b'.' | b':' => Some(first),
            _ => None,
        };
        if twin.is_some() && self.peek() == twin {
            text.extend(self.next().map(char::from));
            if first == b'.' && self.peek() == Some(b'.') {
                text.extend(self.next().map(char::from));
            }
        }
        let known = "+-*/%^#=<>.:(){}[];,".contains(first as char) || text == "~=";
        match (known, first) {
            (true, _) => Ok(Token::Symbol(text)),
            (false, b'~') => Err(self.error("~", "Invalid '~' token")),
            (false, _) => Err(self.error(&text, "Invalid token")),
        }
    }
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    token: Token,
}

type Parsed<T = ()> = Result<T, String>;

/// What a prefix expression turned out to be, as far as statements care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    Variable,
    Call,
    Parenthesised,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str) -> Parsed<Self> {
        let scanner =
            Scanner { bytes: source.bytes().peekable(), line: 1, column: 0, at_end: false };
        let mut parser = Self { scanner, token: Token::End };
        parser.advance()?;
        Ok(parser)
    }

    fn advance(&mut self) -> Parsed<Token> {
        let next = self.scanner.scan()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn syntax_error<T>(&self) -> Parsed<T> {
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
    fn block(&mut self, depth: usize) -> Parsed {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_every_construct_pass() {
        let scripts = [
            "",
            "function Retain(d, o)\n  d.spec.x = o.spec['y']\n  return d\nend",
            "local a, b = 1, 0x1F; a, b = b, a",
            "for i = 1, 10, 2 do print(i) end for k, v in pairs(t) do f{k = v, [1] = 2; 3} end",
            "if a == nil then return elseif not a then f() else g'x' end",
            "while true do end repeat local x = #t until x ~= 1.5e-3 or -x ^ 2 < 3",
            "local function f(...) return ... end -- comment\n--[[ long\ncomment ]] x = [==[ text ]==]",
            "a.b.c:d(1, 'it\\'s', \"q\", [[z]]).e = function() end",
            "do local s = 'a' .. \"b\" break end",
            "(f or g)(1)",
            "error('now')",
            "x = 1. + .5 + 1e3 + 0xfF + 3 ..2",
        ];
        for script in scripts {
            assert_eq!(check(script), Ok(()), "{script}");
        }
    }

    #[test]
    fn errors_say_where_and_what_as_the_original_does() {
        let cases = [
            ("y y", "<string> line:1(column:3) near 'y':   parse error\n"),
            ("42", "<string> line:1(column:2) near '42':   syntax error\n"),
            ("(", "<string> at EOF:   syntax error\n"),
            ("x", "<string> at EOF:   parse error\n"),
            ("function f(", "<string> at EOF:   syntax error\n"),
            ("return 1\nend", "<string> line:2(column:3) near 'end':   syntax error\n"),
            ("if x then", "<string> at EOF:   syntax error\n"),
            ("x = = 1", "<string> line:1(column:5) near '=':   syntax error\n"),
            ("x = 'abc", "<string> at EOF:   unterminated string\n"),
            ("x = @", "<string> line:1(column:5) near '@':   Invalid token\n"),
            ("x = 0x", "<string> line:1(column:6) near '0x':   illegal hexadecimal number\n"),
            ("x = ~y", "<string> line:1(column:5) near '~':   Invalid '~' token\n"),
            ("x = 3y", "<string> at EOF:   parse error\n"),
        ];
        for (script, expected) in cases {
            assert_eq!(check(script), Err(expected.to_owned()), "{script}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_not_followed() {
        assert!(check(&"(".repeat(100_000)).is_err());
        assert!(check(&format!("x = {}", "{".repeat(100_000))).is_err());
        assert!(check(&"do ".repeat(100_000)).is_err());
    }
}
