//! Where a server is: on the network, or a socket of this machine.

use std::fmt;
use std::path::PathBuf;

use http::Uri;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Net {
        host: String,
        port: u16,
        tls: bool,
    },
    /// A path that begins with a zero byte is a name without a file.
    Socket(PathBuf),
}

impl Endpoint {
    /// Reads `https://host:2379`, `http://host:2379` or `host:2379`.
    pub(crate) fn parse(text: &str, secure: bool) -> Result<Self, String> {
        let refuse = || format!("{text:?} is not an address such as https://10.0.0.1:2379");
        let text_with_scheme = match (text.contains("://"), secure) {
            (true, _) => text.to_owned(),
            (false, true) => format!("https://{text}"),
            (false, false) => format!("http://{text}"),
        };
        let uri: Uri = text_with_scheme.parse().map_err(|_| refuse())?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(refuse()),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(refuse)?;
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Self::Net { host, port: uri.port_u16().unwrap_or(2379), tls })
    }

    /// Reads `unix:///path` or, for a name without a file, `unix:///@name`.
    pub(crate) fn parse_socket(text: &str) -> Result<Self, String> {
        let refuse = || format!("{text:?} is not a socket such as unix:///run/kms.sock");
        let path = text.strip_prefix("unix://").ok_or_else(refuse)?;
        match path.strip_prefix("/@") {
            Some("") => Err(refuse()),
            Some(name) => Ok(Self::Socket(format!("\0{name}").into())),
            None if path.len() > 1 && path.starts_with('/') => Ok(Self::Socket(path.into())),
            None => Err(refuse()),
        }
    }

    /// What requests name as their server.
    pub(crate) fn origin(&self) -> String {
        match self {
            Self::Net { .. } => self.to_string(),
            // A path is no host.
            Self::Socket(_) => "http://localhost".to_owned(),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net { host, port, tls } => {
                let scheme = if *tls { "https" } else { "http" };
                match host.contains(':') {
                    true => write!(f, "{scheme}://[{host}]:{port}"),
                    false => write!(f, "{scheme}://{host}:{port}"),
                }
            }
            Self::Socket(path) => match path.to_string_lossy().strip_prefix('\0') {
                Some(name) => write!(f, "unix:///@{name}"),
                None => write!(f, "unix://{}", path.display()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_people_write_them() {
        let cases = [
            ("https://10.0.0.1:2379", false, Some("https://10.0.0.1:2379")),
            ("http://etcd", true, Some("http://etcd:2379")),
            ("127.0.0.1:4001", false, Some("http://127.0.0.1:4001")),
            ("127.0.0.1:4001", true, Some("https://127.0.0.1:4001")),
            ("https://[::1]:2379", false, Some("https://[::1]:2379")),
            ("unix:///var/run/etcd", false, None),
            ("", false, None),
        ];
        for (text, secure, expected) in cases {
            let parsed = Endpoint::parse(text, secure).ok().map(|endpoint| endpoint.origin());
            assert_eq!(parsed.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn sockets_are_files_or_names() {
        let cases = [
            ("unix:///run/kms.sock", Some("/run/kms.sock")),
            ("unix:///@kms", Some("\0kms")),
            ("unix://run/kms.sock", None),
            ("unix:///", None),
            ("unix:///@", None),
            ("/run/kms.sock", None),
            ("http://localhost", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let parsed = Endpoint::parse_socket(text).ok();
            assert_eq!(parsed, expected.map(|path| Endpoint::Socket(path.into())), "{text}");
            assert!(parsed.is_none_or(|socket| socket.to_string() == text));
        }
    }
}
