//! Kubernetes' own types: quantities, addresses, URLs, versions and named formats.

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use karmada_apimachinery::names;
use karmada_apimachinery::quantity::{ParseError, Quantity};

use crate::eval::Error;
use crate::functions::Outcome;
use crate::value::{Key, Value};

/// Calls a function of the libraries.
pub(crate) fn call(name: &str, method: bool, args: &[Value]) -> Option<Outcome> {
    match args {
        [Value::String(text), ..] if !method => parse(name, text, args.get(1)),
        [Value::Quantity(own), rest @ ..] => quantity(name, own, rest),
        [Value::Ip(own)] => address(name, *own),
        [Value::Cidr(own, bits), rest @ ..] => network(name, (*own, *bits), rest),
        [Value::Url(own)] => url(name, own),
        [Value::Semver(own), rest @ ..] => version(name, own, rest),
        [Value::Format(own), Value::String(text)] if name == "validate" => {
            let problems = check_format(own, text);
            Some(Ok(Value::Optional((!problems.is_empty()).then(|| {
                let list = problems.iter().map(|p| p.as_str().into()).collect();
                Arc::new(Value::list(list))
            }))))
        }
        [] => {
            let wanted = name.strip_prefix("format.")?;
            let found = FORMATS.iter().find(|format| **format == wanted)?;
            Some(Ok(Value::Format(found)))
        }
        _ => None,
    }
}

fn parse(name: &str, text: &str, option: Option<&Value>) -> Option<Outcome> {
    let lenient = matches!(option, Some(Value::Bool(true)));
    Some(match name {
        "quantity" => parse_quantity(text).map(|q| Value::Quantity(Arc::new(q))),
        "isQuantity" => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        "ip" => parse_ip(text).map(Value::Ip),
        "isIP" => Ok(Value::Bool(parse_ip(text).is_ok())),
        "ip.isCanonical" => parse_ip(text).map(|ip| Value::Bool(ip.to_string() == text)),
        "cidr" => parse_cidr(text).map(|(ip, bits)| Value::Cidr(ip, bits)),
        "isCIDR" => Ok(Value::Bool(parse_cidr(text).is_ok())),
        "url" => Url::parse(text).map(|url| Value::Url(Arc::new(url))),
        "isURL" => Ok(Value::Bool(Url::parse(text).is_ok())),
        "semver" => Semver::parse(text, lenient).map(|v| Value::Semver(Arc::new(v))),
        "isSemver" => Ok(Value::Bool(Semver::parse(text, lenient).is_ok())),
        "format.named" => Ok(Value::Optional(
            FORMATS.iter().find(|format| **format == text).map(|f| Arc::new(Value::Format(f))),
        )),
        _ => return None,
    })
}

fn parse_quantity(text: &str) -> Result<Quantity, Error> {
    Quantity::parse(text).map_err(|error: ParseError| Error::failed(error.to_string()))
}

fn quantity(name: &str, own: &Quantity, rest: &[Value]) -> Option<Outcome> {
    let other = match rest {
        [Value::Quantity(other)] => Some(other.nanos()),
        [Value::Int(number)] => Some(i128::from(*number) * 1_000_000_000),
        _ => None,
    };
    let made =
        |nanos: i128| Ok(Value::Quantity(Arc::new(Quantity::from_nanos(nanos, own.format()))));
    let whole = |text: i32| Ok(Value::Int(i64::from(text)));
    Some(match (name, other) {
        ("isInteger", None) => Ok(Value::Bool(own.as_i64().is_some())),
        ("asInteger", None) => own
            .as_i64()
            .map(Value::Int)
            .ok_or_else(|| Error::failed("cannot convert value to integer")),
        ("asApproximateFloat", None) => Ok(Value::Double(own.as_f64())),
        ("sign", None) => whole(own.signum()),
        ("add", Some(other)) => made(own.nanos().saturating_add(other)),
        ("sub", Some(other)) => made(own.nanos().saturating_sub(other)),
        ("compareTo", Some(other)) => whole(own.nanos().cmp(&other) as i32),
        ("isLessThan", Some(other)) => Ok(Value::Bool(own.nanos() < other)),
        ("isGreaterThan", Some(other)) => Ok(Value::Bool(own.nanos() > other)),
        _ => return None,
    })
}

