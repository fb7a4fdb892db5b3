//! The rules names, keys and values of Kubernetes follow, each a function returning what is wrong
//! in Kubernetes' words; an empty list means the text is fine. Rules for whole metadata are in
//! [`metadata`].

pub mod metadata;

pub use metadata::{
    validate_annotations, validate_finalizers, validate_immutable, validate_labels,
    validate_object_meta, validate_object_meta_update, validate_owner_references,
};

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1123_SUBDOMAIN_UNDERSCORE: &str =
    r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_KEY_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

pub const LABEL_MAX: usize = 63;
pub const SUBDOMAIN_MAX: usize = 253;

/// Checks a name; `true` means it is only the prefix of a name still to be generated.
pub type NameRule = fn(&str, bool) -> Vec<String>;

/// Words a failed pattern: the rule, examples, the pattern itself.
pub fn pattern_message(words: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{words} (regex used for validation is '{pattern}')");
    }
    let shown: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{pattern}')", shown.join(" or "))
}

pub fn range_message(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn max_characters(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

// Compat: the rules shared with labels count "bytes", the older ones "characters"; both count bytes.
fn max_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_lower_alnum(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// Whether `text` is non-empty, begins with `first`, ends with `last`, and has only `middle` inside.
fn is_framed(
    text: &str,
    first: impl Fn(u8) -> bool,
    middle: impl Fn(u8) -> bool,
    last: impl Fn(u8) -> bool,
) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => first(*only),
        [head, inner @ .., tail] => first(*head) && inner.iter().all(|c| middle(*c)) && last(*tail),
    }
}

fn is_dns1123_label(text: &str) -> bool {
    is_framed(text, is_lower_alnum, |c| is_lower_alnum(c) || c == b'-', is_lower_alnum)
}

/// Labels joined by dots, told in one go: keys of labels and annotations begin so.
fn is_dns1123_subdomain(text: &str) -> bool {
    let mut before = b'.';
    for c in text.bytes() {
        let fits = match c {
            b'.' => is_lower_alnum(before),
            b'-' => before != b'.',
            _ => is_lower_alnum(c),
        };
        if !fits {
            return false;
        }
        before = c;
    }
    is_lower_alnum(before)
}

fn is_label_text(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let outer = |c: u8| c.is_ascii_alphanumeric();
    is_framed(text, outer, inner, outer)
}

fn is_label_value(value: &str) -> bool {
    value.is_empty() || (value.len() <= LABEL_MAX && is_label_text(value))
}

pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(max_characters(LABEL_MAX));
    }
    if !is_dns1123_label(value) {
        errors.push(if is_dns1123_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            pattern_message(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                DNS1123_LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    errors
}

pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain_with(value, max_characters)
}

fn subdomain_with(value: &str, too_long: fn(usize) -> String) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        errors.push(too_long(SUBDOMAIN_MAX));
    }
    if !is_dns1123_subdomain(value) {
        errors.push(pattern_message(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            DNS1123_SUBDOMAIN,
            &["example.com"],
        ));
    }
    errors
}

pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let is_label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        let inner = |c: u8| is_lower_alnum(c) || matches!(c, b'-' | b'_');
        is_framed(label, is_lower_alnum, inner, is_lower_alnum)
    };
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        errors.push(max_characters(SUBDOMAIN_MAX));
    }
    if !value.split('.').all(is_label) {
        errors.push(pattern_message(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            DNS1123_SUBDOMAIN_UNDERSCORE,
            &["example.com"],
        ));
    }
    errors
}

pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        errors.push(max_characters(SUBDOMAIN_MAX));
    }
    if !value.strip_prefix("*.").is_some_and(is_dns1123_subdomain) {
        errors.push(pattern_message(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!(r"\*\.{DNS1123_SUBDOMAIN}"),
            &["*.example.com"],
        ));
    }
    errors
}

pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(max_characters(LABEL_MAX));
    }
    let inner = |c: u8| is_lower_alnum(c) || c == b'-';
    if !is_framed(value, |c| c.is_ascii_lowercase(), inner, is_lower_alnum) {
        errors.push(pattern_message(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            DNS1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    errors
}

fn is_qualified_name(value: &str) -> bool {
    let is_prefix = |text: &str| text.len() <= SUBDOMAIN_MAX && is_dns1123_subdomain(text);
    let is_name = |text: &str| text.len() <= LABEL_MAX && is_label_text(text);
    match value.bytes().position(|c| c == b'/') {
        None => is_name(value),
        Some(end) => is_prefix(&value[..end]) && is_name(&value[end + 1..]),
    }
}

/// Checks a label key, annotation key, finalizer or resource name: `[prefix/]name`.
pub fn qualified_name(value: &str) -> Vec<String> {
    const EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();
    if is_qualified_name(value) {
        return errors;
    }
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                let wrong = subdomain_with(prefix, max_bytes);
                errors.extend(wrong.into_iter().map(|message| format!("prefix part {message}")));
            }
            *name
        }
        _ => {
            let rule = pattern_message(LABEL_KEY_WORDS, LABEL_KEY, EXAMPLES);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", max_bytes(LABEL_MAX)));
    }
    if !is_label_text(name) {
        errors.push(format!("name part {}", pattern_message(LABEL_KEY_WORDS, LABEL_KEY, EXAMPLES)));
    }
    errors
}

pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(max_bytes(LABEL_MAX));
    }
    if !value.is_empty() && !is_label_text(value) {
        errors.push(pattern_message(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// Checks a name that only has to fit one segment of a URL path.
pub fn path_segment(value: &str) -> Vec<String> {
    if matches!(value, "." | "..") {
        return vec![format!("may not be '{value}'")];
    }
    path_segment_prefix(value)
}

pub fn path_segment_prefix(value: &str) -> Vec<String> {
    ['/', '%']
        .into_iter()
        .filter(|c| value.contains(*c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

pub fn c_identifier(value: &str) -> Vec<String> {
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    if is_framed(value, |c| c.is_ascii_alphabetic() || c == b'_', word, word) {
        return Vec::new();
    }
    vec![pattern_message(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) { Vec::new() } else { vec![range_message(low, high)] }
}

pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

pub fn user_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

pub fn group_id(id: i64) -> Vec<String> {
    user_id(id)
}

pub fn port_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 15 {
        errors.push(max_characters(15));
    }
    if value.is_empty() || !value.bytes().all(|c| is_lower_alnum(c) || c == b'-') {
        errors.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !value.bytes().any(|c| c.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

pub fn percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) {
        return Vec::new();
    }
    vec![pattern_message(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

pub fn http_header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
        return Vec::new();
    }
    vec![pattern_message(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// Checks an environment variable name by the rule in force since 1.30: printable ASCII without `=`.
pub fn env_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    if value.chars().any(|c| !matches!(c, ' '..='~') || c == '=') {
        errors.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    errors
}

/// Checks an environment variable name by the older, stricter rule.
pub fn strict_env_name(value: &str) -> Vec<String> {
    let first = |c: u8| c.is_ascii_alphabetic() || matches!(c, b'-' | b'.' | b'_');
    let word = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_');
    let mut errors = Vec::new();
    if !is_framed(value, first, word, word) {
        errors.push(pattern_message(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit",
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
        ));
    }
    errors.extend(directory_change(value));
    errors
}

/// Checks a key of a ConfigMap's or Secret's data.
pub fn config_map_key(value: &str) -> Vec<String> {
    let word = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_');
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        errors.push(max_characters(SUBDOMAIN_MAX));
    }
    if value.is_empty() || !value.bytes().all(word) {
        errors.push(pattern_message(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    errors.extend(directory_change(value));
    errors
}

fn directory_change(value: &str) -> Option<String> {
    match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// The rule for most kinds: a DNS-1123 subdomain.
pub fn subdomain_name(name: &str, prefix: bool) -> Vec<String> {
    dns1123_subdomain(&mask_dash(name, prefix))
}

/// The rule for namespaces and the like: a DNS-1123 label.
pub fn label_name(name: &str, prefix: bool) -> Vec<String> {
    dns1123_label(&mask_dash(name, prefix))
}

pub fn dns1035_name(name: &str, prefix: bool) -> Vec<String> {
    dns1035_label(&mask_dash(name, prefix))
}

/// The rule for RBAC kinds: any path segment.
pub fn path_segment_name(name: &str, prefix: bool) -> Vec<String> {
    if prefix { path_segment_prefix(name) } else { path_segment(name) }
}

/// A prefix may end in a dash, since more characters follow it.
fn mask_dash(name: &str, prefix: bool) -> std::borrow::Cow<'_, str> {
    match name.strip_suffix('-') {
        // Compat: the two last characters give way to one, so `a--` still passes as `aa`.
        Some(stem) if prefix && !stem.is_empty() => {
            let mut masked = stem.to_owned();
            masked.pop();
            masked.push('a');
            masked.into()
        }
        _ => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_accept_and_refuse_as_kubernetes_does() {
        let long = "a".repeat(64);
        type Rule = fn(&str) -> Vec<String>;
        let cases: &[(Rule, &[&str], &[&str])] = &[
            (
                dns1123_label,
                &["a", "0", "a-b", "123-abc"],
                &["", "-a", "a-", "A", "a_b", "a.b", &long],
            ),
            (dns1123_subdomain, &["a", "a.b-c.0"], &["", ".a", "a..b", "a.-b", "A"]),
            (dns1123_subdomain_with_underscore, &["_a.b", "a_b"], &["", "__a", "a_"]),
            (wildcard_dns1123_subdomain, &["*.a.b"], &["*.", "a.b", "*a"]),
            (dns1035_label, &["a", "a-1"], &["1", "a-", "", "A"]),
            (
                qualified_name,
                &["a", "A.b_c", "x.io/a"],
                &["", "/a", "x.io/", "a/b/c", "X/a", "-a", &long],
            ),
            (label_value, &["", "a", "A_b.c"], &["-a", "a b", &long]),
            (path_segment, &["a:b", "system:x"], &[".", "..", "a/b", "a%"]),
            (c_identifier, &["_a1"], &["", "1a", "a-b"]),
            (
                port_name,
                &["http", "a-1"],
                &["", "80", "a--b", "-a", "a-", "HTTP", "a123456789012345"],
            ),
            (percent, &["0%", "93%"], &["", "%", "1", "a%"]),
            (http_header_name, &["X-A"], &["", "a b"]),
            (env_name, &["a b", "1"], &["", "a=b", "\t", "é"]),
            (strict_env_name, &["A_B"], &["", "1A", "..a"]),
            (
                config_map_key,
                &["a.b", "..data".trim_start_matches('.')],
                &["", "..", ".", "..a", "a b"],
            ),
        ];
        for (rule, good, bad) in cases {
            for text in *good {
                assert_eq!(rule(text), Vec::<String>::new(), "{text}");
            }
            for text in *bad {
                assert!(!rule(text).is_empty(), "{text:?} passed");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn subdomains_are_labels_joined_by_dots(text in "[a-c0A.é_-]{0,8}") {
            let labels = text.split('.').all(is_dns1123_label);
            proptest::prop_assert_eq!(is_dns1123_subdomain(&text), labels);
        }

        #[test]
        fn what_is_told_at_a_glance_is_what_the_rules_say(text in "[a-cA0./é_-]{0,9}") {
            proptest::prop_assert_eq!(is_qualified_name(&text), qualified_name(&text).is_empty());
            proptest::prop_assert_eq!(is_label_value(&text), label_value(&text).is_empty());
            if is_qualified_name(&text) {
                proptest::prop_assert!(qualified_name(&text.to_lowercase()).is_empty());
            }
        }
    }

    #[test]
    fn messages_carry_rule_examples_and_pattern() {
        assert_eq!(
            dns1123_label("A"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(qualified_name(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
    }

    #[test]
    fn a_prefix_may_end_in_a_dash() {
        assert!(subdomain_name("web-", true).is_empty());
        assert!(!subdomain_name("web-", false).is_empty());
        assert!(!subdomain_name("-", true).is_empty());
        assert!(path_segment_name("..", true).is_empty());
    }
}
