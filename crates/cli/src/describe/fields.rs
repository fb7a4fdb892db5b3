//! Names of fields in words, as kubectl splits them: `apiVersion` is `API Version`.

/// Words that are written in capitals.
const CAPITALS: &[&str] = &[
    "ACL", "API", "ASCII", "CPU", "CSS", "DNS", "EOF", "GUID", "HTML", "HTTP", "HTTPS", "ID", "IP",
    "JSON", "LHS", "QPS", "RAM", "RHS", "RPC", "SLA", "SMTP", "SQL", "SSH", "TCP", "TLS", "TTL",
    "UDP", "UI", "UID", "UUID", "URI", "URL", "UTF8", "VM", "XML", "XMPP", "XSRF", "XSS",
];

/// A heading for a field.
pub(super) fn heading(field: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut previous_is_lower = false;
    for character in field.chars() {
        let begins = character.is_uppercase() && previous_is_lower;
        match words.last_mut() {
            Some(word) if !begins => word.push(character),
            _ => words.push(character.to_string()),
        }
        previous_is_lower = character.is_lowercase() || character.is_ascii_digit();
    }
    let shown: Vec<String> = words.iter().map(|word| show(word)).collect();
    shown.join(" ")
}

fn show(word: &str) -> String {
    let upper = word.to_uppercase();
    // Compat: `id` alone stays a word, as kubectl shows it.
    if CAPITALS.contains(&upper.as_str()) && upper != "ID" {
        return upper;
    }
    let mut characters = word.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", characters.as_str())
}

#[cfg(test)]
mod tests {
    #[test]
    fn fields_read_as_words() {
        for (field, expected) in [
            ("apiVersion", "API Version"),
            ("uid", "UID"),
            ("id", "Id"),
            ("apiEndpoint", "API Endpoint"),
            ("clusterNames", "Cluster Names"),
            ("schedulerObservedGeneration", "Scheduler Observed Generation"),
            ("creationTimestamp", "Creation Timestamp"),
        ] {
            assert_eq!(super::heading(field), expected);
        }
    }
}
