//! Tokens to expressions, macros included. Goes on after a mistake as far as it can, and words mistakes
//! as clients of Kubernetes know them.

use crate::ast::{Expr, Fold, FoldKind, Node};
use crate::lexer::{Placed, Token, tokens};
use crate::source::{Problem, render};
use crate::value::Value;

/// Deeper expressions are refused.
const MAX_DEPTH: usize = 120;
/// Longer expressions are refused.
const MAX_LENGTH: usize = 100_000;
const STARTS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, \
                      NUM_UINT, STRING, BYTES, IDENTIFIER}";
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a word means something to the language, so that nothing can be named by it.
pub fn is_reserved(word: &str) -> bool {
    matches!(word, "true" | "false" | "null" | "in") || RESERVED.contains(&word)
}

/// Parses a whole expression; an error is the rendered list of problems.
pub(crate) fn parse(source: &str) -> Result<Expr, String> {
    if source.chars().count() > MAX_LENGTH {
        let text = format!("expression code point size exceeds limit: {MAX_LENGTH}");
        return Err(render(source, &[Problem { at: 0, text }]));
    }
    let (tokens, problems) = tokens(source);
    let mut parser = Parser { tokens, next: 0, problems, depth: 0 };
    let expr = parser.expression();
    if parser.problems.is_empty() && !parser.is_end() {
        let found = parser.peek().text.clone();
        parser.complain(format!("Syntax error: mismatched input '{found}' expecting <EOF>"));
    }
    if parser.problems.is_empty() { Ok(expr) } else { Err(render(source, &parser.problems)) }
}

struct Parser {
    tokens: Vec<Placed>,
    next: usize,
    problems: Vec<Problem>,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Placed {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn is_end(&self) -> bool {
        self.peek().token == Token::End
    }

    fn advance(&mut self) -> Placed {
        let placed = self.peek().clone();
        self.next += 1;
        placed
    }

    fn sees(&self, sign: &str) -> bool {
        matches!(self.peek().token, Token::Sign(own) if own == sign)
    }

    /// Consumes a sign if it comes next; tells where it stood.
    fn take(&mut self, sign: &str) -> Option<usize> {
        self.sees(sign).then(|| self.advance().at)
    }

    fn demand(&mut self, sign: &str) {
        if self.take(sign).is_none() {
            let found = self.peek().text.clone();
            self.complain(format!("Syntax error: mismatched input '{found}' expecting '{sign}'"));
        }
    }

    fn complain(&mut self, text: String) {
        let at = self.peek().at;
        self.complain_at(at, text);
    }

    fn complain_at(&mut self, at: usize, text: String) {
        if self.problems.iter().all(|problem| problem.at != at) {
            self.problems.push(Problem { at, text });
        }
    }

    fn expression(&mut self) -> Expr {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.complain(format!("expression recursion limit exceeded: {MAX_DEPTH}"));
            self.next = self.tokens.len() - 1;
            self.depth -= 1;
            return Expr::new(0, Node::Broken);
        }
        let condition = self.or();
        let expr = match self.take("?") {
            None => condition,
            Some(at) => {
                let yes = self.or();
                self.demand(":");
                let no = self.expression();
                let (condition, yes) = (Box::new(condition), Box::new(yes));
                Expr::new(at, Node::Cond(condition, yes, Box::new(no)))
            }
        };
        self.depth -= 1;
        expr
    }

    fn or(&mut self) -> Expr {
        let mut left = self.and();
        while let Some(at) = self.take("||") {
            let right = self.and();
            left = Expr::new(at, Node::Or(Box::new(left), Box::new(right)));
        }
        left
    }

    fn and(&mut self) -> Expr {
        let mut left = self.relation();
        while let Some(at) = self.take("&&") {
            let right = self.relation();
            left = Expr::new(at, Node::And(Box::new(left), Box::new(right)));
        }
        left
    }

    fn relation(&mut self) -> Expr {
        let mut left = self.sum();
        loop {
            let sign = ["<=", ">=", "==", "!=", "<", ">", "in"];
            let Some(sign) = sign.into_iter().find(|sign| self.sees(sign)) else { return left };
            let at = self.advance().at;
            let right = self.sum();
            let name = if sign == "in" { "@in".to_owned() } else { format!("_{sign}_") };
            left = call(at, &name, vec![left, right]);
        }
    }

    fn sum(&mut self) -> Expr {
        let mut left = self.product();
        while let Some(sign) = ["+", "-"].into_iter().find(|sign| self.sees(sign)) {
            let at = self.advance().at;
            let right = self.product();
            left = call(at, &format!("_{sign}_"), vec![left, right]);
        }
        left
    }

    fn product(&mut self) -> Expr {
        let mut left = self.unary();
        while let Some(sign) = ["*", "/", "%"].into_iter().find(|sign| self.sees(sign)) {
            let at = self.advance().at;
            let right = self.unary();
            left = call(at, &format!("_{sign}_"), vec![left, right]);
        }
        left
    }

