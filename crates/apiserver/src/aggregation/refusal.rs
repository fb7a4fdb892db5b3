//! Why a server is not trusted, in the words people know from Kubernetes and search for.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::time::format_time;
use rustls::{CertificateError, Error, OtherError};
use rustls_pki_types::UnixTime;

/// Says why a handshake failed.
pub(super) fn in_words(error: &io::Error) -> String {
    let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let certificate = match own {
        Some(Error::InvalidCertificate(certificate)) => certificate,
        // What answers speaks something else.
        Some(Error::InvalidMessage(_)) => {
            return "tls: first record does not look like a TLS handshake".to_owned();
        }
        Some(error) => return format!("tls: {error}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
        None if error.kind() == io::ErrorKind::ConnectionReset => {
            return "read: connection reset by peer".to_owned();
        }
        None => return error.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {}", untrusted(certificate))
}

fn untrusted(certificate: &CertificateError) -> String {
    const LATE: &str = "certificate has expired or is not yet valid";
    match certificate {
        CertificateError::UnknownIssuer => "certificate signed by unknown authority".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            let names: Vec<&str> = presented.iter().filter_map(|name| dns_name(name)).collect();
            match names.is_empty() {
                true => format!(
                    "certificate is not valid for any names, but wanted to match {expected}"
                ),
                false => format!("certificate is valid for {}, not {expected}", names.join(", ")),
            }
        }
        CertificateError::ExpiredContext { time, not_after } => {
            format!("{LATE}: current time {} is after {}", moment(*time), moment(*not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("{LATE}: current time {} is before {}", moment(*time), moment(*not_before))
        }
        CertificateError::Expired | CertificateError::NotValidYet => LATE.to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::Other(OtherError(own)) => own.to_string(),
        other => other.to_string(),
    }
}

/// The name inside of `DnsName("a.example.com")`. Addresses are no names for a server that is asked by name.
fn dns_name(presented: &str) -> Option<&str> {
    let inner = presented.strip_prefix("DnsName(")?.strip_suffix(')')?;
    Some(inner.trim_matches('"'))
}

fn moment(at: UnixTime) -> String {
    let since = Duration::from_secs(at.as_secs());
    Timestamp::UNIX_EPOCH.checked_add(since).map(format_time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::ServerName;

    fn words(error: Error) -> String {
        in_words(&io::Error::new(io::ErrorKind::InvalidData, error))
    }

    // Shows: AGG-1
    #[test]
    fn certificates_are_refused_in_the_words_of_kubernetes() {
        let of = |certificate| words(Error::InvalidCertificate(certificate));
        assert_eq!(
            of(CertificateError::UnknownIssuer),
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        );
        let named = |presented: &[&str]| {
            of(CertificateError::NotValidForNameContext {
                expected: ServerName::try_from("a.b.svc").unwrap(),
                presented: presented.iter().map(|name| (*name).to_owned()).collect(),
            })
        };
        assert_eq!(
            named(&["DnsName(\"x.example.com\")", "DnsName(\"y.example.com\")"]),
            "tls: failed to verify certificate: x509: certificate is valid for x.example.com, y.example.com, not a.b.svc"
        );
        for nothing in [&[][..], &["IpAddress(10.0.0.1)"]] {
            let words = named(nothing);
            assert!(words.ends_with("not valid for any names, but wanted to match a.b.svc"));
        }
        let mixed = named(&["IpAddress(10.0.0.1)", "DnsName(\"x.example.com\")"]);
        assert!(mixed.ends_with("certificate is valid for x.example.com, not a.b.svc"), "{mixed}");
        assert_eq!(
            of(CertificateError::InvalidPurpose),
            "tls: failed to verify certificate: x509: certificate specifies an incompatible key usage"
        );
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        assert_eq!(
            of(CertificateError::ExpiredContext { time: at(86_400), not_after: at(0) }),
            "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: \
             current time 1970-01-02T00:00:00Z is after 1970-01-01T00:00:00Z"
        );
        assert_eq!(
            of(CertificateError::NotValidYetContext { time: at(0), not_before: at(86_400) }),
            "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: \
             current time 1970-01-01T00:00:00Z is before 1970-01-02T00:00:00Z"
        );
        assert_eq!(
            words(Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)),
            "tls: first record does not look like a TLS handshake"
        );
    }
}
