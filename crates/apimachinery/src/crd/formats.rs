//! The string formats a schema may demand. Unknown formats are ignored, as Kubernetes ignores them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use crate::time::parse_time;

type Check = fn(&str) -> bool;

/// Checks by their normalised names: formats are compared without dashes.
const FORMATS: &[(&str, Check)] = &[
    ("bsonobjectid", |text| text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit())),
    ("uri", is_request_uri),
    ("email", is_email),
    ("hostname", is_hostname),
    ("ipv4", |text| sloppy_ipv4(text).is_some()),
    ("ipv6", |text| text.contains(':') && text.parse::<Ipv6Addr>().is_ok()),
    ("cidr", is_cidr),
    ("mac", is_mac),
    ("uuid", |text| is_uuid(text, None)),
    ("uuid3", |text| is_uuid(text, Some(b'3'))),
    ("uuid4", |text| is_uuid(text, Some(b'4'))),
    ("uuid5", |text| is_uuid(text, Some(b'5'))),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("creditcard", is_credit_card),
    ("ssn", |text| SSN.is_match(text)),
    ("hexcolor", |text| HEX_COLOR.is_match(text)),
    ("rgbcolor", |text| RGB_COLOR.is_match(text)),
    ("byte", |text| BASE64.is_match(text)),
    ("password", |_| true),
    ("date", is_date),
    ("duration", is_duration),
    ("datetime", is_date_time),
    ("k8sshortname", |text| text.len() <= 63 && SHORT_NAME.is_match(text)),
    ("k8slongname", |text| text.len() <= 253 && LONG_NAME.is_match(text)),
];

macro_rules! pattern {
    ($name:ident, $pattern:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($pattern).expect("the pattern is valid"));
    };
}

pattern!(SSN, r"^\d{3}[- ]?\d{2}[- ]?\d{4}$");
pattern!(HEX_COLOR, r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
pattern!(
    RGB_COLOR,
    r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$"
);
pattern!(
    BASE64,
    r"^(?:[A-Za-z0-9+\/]{4})*(?:[A-Za-z0-9+\/]{2}==|[A-Za-z0-9+\/]{3}=|[A-Za-z0-9+\/]{4})$"
);
pattern!(SHORT_NAME, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$");
pattern!(LONG_NAME, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$");
pattern!(
    HOSTNAME,
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
);
pattern!(
    CREDIT_CARD,
    r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}|6[27][0-9]{14})$"
);
pattern!(DURATION_PART, r"(?i)(\d+)\s*([A-Za-zµ]+)");
pattern!(GO_DURATION, r"^[+-]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$");
pattern!(TIME_OF_DAY, r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$");

/// Whether `text` fits the format; nothing when there is no such format.
pub(super) fn fits(format: &str, text: &str) -> Option<bool> {
    // Names are the same with and without their hyphens.
    let is_called = |name: &str| name.bytes().eq(format.bytes().filter(|byte| *byte != b'-'));
    FORMATS.iter().find(|(name, _)| is_called(name)).map(|(_, check)| check(text))
}

fn is_request_uri(text: &str) -> bool {
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut letters = scheme.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        && !rest.is_empty()
}

/// `local@domain`, alone or after a display name in angle brackets.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(open) => match open.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_atom = |part: &str| {
        part.split('.').all(|atom| {
            !atom.is_empty()
                && atom.chars().all(|c| {
                    !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
                })
        })
    };
    let is_quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let is_literal = domain.len() > 2 && domain.starts_with('[') && domain.ends_with(']');
    (is_quoted || is_atom(local)) && (is_literal || is_atom(domain))
}

fn is_hostname(text: &str) -> bool {
    HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|part| part.len() <= 63)
}

