//! Lua text cut into tokens, with the place of the last one for errors.

use std::iter::Peekable;
use std::str::Bytes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    Keyword(String),
    Number(String),
    Text(String),
    Symbol(String),
    End,
}

impl Token {
    pub(super) fn text(&self) -> &str {
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

pub(super) struct Scanner<'a> {
    bytes: Peekable<Bytes<'a>>,
    line: usize,
    column: usize,
    at_end: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Self { bytes: source.bytes().peekable(), line: 1, column: 0, at_end: false }
    }

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

    pub(super) fn error(&self, near: &str, message: &str) -> String {
        if self.at_end {
            return format!("<string> at EOF:   {message}\n");
        }
        let (line, column) = (self.line, self.column);
        format!("<string> line:{line}(column:{column}) near '{near}':   {message}\n")
    }

    pub(super) fn scan(&mut self) -> Result<Token, String> {
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