    fn unary(&mut self) -> Expr {
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            let mut times = 0;
            let mut first = 0;
            while let Some(at) = self.take(sign) {
                first = if times == 0 { at } else { first };
                times += 1;
                if times > MAX_DEPTH {
                    self.complain(format!("expression recursion limit exceeded: {MAX_DEPTH}"));
                    return Expr::new(at, Node::Broken);
                }
            }
            if times == 0 {
                continue;
            }
            if sign == "-"
                && times == 1
                && let Some(number) = self.negative()
            {
                return Expr::new(first, Node::Literal(number));
            }
            let inner = self.member();
            // Two negations cancel out.
            return if times % 2 == 0 { inner } else { call(first, name, vec![inner]) };
        }
        self.member()
    }

    /// A number right behind a minus is a negative literal.
    fn negative(&mut self) -> Option<Value> {
        let number = match &self.peek().token {
            Token::Literal(Value::Int(number)) => Value::Int(number.wrapping_neg()),
            Token::Literal(Value::Double(number)) => Value::Double(-number),
            _ => return None,
        };
        self.advance();
        Some(number)
    }

    fn member(&mut self) -> Expr {
        let mut of = self.primary();
        loop {
            if let Some(at) = self.take(".") {
                let optional = self.take("?").is_some();
                let (field, plain) = match self.advance() {
                    Placed { token: Token::Ident(name), .. } => (name, true),
                    Placed { token: Token::Quoted(name), .. } => (name, false),
                    // Words with a meaning of their own are fields too behind a dot.
                    Placed { token: Token::Sign("in"), .. } => ("in".into(), true),
                    found => {
                        self.next -= 1;
                        let text = format!(
                            "Syntax error: no viable alternative at input '.{}'",
                            if found.token == Token::End { "" } else { &found.text }
                        );
                        self.complain_at(found.at, text);
                        return Expr::new(at, Node::Broken);
                    }
                };
                if plain
                    && !optional
                    && let Some(open) = self.take("(")
                {
                    let args = self.arguments();
                    of = self.method(open, of, field, args);
                } else {
                    of = Expr::new(at, Node::Select { of: Box::new(of), field, optional });
                }
            } else if let Some(at) = self.take("[") {
                let optional = self.take("?").is_some();
                let index = Box::new(self.expression());
                self.demand("]");
                of = Expr::new(at, Node::Index { of: Box::new(of), index, optional });
            } else if self.sees("{")
                && let Some(name) = dotted(&of)
            {
                let at = self.advance().at;
                of = self.structure(at, name);
            } else {
                return of;
            }
        }
    }

    fn arguments(&mut self) -> Vec<Expr> {
        let mut args = Vec::new();
        if self.take(")").is_some() {
            return args;
        }
        loop {
            args.push(self.expression());
            if self.take(",").is_none() {
                break;
            }
        }
        self.demand(")");
        args
    }

    fn structure(&mut self, at: usize, name: String) -> Expr {
        let mut fields = Vec::new();
        while self.take("}").is_none() {
            let optional = self.take("?").is_some();
            let field = match self.advance() {
                Placed { token: Token::Ident(name) | Token::Quoted(name), .. } => name,
                found => {
                    self.next -= 1;
                    let text = format!(
                        "Syntax error: mismatched input '{}' expecting {{'}}', ',', '?', IDENTIFIER, \
                         ESC_IDENTIFIER}}",
                        found.text
                    );
                    self.complain_at(found.at, text);
                    break;
                }
            };
            self.demand(":");
            fields.push((field, self.expression(), optional));
            if self.take(",").is_none() {
                self.demand("}");
                break;
            }
        }
        Expr::new(at, Node::Struct { name, fields })
    }

    fn primary(&mut self) -> Expr {
        let placed = self.peek().clone();
        let at = placed.at;
        match placed.token {
            Token::Literal(value) => {
                self.advance();
                Expr::new(at, Node::Literal(value))
            }
            Token::Ident(name) => {
                self.advance();
                self.named(at, name)
            }
            Token::Sign(".") => {
                self.advance();
                match self.peek().token.clone() {
                    Token::Ident(name) => {
                        self.advance();
                        self.named(at, name)
                    }
                    _ => self.expected_start(),
                }
            }
            Token::Sign("(") => {
                self.advance();
                let inner = self.expression();
                self.demand(")");
                inner
            }
            Token::Sign("[") => {
                self.advance();
                self.list(at)
            }
            Token::Sign("{") => {
                self.advance();
                self.map(at)
            }
            _ => self.expected_start(),
        }
    }

    fn expected_start(&mut self) -> Expr {
        let found = self.peek().clone();
        self.complain(format!(
            "Syntax error: mismatched input '{}' expecting {STARTS}",
            found.text
        ));
        Expr::new(found.at, Node::Broken)
    }

    fn named(&mut self, at: usize, name: String) -> Expr {
        if RESERVED.contains(&name.as_str()) {
            self.complain_at(at, format!("reserved identifier: {name}"));
        }
        match self.take("(") {
            None => Expr::new(at, Node::Ident(name)),
            Some(open) => {
                let mut args = self.arguments();
                if name == "has" && args.len() == 1 {
                    return self.presence(open, args.remove(0));
                }
                call(open, &name, args)
            }
        }
    }

    fn presence(&mut self, at: usize, of: Expr) -> Expr {
        match of.node {
            Node::Select { of, field, optional: false } => Expr::new(at, Node::Has { of, field }),
            Node::Broken => Expr::new(at, Node::Broken),
            _ => {
                self.complain_at(of.at, "invalid argument to has() macro".into());
                Expr::new(at, Node::Broken)
            }
        }
    }

    fn list(&mut self, at: usize) -> Expr {
        let mut items = Vec::new();
        while self.take("]").is_none() {
            let optional = self.take("?").is_some();
            items.push((self.expression(), optional));
            if self.take(",").is_none() {
                self.demand("]");
                break;
            }
        }
        Expr::new(at, Node::List(items))
    }

    fn map(&mut self, at: usize) -> Expr {
        let mut entries = Vec::new();
        while self.take("}").is_none() {
            let optional = self.take("?").is_some();
            let key = self.expression();
            self.demand(":");
            entries.push((key, self.expression(), optional));
            if self.take(",").is_none() {
                self.demand("}");
                break;
            }
        }
        Expr::new(at, Node::Map(entries))
    }

    /// A method call, or the macro that looks like one.
    fn method(&mut self, at: usize, target: Expr, name: String, mut args: Vec<Expr>) -> Expr {
        if name == "bind" && args.len() == 3 && target.node == Node::Ident("cel".into()) {
            let Some(variable) = self.variable(&args[0]) else {
                return Expr::new(at, Node::Broken);
            };
            let body = Box::new(args.remove(2));
            let value = Box::new(args.remove(1));
            return Expr::new(at, Node::Bind { name: variable, value, body });
        }
        if matches!(name.as_str(), "optMap" | "optFlatMap") && args.len() == 2 {
            let Some(variable) = self.variable(&args[0]) else {
                return Expr::new(at, Node::Broken);
            };
            let body = Box::new(args.remove(1));
            let of = Box::new(target);
            let flat = name == "optFlatMap";
            return Expr::new(at, Node::OptMap { of, name: variable, body, flat });
        }
        let Some((kind, variables, filter)) = fold_shape(&name, args.len()) else {
            let target = Some(Box::new(target));
            return Expr::new(at, Node::Call { target, name, args });
        };
        let body = args.pop().unwrap_or(Expr::new(at, Node::Broken));
        let filter = if filter { args.pop() } else { None };
        let first = self.variable(&args[0]);
        let second = if variables == 2 { self.variable(&args[1]) } else { None };
        let (Some(first), true) = (first, variables == 1 || second.is_some()) else {
            return Expr::new(at, Node::Broken);
        };
        let fold = Fold { kind, range: target, first, second, filter, body };
        Expr::new(at, Node::Fold(Box::new(fold)))
    }

    fn variable(&mut self, expr: &Expr) -> Option<String> {
        match &expr.node {
            Node::Ident(name) => Some(name.clone()),
            Node::Broken => None,
            _ => {
                self.complain_at(expr.at, "argument must be a simple name".into());
                None
            }
        }
    }
}

