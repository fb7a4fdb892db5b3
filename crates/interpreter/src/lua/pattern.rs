//! Lua's string patterns with a bound on the work: the original runs for hours on hostile patterns and
//! cannot be interrupted.

/// Nested groups and repetitions beyond this are refused.
const MAX_DEPTH: usize = 200;
const MAX_CAPTURES: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PatternError {
    Malformed(&'static str),
    /// The budget said no.
    Stopped,
}

type Result<T> = std::result::Result<T, PatternError>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    /// Start and end.
    Text(usize, usize),
    /// An empty group captures where it stands, counted from one.
    Position(usize),
}

/// A match: where it is and what its groups hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) captures: Vec<Capture>,
}

impl Match {
    /// The groups, or the whole match where the pattern has none.
    pub(super) fn captures_or_whole(&self) -> Vec<Capture> {
        if self.captures.is_empty() {
            vec![Capture::Text(self.start, self.end)]
        } else {
            self.captures.clone()
        }
    }
}

/// Finds the first match at or after `from`. `spend` pays for each step.
pub(super) fn find(
    subject: &[u8],
    pattern: &[u8],
    from: usize,
    spend: &dyn Fn(u64) -> bool,
) -> Result<Option<Match>> {
    let (pattern, anchored) = match pattern.split_first() {
        Some((b'^', rest)) => (rest, true),
        _ => (pattern, false),
    };
    let mut start = from;
    while start <= subject.len() {
        let mut matcher = Matcher { subject, pattern, groups: Vec::new(), depth: 0, spend };
        if let Some(end) = matcher.run(start, 0)? {
            let captures = matcher.captures()?;
            return Ok(Some(Match { start, end, captures }));
        }
        if anchored {
            break;
        }
        start += 1;
    }
    Ok(None)
}

#[derive(Clone, Copy)]
enum Extent {
    Open,
    Closed(usize),
    Position,
}

struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    groups: Vec<(usize, Extent)>,
    depth: usize,
    spend: &'a dyn Fn(u64) -> bool,
}

