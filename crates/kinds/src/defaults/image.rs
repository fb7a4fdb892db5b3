//! The tag an image reference ends up with, which decides how often it is pulled.

use std::sync::LazyLock;

use regex::Regex;

static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let label = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let host = format!(r"(?:{label}(?:\.{label})*|\[(?:[a-fA-F0-9:]+)\])");
    let part = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    let digest = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    let pattern = format!(
        r"^(?:{host}(?::[0-9]+)?/)?{part}(?:/{part})*(?::(?P<tag>[0-9A-Za-z_][0-9A-Za-z_.-]{{0,127}}))?(?P<digest>@{digest})?$"
    );
    Regex::new(&pattern).expect("the pattern is constant")
});

/// Returns how an image is pulled when the manifest does not say.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) { "Always" } else { "IfNotPresent" }
}

/// A reference without tag and digest means `latest`; one that cannot be read means nothing.
fn is_latest(image: &str) -> bool {
    const LONGEST_NAME: usize = 255;
    let is_bare_hash = image.len() == 64 && image.bytes().all(|b| b.is_ascii_hexdigit());
    if is_bare_hash || has_uppercase_name(image) || repository(image).len() > LONGEST_NAME {
        return false;
    }
    REFERENCE.captures(image).is_some_and(|found| match found.name("tag") {
        Some(tag) => tag.as_str() == "latest",
        None => found.name("digest").is_none(),
    })
}

/// Whether the reference has no host, yet a repository in capitals, which no registry takes.
fn has_uppercase_name(image: &str) -> bool {
    repository(image).bytes().any(|b| b.is_ascii_uppercase())
}

/// The reference without host, tag and digest.
fn repository(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default();
    let (host, rest) = name.split_once('/').unwrap_or(("", name));
    let is_host = host.contains(['.', ':']) || host == "localhost" || host.to_lowercase() != host;
    let repository = if is_host { rest } else { name };
    repository.rsplit_once(':').map_or(repository, |(before, _)| before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_latest_is_pulled_always() {
        let digest = format!("@sha256:{}", "0".repeat(64));
        let cases = [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.2", "IfNotPresent"),
            (&"x".repeat(300), "IfNotPresent"),
            ("example.com:5000/a/b", "Always"),
            ("example.com:5000/a/b:v1", "IfNotPresent"),
            (&format!("nginx{digest}"), "IfNotPresent"),
            (&format!("nginx:latest{digest}"), "Always"),
            ("", "IfNotPresent"),
            ("Nginx", "IfNotPresent"),
            ("not an image", "IfNotPresent"),
            (&"a".repeat(64), "IfNotPresent"),
        ];
        for (image, policy) in cases {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