/// Leading zeros are accepted, as older Go accepted them; so is an IPv4 address in IPv6 form.
fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    if text.contains(':') {
        return text.contains('.').then(|| text.parse::<Ipv6Addr>().ok()?.to_ipv4_mapped())?;
    }
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part =
            parts.next().filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))?;
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    if bits.is_empty() || !bits.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let Ok(bits) = bits.parse::<u8>() else { return false };
    match sloppy_ipv4(address).filter(|_| !address.contains(':')) {
        Some(_) => bits <= 32,
        None => address.parse::<Ipv6Addr>().is_ok() && bits <= 128,
    }
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize, lengths: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        lengths.contains(&parts.len())
            && parts.iter().all(|p| p.len() == width && p.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    // Each of the four dashes may be missing.
    let mut digits = Vec::with_capacity(32);
    for byte in text.bytes() {
        match byte {
            b'-' if matches!(digits.len(), 8 | 12 | 16 | 20) => {}
            digit if digit.is_ascii_hexdigit() => digits.push(digit.to_ascii_lowercase()),
            _ => return false,
        }
    }
    let has_doubled_dash = text.contains("--") || text.ends_with('-');
    let variant_fits =
        |version| version == b'3' || matches!(digits.get(16), Some(b'8' | b'9' | b'a' | b'b'));
    digits.len() == 32
        && !has_doubled_dash
        && version.is_none_or(|version| digits.get(12) == Some(&version) && variant_fits(version))
}

fn isbn_digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (index, byte) in digits.bytes().enumerate() {
        let value = match byte {
            b'0'..=b'9' => usize::from(byte - b'0'),
            b'X' if index == 9 => 10,
            _ => return false,
        };
        sum += (index + 1) * value;
    }
    sum % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 13 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let weighted = digits.bytes().enumerate();
    let sum: u32 =
        weighted.map(|(i, b)| u32::from(b - b'0') * if i % 2 == 0 { 1 } else { 3 }).sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = digits.bytes().rev().enumerate().map(|(index, byte)| {
        let digit = u32::from(byte - b'0');
        match index % 2 {
            0 => digit,
            _ if digit * 2 > 9 => digit * 2 - 9,
            _ => digit * 2,
        }
    });
    CREDIT_CARD.is_match(&digits) && doubled.sum::<u32>().is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_duration(text: &str) -> bool {
    const UNITS: &[&str] = &[
        "ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "sec", "m", "min", "h", "hr",
        "hour", "d", "day", "w", "wk", "week",
    ];
    if text == "0" || GO_DURATION.is_match(text) {
        return true;
    }
    DURATION_PART.captures_iter(text).any(|part| {
        let unit = part[2].to_lowercase();
        let is_word = |prefix: &&&str| prefix.len() > 2 && unit.starts_with(**prefix);
        UNITS.contains(&unit.as_str()) || UNITS.iter().find(is_word).is_some()
    })
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    if parse_time(text).is_some() {
        return true;
    }
    // Hours, minutes and seconds are compared as text, so a leap second fails but an odd zone passes.
    is_date(date)
        && TIME_OF_DAY
            .captures(time)
            .is_some_and(|part| &part[1] <= "23" && &part[2] <= "59" && &part[3] <= "59")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_what_kubernetes_accepts() {
        for (format, good, bad) in [
            ("date-time", "2020-01-02T03:04:05Z", "yesterday"),
            ("date", "2020-01-02", "2020-13-02"),
            ("email", "a.b@example.com", "nope"),
            ("ipv4", "1.2.3.4", "1.2.3"),
            ("ipv6", "::1", "::zz"),
            ("cidr", "10.0.0.0/8", "1.2.3.4"),
            ("cidr", "fd00::/8", "fd00::/129"),
            ("uri", "https://example.com/x", "::"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "zzz"),
            (
                "uuid4",
                "123e4567-e89b-42d3-a456-426614174000",
                "123e4567-e89b-12d3-a456-426614174000",
            ),
            ("byte", "YQ==", "###"),
            ("duration", "1h30m", "soon"),
            ("duration", "3 days", "3 moons"),
            ("hostname", "a.example.com", "a b"),
            ("mac", "01:23:45:67:89:ab", "01:23"),
            ("k8s-short-name", "good-name", "Bad_Name"),
            ("isbn", "0321751043", "0321751044"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("hexcolor", "#FFFFFF", "#GG"),
        ] {
            assert_eq!(fits(format, good), Some(true), "{format} {good}");
            assert_eq!(fits(format, bad), Some(false), "{format} {bad}");
        }
        assert_eq!(fits("whatever", "x"), None);
    }
}
