//! Taking an image reference apart and putting it together again.

use std::fmt;

use karmada_api::policy::{ImageComponent, OverriderOperator};

/// `[registry/]repository[:tag|@digest]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Image {
    pub registry: String,
    pub repository: String,
    pub tag: String,
    pub digest: String,
}

/// Text that is no image reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to parse image value({image}), error: {problem}")]
pub struct BadImage {
    image: String,
    problem: &'static str,
}

impl BadImage {
    fn new(image: &str) -> Self {
        let problem = if image.is_empty() {
            "repository name must have at least one component"
        } else if Image::read(&image.to_ascii_lowercase()).is_some() {
            "repository name must be lowercase"
        } else {
            "invalid reference format"
        };
        Self { image: image.to_owned(), problem }
    }
}

impl Image {
    pub fn parse(text: &str) -> Result<Self, BadImage> {
        Self::read(text).ok_or_else(|| BadImage::new(text))
    }

    fn read(text: &str) -> Option<Self> {
        let (name, digest) =
            text.split_once('@').map_or((text, ""), |(name, digest)| (name, digest));
        if text.contains('@') && !is_digest(digest) {
            return None;
        }
        let path_start = name.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match name[path_start..].find(':') {
            Some(colon) => {
                let (name, tag) = name.split_at(path_start + colon);
                (name, Some(&tag[1..]))
            }
            None => (name, None),
        };
        let (registry, repository) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
                (first, rest)
            }
            _ => ("", name),
        };
        let is_valid = repository.split('/').all(is_path_component)
            && (registry.is_empty() || is_registry(registry))
            && tag.is_none_or(is_tag);
        if !is_valid {
            return None;
        }
        // Compat: a tag wins over a digest, which is lost.
        let digest = if tag.is_none() { digest } else { "" };
        Some(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag: tag.unwrap_or_default().to_owned(),
            digest: digest.to_owned(),
        })
    }

    /// Changes one part: `add` appends to it, `replace` sets it, `remove` clears it.
    pub fn edit(&mut self, component: &ImageComponent, operator: &OverriderOperator, value: &str) {
        let edited = |present: &str| match operator {
            OverriderOperator::Add => format!("{present}{value}"),
            OverriderOperator::Replace => value.to_owned(),
            OverriderOperator::Remove => String::new(),
            _ => present.to_owned(),
        };
        match component {
            ImageComponent::Registry => self.registry = edited(&self.registry),
            ImageComponent::Repository => self.repository = edited(&self.repository),
            ImageComponent::Tag => {
                let present = if self.tag.is_empty() { &self.digest } else { &self.tag };
                self.set_tag_or_digest(&edited(present), operator);
            }
            _ => {}
        }
    }

    /// Compat: text that is neither a tag nor a digest is ignored.
    fn set_tag_or_digest(&mut self, text: &str, operator: &OverriderOperator) {
        if *operator == OverriderOperator::Remove {
            if self.tag.is_empty() {
                self.digest.clear();
            } else {
                self.tag.clear();
            }
        } else if is_tag(text) {
            self.tag = text.to_owned();
        } else if is_digest(text) {
            self.digest = text.to_owned();
            self.tag.clear();
        }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.registry.is_empty() {
            write!(f, "{}/", self.registry)?;
        }
        f.write_str(&self.repository)?;
        if !self.tag.is_empty() {
            write!(f, ":{}", self.tag)?;
        } else if !self.digest.is_empty() {
            write!(f, "@{}", self.digest)?;
        }
        Ok(())
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_tag(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with(is_word)
        && text.chars().all(|c| is_word(c) || c == '.' || c == '-')
}

/// `algorithm:hex`, with at least 32 hex digits.
fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let parts_are_words = algorithm.split(['-', '_', '+', '.']).all(|part| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.chars().all(|c| c.is_ascii_alphanumeric())
    });
    parts_are_words && hex.len() >= 32 && hex.chars().all(|c| c.is_ascii_hexdigit())
}

/// Lower-case words, separated by one dot, one or two underscores, or dashes.
fn is_path_component(text: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators = text.split(is_alphanumeric).filter(|run| !run.is_empty());
    let are_fine = separators
        .into_iter()
        .all(|run| matches!(run, "." | "_" | "__") || run.chars().all(|c| c == '-'));
    text.starts_with(is_alphanumeric) && text.ends_with(is_alphanumeric) && are_fine
}

fn is_registry(text: &str) -> bool {
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    host.split('.').all(is_label)
        && port.is_none_or(|port| !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn edit(image: &str, component: &str, operator: &str, value: &str) -> String {
        let mut image = Image::parse(image).unwrap();
        image.edit(&component.into(), &operator.into(), value);
        image.to_string()
    }

    #[test]
    fn parts_of_images_are_added_replaced_and_removed() {
        let fictional = "fictional.registry.example/imagename:v1.0.0";
        let with_digest = format!("nginx@{DIGEST}");
        let cases = [
            ("perl:5.34.0", "Registry", "add", "registry.k8s.io", "registry.k8s.io/perl:5.34.0"),
            // Example: I27
            (
                fictional,
                "Registry",
                "add",
                ".test",
                "fictional.registry.example.test/imagename:v1.0.0",
            ),
            (
                fictional,
                "Registry",
                "replace",
                "fictional.registry.us",
                "fictional.registry.us/imagename:v1.0.0",
            ),
            (fictional, "Registry", "remove", "", "imagename:v1.0.0"),
            ("subpath/imagename:v1.0.0", "Repository", "add", "/x", "subpath/imagename/x:v1.0.0"),
            ("subpath/imagename/x:v1.0.0", "Tag", "replace", "v2", "subpath/imagename/x:v2"),
            ("nginx", "Tag", "add", "v1", "nginx:v1"),
            ("nginx:v1", "Tag", "remove", "", "nginx"),
            // Example: I29
            (&with_digest, "Tag", "add", "-rc1", &with_digest),
            (&with_digest, "Tag", "replace", "v1", "nginx:v1"),
            (&with_digest, "Tag", "remove", "", "nginx"),
            ("localhost:5000/a/b:1", "Registry", "remove", "", "a/b:1"),
        ];
        for (image, component, operator, value, expected) in cases {
            assert_eq!(edit(image, component, operator, value), expected, "{image} {operator}");
        }
    }

    #[test]
    fn text_that_is_no_image_is_refused_in_the_words_of_the_original() {
        for (image, problem) in [
            ("", "repository name must have at least one component"),
            ("UPPER:v1", "repository name must be lowercase"),
            ("A//b", "invalid reference format"),
        ] {
            let expected = format!("failed to parse image value({image}), error: {problem}");
            assert_eq!(Image::parse(image).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn text_that_is_no_image_is_refused() {
        for image in ["", "UPPER", "a//b", "a:", "a@sha256:12", "-a", "a:b c", "host:port/a"] {
            assert!(Image::parse(image).is_err(), "{image:?}");
        }
    }
}