fn call(at: usize, name: &str, args: Vec<Expr>) -> Expr {
    Expr::new(at, Node::Call { target: None, name: name.to_owned(), args })
}

/// Which macro a method is: its kind, its number of variables, whether it has a filter.
fn fold_shape(name: &str, args: usize) -> Option<(FoldKind, usize, bool)> {
    Some(match (name, args) {
        ("all", 2) => (FoldKind::All, 1, false),
        ("exists", 2) => (FoldKind::Exists, 1, false),
        ("exists_one" | "existsOne", 2) => (FoldKind::ExistsOne, 1, false),
        ("map", 2) => (FoldKind::Map, 1, false),
        ("map", 3) => (FoldKind::Map, 1, true),
        ("filter", 2) => (FoldKind::Filter, 1, false),
        ("all", 3) => (FoldKind::All, 2, false),
        ("exists", 3) => (FoldKind::Exists, 2, false),
        ("exists_one" | "existsOne", 3) => (FoldKind::ExistsOne, 2, false),
        ("transformList", 3) => (FoldKind::TransformList, 2, false),
        ("transformList", 4) => (FoldKind::TransformList, 2, true),
        ("transformMap", 3) => (FoldKind::TransformMap, 2, false),
        ("transformMap", 4) => (FoldKind::TransformMap, 2, true),
        ("transformMapEntry", 3) => (FoldKind::TransformMapEntry, 2, false),
        ("transformMapEntry", 4) => (FoldKind::TransformMapEntry, 2, true),
        _ => return None,
    })
}

/// A chain of names as one name: what a structure may be called.
fn dotted(expr: &Expr) -> Option<String> {
    match &expr.node {
        Node::Ident(name) => Some(name.clone()),
        Node::Select { of, field, optional: false } => Some(format!("{}.{field}", dotted(of)?)),
        _ => None,
    }
}
