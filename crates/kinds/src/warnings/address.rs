//! Addresses and ranges that were once accepted in forms they should not have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use karmada_apimachinery::Value;
use karmada_apimachinery::field::{Path, quote};
use karmada_apimachinery::object::ObjectExt as _;

use super::Warnings;

pub(super) fn list(found: &mut Warnings, path: &Path, addresses: &[Value]) {
    for (index, address) in addresses.iter().enumerate() {
        self::address(found, &path.index(index), address.as_str().unwrap_or_default());
    }
}

/// Points out an address that is not written the one right way.
pub(super) fn address(found: &mut Warnings, path: &Path, text: &str) {
    let shown = quote(text);
    match (text.parse::<IpAddr>(), parse_sloppy(text)) {
        (_, None) => {}
        (Ok(IpAddr::V6(address)), _) if address.to_ipv4_mapped().is_none() => {
            let right = canonical(address);
            if right != text {
                let right = quote(&right);
                found.at(
                    path,
                    format!(
                        "IPv6 address {shown} should be in RFC 5952 canonical format ({right})"
                    ),
                );
            }
        }
        (Ok(IpAddr::V4(_)), _) => {}
        (_, Some(address)) => {
            let right = quote(&print(address));
            found.at(path, format!("non-standard IP address {shown} is invalid: use {right}"));
        }
    }
}

/// Points out a range that is not written the one right way, or has bits set beyond its prefix.
pub(super) fn range(found: &mut Warnings, path: &Path, text: &str) {
    let Some((address, bits)) = text.split_once('/') else { return };
    let (Some(parsed), Ok(length)) = (parse_sloppy(address), bits.parse::<u32>()) else { return };
    let (width, network) = match parsed {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(length)).unwrap_or(0);
            (32, IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask)))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(length)).unwrap_or(0);
            (128, IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask)))
        }
    };
    if length > width {
        return;
    }
    let shown = quote(text);
    let right = format!("{}/{length}", print(network));
    let mut is_fine = true;
    if network != parsed {
        let single = quote(&format!("{}/{width}", print(parsed)));
        let right = quote(&right);
        found.at(
            path,
            format!(
                "CIDR value {shown} is ambiguous in this context (should be {right} or {single}?)"
            ),
        );
        is_fine = false;
    }
    let is_standard = match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) => v6.to_ipv4_mapped().is_none(),
        Ok(IpAddr::V4(_)) => true,
        Err(_) => false,
    };
    if !is_standard || bits != length.to_string() {
        let right = quote(&right);
        found.at(path, format!("non-standard CIDR value {shown} is invalid: use {right}"));
    } else if is_fine && address.contains(':') && right != text {
        let right = quote(&right);
        found.at(
            path,
            format!("IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({right})"),
        );
    }
}

/// Reads an address as Kubernetes always did: leading zeros are decimal, mapped addresses are IPv4.
fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let parts: Option<Vec<u8>> = text.split('.').map(|part| part.parse().ok()).collect();
    let octets: [u8; 4] = parts?.try_into().ok()?;
    Some(IpAddr::from(octets))
}

fn print(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => canonical(v6),
    }
}

fn canonical(address: Ipv6Addr) -> String {
    address.to_string()
}

pub(super) fn endpoints(found: &mut Warnings, endpoints: &Value) {
    if endpoints.label("endpoints.kubernetes.io/managed-by") == Some("endpoint-controller") {
        return;
    }
    for (index, subset) in endpoints.list_at(&["subsets"]).iter().enumerate() {
        for list in ["addresses", "notReadyAddresses"] {
            for (at, entry) in subset.list_at(&[list]).iter().enumerate() {
                let path = Path::new("subsets").index(index).child(list).index(at).child("ip");
                address(found, &path, entry.str_at(&["ip"]).unwrap_or_default());
            }
        }
    }
}

pub(super) fn endpoint_slice(found: &mut Warnings, slice: &Value, is_new: bool) {
    let is_name = slice.str_at(&["addressType"]) == Some("FQDN");
    if is_new && is_name {
        found.add("spec.addressType: FQDN endpoints are deprecated");
    }
    let owner = slice.label("endpointslice.kubernetes.io/managed-by").unwrap_or_default();
    let is_ours = matches!(
        owner,
        "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io"
    );
    for (index, endpoint) in slice.list_at(&["endpoints"]).iter().enumerate() {
        if !is_ours && !is_name {
            let path = Path::new("endpoints").index(index).child("addresses");
            list(found, &path, endpoint.list_at(&["addresses"]));
        }
    }
}

pub(super) fn network_policy(found: &mut Warnings, policy: &Value) {
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in policy.list_at(&["spec", direction]).iter().enumerate() {
            for (j, peer) in rule.list_at(&[peers]).iter().enumerate() {
                let Some(block) = peer.get("ipBlock").filter(|block| block.is_object()) else {
                    continue;
                };
                let path = Path::new("spec").child(direction).index(i).child(peers).index(j);
                let path = path.child("ipBlock");
                range(found, &path.child("cidr"), block.str_at(&["cidr"]).unwrap_or_default());
                for (k, except) in block.list_at(&["except"]).iter().enumerate() {
                    let text = except.as_str().unwrap_or_default();
                    range(found, &path.child("except").index(k), text);
                }
            }
        }
    }
}
