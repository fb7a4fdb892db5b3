//! IP addresses and CIDR blocks inside objects.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use karmada_apimachinery::field::quote;

use super::place::{At, Errors};

/// Reads an address as older Kubernetes did: leading zeros of IPv4 parts are ignored.
pub(crate) fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let (head, tail) = text.rsplit_once(':')?;
        if tail.contains('.') {
            let tail = parse_v4_sloppy(tail)?;
            return format!("{head}:{tail}").parse::<Ipv6Addr>().ok().map(IpAddr::V6);
        }
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    parse_v4_sloppy(text).map(IpAddr::V4)
}

fn parse_v4_sloppy(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn mapped(ip: IpAddr) -> Option<Ipv4Addr> {
    match ip {
        IpAddr::V6(ip) => ip.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    }
}

/// An address in a field that predates strict parsing; values already stored pass.
pub(crate) fn check_ip(at: &At<'_>, stored: &[&str], errs: &mut Errors) -> bool {
    if stored.contains(&at.text()) {
        return true;
    }
    let Some(ip) = parse_sloppy(at.text()) else {
        errs.invalid_text(at, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        return false;
    };
    if at.text().parse::<IpAddr>().is_err() {
        errs.invalid_text(at, "must not have leading 0s");
        return false;
    }
    if mapped(ip).is_some() {
        errs.invalid_text(at, "must not be an IPv4-mapped IPv6 address");
        return false;
    }
    true
}

/// An address in its one canonical form.
pub(crate) fn check_canonical_ip(at: &At<'_>, errs: &mut Errors) -> bool {
    if !check_ip(at, &[], errs) {
        return false;
    }
    let canonical = parse_sloppy(at.text()).map(|ip| ip.to_string()).unwrap_or_default();
    if canonical != at.text() {
        errs.invalid_text(at, format!("must be in canonical form ({})", quote(&canonical)));
    }
    canonical == at.text()
}

/// A block of addresses: the address and the length of its prefix.
pub(crate) fn parse_cidr_sloppy(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let ip = parse_sloppy(address)?;
    if length.is_empty() || !length.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let digits = length.trim_start_matches('0');
    let length: u32 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    (length <= if ip.is_ipv4() { 32 } else { 128 }).then_some((ip, length))
}

fn masked(ip: IpAddr, length: u32) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(ip) & mask))
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(ip) & mask))
        }
    }
}

/// A block in a field that predates strict parsing.
pub(crate) fn check_cidr(at: &At<'_>, text: &str, stored: &[&str], errs: &mut Errors) -> bool {
    if stored.contains(&text) {
        return true;
    }
    let Some((ip, length)) = parse_cidr_sloppy(text) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errs.invalid(at, text, detail);
        return false;
    };
    let (address, digits) = text.split_once('/').unwrap_or_default();
    let plain = address.parse::<IpAddr>().is_ok() && length.to_string() == digits;
    if !plain {
        errs.invalid(at, text, "must not have leading 0s in IP or prefix length");
    } else if mapped(ip).is_some() {
        errs.invalid(at, text, "must not have an IPv4-mapped IPv6 address");
    } else if masked(ip, length) != ip {
        errs.invalid(at, text, "must not have bits set beyond the prefix length");
    } else {
        return true;
    }
    false
}

/// A block in its one canonical form.
pub(crate) fn check_canonical_cidr(at: &At<'_>, errs: &mut Errors) -> bool {
    if !check_cidr(at, at.text(), &[], errs) {
        return false;
    }
    let canonical = parse_cidr_sloppy(at.text())
        .map(|(ip, length)| format!("{}/{length}", masked(ip, length)))
        .unwrap_or_default();
    if canonical != at.text() {
        errs.invalid_text(at, format!("must be in canonical form ({})", quote(&canonical)));
    }
    canonical == at.text()
}

/// Whether a block lies inside another and is smaller.
pub(crate) fn is_strict_subset(inner: &str, outer: &str) -> bool {
    match (parse_cidr_sloppy(inner), parse_cidr_sloppy(outer)) {
        (Some((inner, inner_length)), Some((outer, outer_length))) => {
            inner.is_ipv4() == outer.is_ipv4()
                && outer_length < inner_length
                && masked(masked(inner, inner_length), outer_length) == masked(outer, outer_length)
        }
        _ => false,
    }
}

/// Addresses of both families, each at least once.
pub(crate) fn is_dual_stack(addresses: &[&str]) -> bool {
    let parsed: Vec<IpAddr> = addresses.iter().filter_map(|text| parse_sloppy(text)).collect();
    parsed.len() == addresses.len()
        && parsed.iter().any(IpAddr::is_ipv4)
        && parsed.iter().any(IpAddr::is_ipv6)
}

/// An address traffic can be sent to.
pub(crate) fn check_endpoint_ip(at: &At<'_>, errs: &mut Errors) {
    let Some(ip) = parse_sloppy(at.text()) else {
        return errs.invalid_text(at, "must be a valid IP address");
    };
    if ip.is_unspecified() {
        errs.invalid_text(at, format!("may not be unspecified ({})", at.text()));
    }
    if ip.is_loopback() {
        errs.invalid_text(at, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (local, multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => {
            (ip.is_unicast_link_local(), ip.octets()[0] == 0xff && ip.octets()[1] & 0xf == 2)
        }
    };
    if local {
        let detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errs.invalid_text(at, detail);
    }
    if multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errs.invalid_text(at, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::Value;

    fn details(check: fn(&At<'_>, &mut Errors), text: &str) -> Vec<String> {
        let value = Value::from(text);
        let mut errs = Errors::default();
        check(&At::root(&value), &mut errs);
        errs.0.into_iter().map(|error| error.detail).collect()
    }

    #[test]
    fn addresses_are_read_strictly_but_explained_by_what_is_odd() {
        let check: fn(&At<'_>, &mut Errors) = |at, errs| {
            check_canonical_ip(at, errs);
        };
        let cases = [
            ("10.0.0.1", None),
            ("2001:db8::1", None),
            ("010.0.0.1", Some("must not have leading 0s")),
            ("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
            ("2001:0db8::1", Some("must be in canonical form (\"2001:db8::1\")")),
            ("1.2.3", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
        ];
        for (text, expected) in cases {
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(details(check, text), expected, "{text}");
        }
    }

    #[test]
    fn blocks_have_no_bits_beyond_their_prefix() {
        let check: fn(&At<'_>, &mut Errors) = |at, errs| {
            check_canonical_cidr(at, errs);
        };
        let cases = [
            ("10.0.0.0/8", None),
            ("::/0", None),
            ("10.0.0.1/8", Some("must not have bits set beyond the prefix length")),
            ("10.0.0.0/08", Some("must not have leading 0s in IP or prefix length")),
            (
                "10.0.0.0/33",
                Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
            ),
        ];
        for (text, expected) in cases {
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(details(check, text), expected, "{text}");
        }
    }
}
