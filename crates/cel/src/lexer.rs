//! Text to tokens.

use std::sync::Arc;

use crate::source::Problem;
use crate::value::Value;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// An operator or bracket.
    Sign(&'static str),
    Ident(String),
    /// A name in backquotes.
    Quoted(String),
    Literal(Value),
    End,
}

#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) at: usize,
    pub(crate) token: Token,
    pub(crate) text: String,
}

const SIGNS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "<", ">",
];

/// Splits a whole expression; what cannot be read is reported and left out.
pub(crate) fn tokens(source: &str) -> (Vec<Placed>, Vec<Problem>) {
    let mut lexer = Lexer { chars: source.chars().collect(), at: 0 };
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    loop {
        lexer.skip_space();
        let at = lexer.at;
        if at >= lexer.chars.len() {
            found.push(Placed { at, token: Token::End, text: "<EOF>".into() });
            return (found, problems);
        }
        match lexer.next() {
            Ok(token) => {
                let text = lexer.text_from(at);
                found.push(Placed { at, token, text });
            }
            Err(text) => problems.push(Problem { at, text }),
        }
    }
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// What was read since; an escape at the very end steps over it.
    fn text_from(&self, start: usize) -> String {
        self.chars[start..self.at.min(self.chars.len())].iter().collect()
    }

    fn skip_space(&mut self) {
        loop {
            if self.peek(0).is_whitespace() && self.at < self.chars.len() {
                self.at += 1;
            } else if self.peek(0) == '/' && self.peek(1) == '/' {
                while self.at < self.chars.len() && self.peek(0) != '\n' {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<Token, String> {
        let c = self.peek(0);
        if let Some(token) = self.string()? {
            return Ok(token);
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_ascii_digit()) {
            return self.number();
        }
        if c.is_ascii_alphabetic() || c == '_' {
            return Ok(self.word());
        }
        if c == '`' {
            return self.quoted();
        }
        for sign in SIGNS {
            if sign.chars().enumerate().all(|(index, wanted)| self.peek(index) == wanted) {
                self.at += sign.len();
                return Ok(Token::Sign(sign));
            }
        }
        self.at += 1;
        Err(format!("Syntax error: token recognition error at: '{c}'"))
    }

    fn word(&mut self) -> Token {
        let start = self.at;
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == '_' {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        match word.as_str() {
            "true" => Token::Literal(Value::Bool(true)),
            "false" => Token::Literal(Value::Bool(false)),
            "null" => Token::Literal(Value::Null),
            "in" => Token::Sign("in"),
            _ => Token::Ident(word),
        }
    }

    fn quoted(&mut self) -> Result<Token, String> {
        let start = self.at + 1;
        self.at = start;
        while self.at < self.chars.len() && self.peek(0) != '`' {
            self.at += 1;
        }
        let name = self.text_from(start);
        if self.at >= self.chars.len() {
            return Err(format!("Syntax error: token recognition error at: '`{name}'"));
        }
        self.at += 1;
        Ok(Token::Quoted(name))
    }

    fn number(&mut self) -> Result<Token, String> {
        let start = self.at;
        if self.peek(0) == '0' && matches!(self.peek(1), 'x' | 'X') {
            self.at += 2;
            while self.peek(0).is_ascii_hexdigit() {
                self.at += 1;
            }
            let digits: String = self.chars[start + 2..self.at].iter().collect();
            return self.whole(&digits, 16);
        }
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
        let mut fraction = false;
        if self.peek(0) == '.' && self.peek(1).is_ascii_digit() {
            fraction = true;
            self.at += 1;
            while self.peek(0).is_ascii_digit() {
                self.at += 1;
            }
        }
        if matches!(self.peek(0), 'e' | 'E') {
            let sign = usize::from(matches!(self.peek(1), '+' | '-'));
            if self.peek(1 + sign).is_ascii_digit() {
                fraction = true;
                self.at += 1 + sign;
                while self.peek(0).is_ascii_digit() {
                    self.at += 1;
                }
            }
        }
        let digits: String = self.chars[start..self.at].iter().collect();
        if !fraction {
            return self.whole(&digits, 10);
        }
        let double: f64 = digits.parse().map_err(|_| "invalid double literal".to_owned())?;
        Ok(Token::Literal(Value::Double(double)))
    }

    fn whole(&mut self, digits: &str, base: u32) -> Result<Token, String> {
        if matches!(self.peek(0), 'u' | 'U') {
            self.at += 1;
            let number = u64::from_str_radix(digits, base);
            return number
                .map(|n| Token::Literal(Value::UInt(n)))
                .map_err(|_| "invalid uint literal".into());
        }
        // The smallest number is written as the negation of one that does not fit.
        let number = u64::from_str_radix(digits, base).map_err(|_| "invalid int literal")?;
        match i64::try_from(number) {
            Ok(number) => Ok(Token::Literal(Value::Int(number))),
            Err(_) if number == 1 << 63 => Ok(Token::Literal(Value::Int(i64::MIN))),
            Err(_) => Err("invalid int literal".into()),
        }
    }

    /// A string or bytes literal, if one begins here.
    fn string(&mut self) -> Result<Option<Token>, String> {
        let (mut raw, mut bytes, mut length) = (false, false, 0);
        while length < 2 {
            match self.peek(length) {
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes => bytes = true,
                _ => break,
            }
            length += 1;
        }
        let quote = self.peek(length);
        if quote != '"' && quote != '\'' {
            return Ok(None);
        }
        let start = self.at;
        self.at += length;
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        self.at += if triple { 3 } else { 1 };
        let mut out: Vec<u8> = Vec::new();
        loop {
            if self.at >= self.chars.len() || (!triple && self.peek(0) == '\n') {
                let text = self.text_from(start);
                return Err(format!("Syntax error: token recognition error at: '{text}'"));
            }
            let c = self.peek(0);
            if c == quote && (!triple || (self.peek(1) == quote && self.peek(2) == quote)) {
                self.at += if triple { 3 } else { 1 };
                break;
            }
            self.at += 1;
            if c == '\\' && !raw {
                self.escape(&mut out, bytes)?;
            } else {
                out.extend(c.to_string().bytes());
            }
        }
        Ok(Some(Token::Literal(if bytes {
            Value::Bytes(out.into())
        } else {
            let text = String::from_utf8(out).map_err(|_| "invalid string literal".to_owned())?;
            Value::String(Arc::from(text))
        })))
    }

    fn escape(&mut self, out: &mut Vec<u8>, bytes: bool) -> Result<(), String> {
        let c = self.peek(0);
        self.at += 1;
        let simple = match c {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => c as u8,
            'x' | 'X' => return self.code(2, 16, out, bytes),
            'u' => return self.code(4, 16, out, false),
            'U' => return self.code(8, 16, out, false),
            '0'..='3' => {
                self.at -= 1;
                return self.code(3, 8, out, bytes);
            }
            _ => return Err("Syntax error: invalid escape sequence".into()),
        };
        out.push(simple);
        Ok(())
    }

    fn code(
        &mut self,
        digits: usize,
        base: u32,
        out: &mut Vec<u8>,
        byte: bool,
    ) -> Result<(), String> {
        let end = (self.at + digits).min(self.chars.len());
        let text: String = self.chars[self.at..end].iter().collect();
        self.at = end;
        let wrong = || "Syntax error: invalid escape sequence".to_owned();
        let code = u32::from_str_radix(&text, base).map_err(|_| wrong())?;
        if byte {
            out.push(u8::try_from(code).map_err(|_| wrong())?);
        } else {
            let c = char::from_u32(code).ok_or_else(wrong)?;
            out.extend(c.to_string().bytes());
        }
        Ok(())
    }
}