fn parse_ip(text: &str) -> Result<IpAddr, Error> {
    let wrong = |why: &str| Error::failed(format!("IP Address {text:?} {why}"));
    let ip: IpAddr =
        text.parse().map_err(|_| wrong("parse error during conversion from string"))?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(wrong(
            "parse error during conversion from string: IPv4-mapped IPv6 address is not allowed",
        )),
        ip => Ok(ip),
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), Error> {
    let wrong =
        || Error::failed("network address parse error during conversion from string".to_owned());
    let (ip, bits) = text.split_once('/').ok_or_else(wrong)?;
    let ip = parse_ip(ip)?;
    let plain = bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let bits: u8 = bits.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    if bits > most { Err(wrong()) } else { Ok((ip, bits)) }
}

fn address(name: &str, own: IpAddr) -> Option<Outcome> {
    let link_local = |ip: &IpAddr| match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0) == 0xfe80,
    };
    let local_multicast = |ip: &IpAddr| match ip {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => (v6.segments()[0] & 0xff0f) == 0xff02,
    };
    let broadcast = own == IpAddr::V4(Ipv4Addr::BROADCAST);
    Some(Ok(match name {
        "family" => Value::Int(if own.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Value::Bool(own.is_unspecified()),
        "isLoopback" => Value::Bool(own.is_loopback()),
        "isLinkLocalMulticast" => Value::Bool(local_multicast(&own)),
        "isLinkLocalUnicast" => Value::Bool(link_local(&own)),
        "isGlobalUnicast" => Value::Bool(
            !broadcast
                && !own.is_unspecified()
                && !own.is_loopback()
                && !own.is_multicast()
                && !link_local(&own),
        ),
        _ => return None,
    }))
}

fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    }
}

fn network(name: &str, (own, bits): (IpAddr, u8), rest: &[Value]) -> Option<Outcome> {
    let contains_ip =
        |ip: IpAddr| ip.is_ipv4() == own.is_ipv4() && masked(ip, bits) == masked(own, bits);
    let contains = |(ip, other): (IpAddr, u8)| Value::Bool(other >= bits && contains_ip(ip));
    Some(match (name, rest) {
        ("containsIP", [Value::Ip(ip)]) => Ok(Value::Bool(contains_ip(*ip))),
        ("containsIP", [Value::String(text)]) => {
            parse_ip(text).map(|ip| Value::Bool(contains_ip(ip)))
        }
        ("containsCIDR", [Value::Cidr(ip, other)]) => Ok(contains((*ip, *other))),
        ("containsCIDR", [Value::String(text)]) => parse_cidr(text).map(contains),
        ("ip", []) => Ok(Value::Ip(own)),
        ("masked", []) => Ok(Value::Cidr(masked(own, bits), bits)),
        ("prefixLength", []) => Ok(Value::Int(i64::from(bits))),
        _ => return None,
    })
}

