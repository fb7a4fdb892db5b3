//! URLs as the original's language takes them apart: lenient where others are strict, with its error texts.

use karmada_apimachinery::field::quote;

/// The parts of a URL that rules look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) user: Option<String>,
    pub(crate) host: String,
    pub(crate) query: String,
    pub(crate) fragment: String,
}

/// Takes a URL apart; the error reads `parse "…": …`.
pub(crate) fn parse(text: &str) -> Result<Url, String> {
    let fail = |why: &str| format!("parse {}: {why}", quote(text));
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    if rest.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(fail("net/url: invalid control character in URL"));
    }
    if let Some(bad) = bad_escape(fragment) {
        return Err(fail(&format!("invalid URL escape {}", quote(bad))));
    }
    if rest == "*" {
        return Ok(Url { fragment: fragment.to_owned(), ..Url::default() });
    }
    let (scheme, rest) = split_scheme(rest).map_err(fail)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut url = Url {
        scheme: scheme.to_ascii_lowercase(),
        query: query.to_owned(),
        fragment: fragment.to_owned(),
        ..Url::default()
    };
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            // What follows the scheme is opaque: no host, no path.
            return Ok(url);
        }
        let first = rest.split('/').next().unwrap_or_default();
        if first.contains(':') {
            return Err(fail("first path segment in URL cannot contain colon"));
        }
    }
    let mut path = rest;
    if let Some(authority) = rest.strip_prefix("//").filter(|_| !rest.starts_with("///")) {
        let end = authority.find('/').unwrap_or(authority.len());
        path = &authority[end..];
        (url.user, url.host) = parse_authority(&authority[..end]).map_err(|why| fail(&why))?;
    }
    if let Some(bad) = bad_escape(path) {
        return Err(fail(&format!("invalid URL escape {}", quote(bad))));
    }
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index == 0 => return Ok(("", text)),
            b'0'..=b'9' | b'+' | b'-' | b'.' => {}
            b':' if index == 0 => return Err("missing protocol scheme"),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn parse_authority(authority: &str) -> Result<(Option<String>, String), String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let host = parse_host(host)?;
    let Some(user) = user else { return Ok((None, host)) };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(allowed) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    Ok((Some(user.to_owned()), host))
}

fn parse_host(host: &str) -> Result<String, String> {
    let after_host = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        host.rfind(':').map_or("", |colon| &host[colon..])
    };
    let is_port = after_host.is_empty()
        || after_host.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {} after host", quote(after_host)));
    }
    if let Some(bad) = bad_escape(host) {
        return Err(format!("invalid URL escape {}", quote(bad)));
    }
    // Printable ASCII that a host may not hold; anything beyond ASCII passes.
    if let Some(bad) = host.chars().find(|c| " \"\\^`{|}".contains(*c)) {
        return Err(format!("invalid character {} in host name", quote(&bad.to_string())));
    }
    Ok(host.to_owned())
}

/// The first `%` that two hexadecimal digits do not follow, with what follows.
fn bad_escape(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        if bytes[index] == b'%' {
            let digits = bytes.get(index + 1..index + 3);
            if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                let mut end = (index + 3).min(bytes.len());
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                return text.get(index..end);
            }
            index += 2;
        }
        index += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_fall_into_the_parts_the_original_sees() {
        let cases = [
            ("https://a.b:1/x?q=1#f", "https", "a.b:1", "q=1", "f"),
            ("a.example.io", "", "", "", ""),
            ("host:6443", "host", "", "", ""),
            ("//h/p", "", "h", "", ""),
            ("https://[::1]:6443", "https", "[::1]:6443", "", ""),
            ("", "", "", "", ""),
        ];
        for (text, scheme, host, query, fragment) in cases {
            let url = parse(text).unwrap();
            assert_eq!(
                (&*url.scheme, &*url.host, &*url.query, &*url.fragment),
                (scheme, host, query, fragment),
                "{text}"
            );
        }
        assert_eq!(parse("https://u:p@h").unwrap().user.as_deref(), Some("u:p"));
    }

    #[test]
    fn broken_urls_are_refused_in_the_words_of_the_original() {
        let cases = [
            ("::bad::", r#"parse "::bad::": missing protocol scheme"#),
            (
                "1.2.3.4:6443",
                r#"parse "1.2.3.4:6443": first path segment in URL cannot contain colon"#,
            ),
            ("https://a b", r#"parse "https://a b": invalid character " " in host name"#),
            ("https://a:x", r#"parse "https://a:x": invalid port ":x" after host"#),
            ("https://a/%zz", r#"parse "https://a/%zz": invalid URL escape "%zz""#),
            (
                "https://a\u{7f}",
                "parse \"https://a\\x7f\": net/url: invalid control character in URL",
            ),
            ("https://[::1", r#"parse "https://[::1": missing ']' in host"#),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text).unwrap_err(), message);
        }
    }
}
