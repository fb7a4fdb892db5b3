//! Why a name was not found, in the words people know from Kubernetes: they say which server was asked.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where the system keeps whom to ask.
const CONFIGURATION: &str = "/etc/resolv.conf";
const PORT: u16 = 53;

/// Says why a name has no address.
pub(super) fn in_words(host: &str, error: &io::Error) -> String {
    // The system tells the two apart by these words alone.
    match error.to_string().contains("Temporary failure") {
        true => lookup(host, "server misbehaving"),
        false => unknown(host),
    }
}

/// Says that there is no such name.
pub(super) fn unknown(host: &str) -> String {
    lookup(host, "no such host")
}

fn lookup(host: &str, why: &str) -> String {
    let configuration = fs::read_to_string(CONFIGURATION).unwrap_or_default();
    format!("dial tcp: lookup {host} on {}: {why}", asked(&configuration))
}

/// The server that is asked first; that of this machine if none is named.
fn asked(configuration: &str) -> SocketAddr {
    let named = configuration.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let keyword = words.next()?;
        words.next().filter(|_| keyword == "nameserver")?.parse().ok()
    });
    SocketAddr::new(named.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: AGG-1
    #[test]
    fn the_server_that_was_asked_is_named() {
        for (configuration, server) in [
            ("# comment\nsearch a.b\nnameserver 10.0.0.53\nnameserver 10.0.0.54\n", "10.0.0.53:53"),
            ("nameserver fd00::1\n", "[fd00::1]:53"),
            ("nameserver nonsense\n;nameserver 1.1.1.1\n", "127.0.0.1:53"),
            ("", "127.0.0.1:53"),
        ] {
            assert_eq!(asked(configuration).to_string(), server, "{configuration}");
        }
        let text = unknown("nope.invalid");
        assert!(text.starts_with("dial tcp: lookup nope.invalid on "), "{text}");
        assert!(text.ends_with(":53: no such host"), "{text}");
        let late = "failed to lookup address information: Temporary failure in name resolution";
        let text = in_words("nope.invalid", &io::Error::other(late));
        assert!(text.ends_with(":53: server misbehaving"), "{text}");
    }
}
