//! Names of fields in words, as kubectl splits them: `apiVersion` is `API Version`.

/// Words that are written in capitals.
const CAPITALS: &[&str] = &["API", "URL", "UID", "GUID"];

/// A heading for a field. Names with anything but letters and dashes stay as they are.
pub(super) fn heading(field: &str) -> String {
    if field.chars().any(|character| !character.is_alphabetic() && character != '-') {
        return field.to_owned();
    }
    join(split(field)).iter().map(|word| show(word)).collect::<Vec<_>>().join(" ")
}

/// Runs of small letters, of capitals and of dashes; the last capital before small letters belongs to them.
fn split(field: &str) -> Vec<String> {
    let class = |character: char| (character.is_lowercase(), character.is_uppercase());
    let mut words: Vec<String> = Vec::new();
    for character in field.chars() {
        match words.last_mut() {
            Some(word) if word.chars().last().map(class) == Some(class(character)) => {
                word.push(character);
            }
            _ => words.push(character.to_string()),
        }
    }
    for place in 1..words.len() {
        let begins_small = words[place].starts_with(char::is_lowercase);
        if begins_small
            && words[place - 1].starts_with(char::is_uppercase)
            && let Some(capital) = words[place - 1].pop()
        {
            words[place].insert(0, capital);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Compat: several capitals and the word behind them stay together.
fn join(words: Vec<String>) -> Vec<String> {
    let mut joined = Vec::new();
    let mut rest = words.into_iter().peekable();
    while let Some(word) = rest.next() {
        let is_upper = word.len() > 1 && word.chars().all(|letter| !letter.is_lowercase());
        match rest.next_if(|next| is_upper && next.starts_with(char::is_uppercase)) {
            Some(next) => joined.push(word + &next),
            None => joined.push(word),
        }
    }
    joined
}

fn show(word: &str) -> String {
    let upper = word.to_uppercase();
    if CAPITALS.contains(&upper.as_str()) {
        return upper;
    }
    if word.to_lowercase() != word {
        return word.to_owned();
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
            ("cpu", "Cpu"),
            ("apiEndpoint", "API Endpoint"),
            ("clusterNames", "Cluster Names"),
            ("schedulerObservedGeneration", "Scheduler Observed Generation"),
            ("creationTimestamp", "Creation Timestamp"),
            ("jsonPath", "Json Path"),
            ("proxyURL", "Proxy URL"),
            ("insecureSkipTLSVerification", "Insecure Skip TLSVerification"),
            ("ephemeral-storage", "Ephemeral - Storage"),
            ("openAPIV3Schema", "openAPIV3Schema"),
        ] {
            assert_eq!(super::heading(field), expected);
        }
    }
}