impl Matcher<'_> {
    fn captures(&self) -> Result<Vec<Capture>> {
        let capture = |(start, extent): &(usize, Extent)| match extent {
            Extent::Open => Err(PatternError::Malformed("unfinished capture")),
            Extent::Closed(end) => Ok(Capture::Text(*start, *end)),
            Extent::Position => Ok(Capture::Position(*start + 1)),
        };
        self.groups.iter().map(capture).collect()
    }

    /// Matches the pattern from `p` on at `s`; returns where the match ends.
    fn run(&mut self, s: usize, p: usize) -> Result<Option<usize>> {
        if self.depth >= MAX_DEPTH {
            return Err(PatternError::Malformed("pattern too complex"));
        }
        self.depth += 1;
        let end = self.step_through(s, p);
        self.depth -= 1;
        end
    }

    fn step_through(&mut self, mut s: usize, mut p: usize) -> Result<Option<usize>> {
        loop {
            self.pay(1)?;
            let Some(&byte) = self.pattern.get(p) else { return Ok(Some(s)) };
            match (byte, self.pattern.get(p + 1)) {
                (b'(', Some(b')')) => return self.open(s, p + 2, Extent::Position),
                (b'(', _) => return self.open(s, p + 1, Extent::Open),
                (b')', _) => return self.close(s, p + 1),
                (b'$', None) => return Ok((s == self.subject.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.balance(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    let set = p + 2;
                    if self.pattern.get(set) != Some(&b'[') {
                        return Err(PatternError::Malformed("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(set)?;
                    let before = if s == 0 { 0 } else { self.subject[s - 1] };
                    let after = self.subject.get(s).copied().unwrap_or(0);
                    if self.in_class(before, set, end) || !self.in_class(after, set, end) {
                        return Ok(None);
                    }
                    p = end;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.back_reference(s, *digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(p)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.matches_one(s, p, end)
                                && let Some(found) = self.run(s + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.most(s, p, end, 0),
                        Some(b'+') => return self.most(s, p, end, 1),
                        Some(b'-') => return self.fewest(s, p, end),
                        _ if self.matches_one(s, p, end) => (s, p) = (s + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn pay(&self, fuel: u64) -> Result<()> {
        if (self.spend)(fuel) { Ok(()) } else { Err(PatternError::Stopped) }
    }

    fn open(&mut self, s: usize, p: usize, extent: Extent) -> Result<Option<usize>> {
        if self.groups.len() >= MAX_CAPTURES {
            return Err(PatternError::Malformed("too many captures"));
        }
        self.groups.push((s, extent));
        let end = self.run(s, p)?;
        if end.is_none() {
            self.groups.pop();
        }
        Ok(end)
    }

    fn close(&mut self, s: usize, p: usize) -> Result<Option<usize>> {
        let open = self.groups.iter().rposition(|(_, extent)| matches!(extent, Extent::Open));
        let Some(open) = open else {
            return Err(PatternError::Malformed("invalid pattern capture"));
        };
        self.groups[open].1 = Extent::Closed(s);
        let end = self.run(s, p)?;
        if end.is_none() {
            self.groups[open].1 = Extent::Open;
        }
        Ok(end)
    }

    /// As many as possible, then fewer until the rest fits.
    fn most(&mut self, s: usize, p: usize, end: usize, least: usize) -> Result<Option<usize>> {
        let mut taken = 0;
        while self.matches_one(s + taken, p, end) {
            self.pay(1)?;
            taken += 1;
        }
        loop {
            if taken < least {
                return Ok(None);
            }
            if let Some(found) = self.run(s + taken, end + 1)? {
                return Ok(Some(found));
            }
            match taken.checked_sub(1) {
                Some(fewer) => taken = fewer,
                None => return Ok(None),
            }
        }
    }

    /// As few as possible, then more until the rest fits.
    fn fewest(&mut self, mut s: usize, p: usize, end: usize) -> Result<Option<usize>> {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.matches_one(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn balance(&self, s: usize, p: usize) -> Result<Option<usize>> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(PatternError::Malformed("unbalanced pattern"));
        };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (offset, &byte) in self.subject[s + 1..].iter().enumerate() {
            self.pay(1)?;
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(s + 1 + offset + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&self, s: usize, digit: u8) -> Result<Option<usize>> {
        let group =
            usize::from(digit - b'0').checked_sub(1).and_then(|index| self.groups.get(index));
        let Some(&(start, Extent::Closed(end))) = group else {
            return Err(PatternError::Malformed("invalid capture index"));
        };
        let text = &self.subject[start..end];
        self.pay(text.len() as u64)?;
        Ok(self.subject[s..].starts_with(text).then_some(s + text.len()))
    }

    /// Where the single-character class that starts at `p` ends.
    fn class_end(&self, p: usize) -> Result<usize> {
        match self.pattern.get(p) {
            Some(b'%') => match self.pattern.get(p + 1) {
                Some(_) => Ok(p + 2),
                None => Err(PatternError::Malformed("malformed pattern (ends with '%')")),
            },
            Some(b'[') => {
                let missing = PatternError::Malformed("malformed pattern (missing ']')");
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // A bracket in first place stands for itself.
                loop {
                    match self.pattern.get(at) {
                        None => return Err(missing),
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn matches_one(&self, s: usize, p: usize, end: usize) -> bool {
        self.subject.get(s).is_some_and(|&byte| self.in_class(byte, p, end))
    }

    fn in_class(&self, byte: u8, p: usize, end: usize) -> bool {
        match self.pattern[p] {
            b'.' => true,
            b'%' => is_of(byte, self.pattern[p + 1]),
            b'[' => in_set(byte, &self.pattern[p + 1..end - 1]),
            plain => plain == byte,
        }
    }
}

fn in_set(byte: u8, set: &[u8]) -> bool {
    let (set, wanted) = match set.split_first() {
        Some((b'^', rest)) => (rest, false),
        _ => (set, true),
    };
    let mut rest = set;
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'%', [class, tail @ ..]) => {
                if is_of(byte, *class) {
                    return wanted;
                }
                rest = tail;
            }
            (low, [b'-', high, tail @ ..]) => {
                if (*low..=*high).contains(&byte) {
                    return wanted;
                }
                rest = tail;
            }
            (plain, tail) => {
                if *plain == byte {
                    return wanted;
                }
                rest = tail;
            }
        }
    }
    !wanted
}

fn is_of(byte: u8, class: u8) -> bool {
    let inside = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    // A capital letter stands for everything else.
    inside != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(subject: &str, pattern: &str) -> String {
        match find(subject.as_bytes(), pattern.as_bytes(), 0, &|_| true) {
            Err(PatternError::Malformed(problem)) => problem.to_owned(),
            Err(PatternError::Stopped) => "stopped".to_owned(),
            Ok(None) => "-".to_owned(),
            Ok(Some(found)) => {
                let captures = found.captures_or_whole().into_iter().map(|capture| match capture {
                    Capture::Text(start, end) => subject[start..end].to_owned(),
                    Capture::Position(position) => position.to_string(),
                });
                captures.collect::<Vec<_>>().join("|")
            }
        }
    }

    #[test]
    fn patterns_match_as_lua_matches_them() {
        let cases = [
            ("hello world", "o w", "o w"),
            ("hello", "^h(.)l", "e"),
            ("hello", "^e", "-"),
            ("hello", "l+o$", "llo"),
            ("1h30m", "(%d+)h(%d+)m", "1|30"),
            ("key=value", "(%w+)=(%w*)", "key|value"),
            ("a.b.c", "%.", "."),
            ("a-b", "[a-c]%-[^a]", "a-b"),
            ("x]y", "[]]", "]"),
            ("(a(b)c)d", "%b()", "(a(b)c)"),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", "THE"),
            ("abcabc", "(abc)%1", "abc"),
            ("aaa", "a-b", "-"),
            ("<<x>>", "<(.-)>", "<x"),
            ("abc", "()b()", "2|3"),
            ("", "a*", ""),
            ("ErrImagePull: x", "ImagePull", "ImagePull"),
            ("x", "%", "malformed pattern (ends with '%')"),
            ("x", "[a", "malformed pattern (missing ']')"),
            ("x", "(x", "unfinished capture"),
            ("x", "x)", "invalid pattern capture"),
            ("x", "%1", "invalid capture index"),
        ];
        for (subject, pattern, expected) in cases {
            assert_eq!(show(subject, pattern), expected, "{subject:?} {pattern:?}");
        }
    }

    #[test]
    fn backtracking_stops_when_the_budget_is_spent() {
        let subject = "a".repeat(40);
        let pattern = format!("{}b", "a*".repeat(40));
        let left = std::cell::Cell::new(100_000u64);
        let spend = |fuel: u64| {
            let enough = left.get() >= fuel;
            left.set(left.get().saturating_sub(fuel));
            enough
        };
        assert_eq!(
            find(subject.as_bytes(), pattern.as_bytes(), 0, &spend),
            Err(PatternError::Stopped)
        );
    }
}