/// A URL taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub(crate) text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Url {
    fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::failed(format!(
                "URL parse error during conversion from string: parse {text:?}: {why}"
            ))
        };
        if text.is_empty() {
            return Err(wrong("empty url"));
        }
        if text.chars().any(|c| c.is_ascii_control() || c == ' ') {
            return Err(wrong("invalid character in URL"));
        }
        let (rest, _) = text.split_once('#').unwrap_or((text, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (scheme, rest) = match rest.split_once(':') {
            Some((scheme, after)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), after),
            _ if rest.starts_with('/') => (String::new(), rest),
            _ => return Err(wrong("invalid URI for request")),
        };
        if !rest.starts_with('/') {
            return Err(wrong("invalid URI for request"));
        }
        let (host, path) = match rest.strip_prefix("//") {
            Some(after) if !scheme.is_empty() => {
                let end = after.find('/').unwrap_or(after.len());
                (&after[..end], &after[end..])
            }
            _ => ("", rest),
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        Ok(Self {
            text: text.to_owned(),
            scheme,
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }

    fn host_and_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (&self.host, ""),
        }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

fn url(name: &str, own: &Url) -> Option<Outcome> {
    let text = |text: &str| Ok(Value::from(text));
    Some(match name {
        "getScheme" => text(&own.scheme),
        "getHost" => text(&own.host),
        "getHostname" => text(own.host_and_port().0.trim_matches(['[', ']'])),
        "getPort" => text(own.host_and_port().1),
        "getEscapedPath" => text(&own.path),
        "getQuery" => {
            let mut found: std::collections::BTreeMap<Key, Vec<Value>> = Default::default();
            for pair in own.query.split('&').filter(|pair| !pair.is_empty()) {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                let key = Key::String(unescape(key).into());
                found.entry(key).or_default().push(unescape(value).as_str().into());
            }
            Ok(Value::map(found.into_iter().map(|(key, values)| (key, Value::list(values)))))
        }
        _ => return None,
    })
}

fn unescape(text: &str) -> String {
    let bytes = text.replace('+', " ").into_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%')
            .then(|| std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok())
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A semantic version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Semver {
    numbers: [u64; 3],
    before: Vec<String>,
    build: String,
}

impl Semver {
    fn parse(text: &str, lenient: bool) -> Result<Self, Error> {
        let wrong = || Error::failed(format!("invalid semantic version: {text:?}"));
        let text = if lenient { text.strip_prefix('v').unwrap_or(text) } else { text };
        let (rest, build) = text.split_once('+').unwrap_or((text, ""));
        let (core, before) = rest.split_once('-').unwrap_or((rest, ""));
        let mut parts: Vec<&str> = core.split('.').collect();
        while lenient && parts.len() < 3 {
            parts.push("0");
        }
        let [major, minor, patch] = parts.as_slice() else { return Err(wrong()) };
        let number = |part: &str| -> Result<u64, Error> {
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            if !digits || (!lenient && part.len() > 1 && part.starts_with('0')) {
                return Err(wrong());
            }
            part.parse().map_err(|_| wrong())
        };
        let numbers = [number(major)?, number(minor)?, number(patch)?];
        let before: Vec<String> = if before.is_empty() {
            if rest.ends_with('-') {
                return Err(wrong());
            }
            Vec::new()
        } else {
            before.split('.').map(str::to_owned).collect()
        };
        let plain = |part: &String| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        if !before.iter().all(plain) {
            return Err(wrong());
        }
        Ok(Self { numbers, before, build: build.to_owned() })
    }

    fn order(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.before.is_empty(), other.before.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => order_parts(&self.before, &other.before),
            }
        })
    }
}

fn order_parts(a: &[String], b: &[String]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = match (a.parse::<u64>(), b.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            _ => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.before.is_empty() {
            write!(f, "-{}", self.before.join("."))?;
        }
        if self.build.is_empty() { Ok(()) } else { write!(f, "+{}", self.build) }
    }
}

fn version(name: &str, own: &Semver, rest: &[Value]) -> Option<Outcome> {
    let number =
        |index: usize| Ok(Value::Int(i64::try_from(own.numbers[index]).unwrap_or(i64::MAX)));
    Some(match (name, rest) {
        ("major", []) => number(0),
        ("minor", []) => number(1),
        ("patch", []) => number(2),
        ("compareTo", [Value::Semver(other)]) => Ok(Value::Int(i64::from(own.order(other) as i8))),
        ("isLessThan", [Value::Semver(other)]) => Ok(Value::Bool(own.order(other).is_lt())),
        ("isGreaterThan", [Value::Semver(other)]) => Ok(Value::Bool(own.order(other).is_gt())),
        _ => return None,
    })
}

const FORMATS: &[&str] = &[
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

fn check_format(format: &str, text: &str) -> Vec<String> {
    let simple = |fits: bool, why: &str| if fits { Vec::new() } else { vec![why.to_owned()] };
    match format {
        "dns1123Label" => names::dns1123_label(text),
        "dns1123Subdomain" => names::dns1123_subdomain(text),
        "dns1035Label" => names::dns1035_label(text),
        "qualifiedName" => names::qualified_name(text),
        "dns1123LabelPrefix" => names::label_name(text, true),
        "dns1123SubdomainPrefix" => names::subdomain_name(text, true),
        "dns1035LabelPrefix" => names::dns1035_name(text, true),
        "labelValue" => names::label_value(text),
        "uri" => simple(Url::parse(text).is_ok(), "invalid URI"),
        "uuid" => {
            let hex = text.len() == 36
                && text.char_indices().all(|(at, c)| {
                    if matches!(at, 8 | 13 | 18 | 23) { c == '-' } else { c.is_ascii_hexdigit() }
                });
            simple(hex, "does not match the UUID format")
        }
        "byte" => {
            use base64::Engine as _;
            let fits = base64::engine::general_purpose::STANDARD.decode(text).is_ok();
            simple(fits, "invalid base64")
        }
        "date" => {
            simple(text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10, "invalid date")
        }
        _ => simple(text.parse::<jiff::Timestamp>().is_ok(), "invalid datetime"),
    }
}
