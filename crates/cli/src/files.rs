//! Objects from files: paths, directories, addresses, stdin; YAML with several documents, JSON one after the other, lists.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, decode};

use crate::download;
use crate::error::{Error, Result};

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct FileFlags {
    /// Files, directories or addresses (http, https) with objects, or - for stdin
    #[arg(long, short, value_name = "FILE", value_delimiter = ',')]
    pub(crate) filename: Vec<String>,
    /// Look into directories below the given ones too
    #[arg(long, short = 'R')]
    pub(crate) recursive: bool,
    /// Not rendered here: `kubectl kustomize DIR | … -f -` does the same
    #[arg(long, short, value_name = "DIR")]
    pub(crate) kustomize: Option<String>,
}

/// An object and the file it is from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    pub(crate) source: String,
    pub(crate) object: Value,
}

impl FileFlags {
    pub(crate) fn is_given(&self) -> bool {
        !self.filename.is_empty() || self.kustomize.is_some()
    }

    /// Reads all objects, those of lists one by one.
    pub(crate) async fn read(&self) -> Result<Vec<Document>> {
        if let Some(folder) = &self.kustomize {
            return Err(Error::Message(format!(
                "kustomizations are not rendered here; let kubectl or kustomize do that and pass the result on:\n  \
                 kubectl kustomize {folder} | {} -f -",
                command_line(std::env::args(), folder)
            )));
        }
        let mut documents = Vec::new();
        for name in &self.filename {
            if name == "-" {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text)?;
                documents.extend(parse(&text, "STDIN")?);
                continue;
            }
            if download::is_address(name) {
                documents.extend(parse(&download::text(name).await?, name)?);
                continue;
            }
            for path in expand(Path::new(name), self.recursive)? {
                let source = path.display().to_string();
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| Error::Message(format!("error reading {source}: {error}")))?;
                documents.extend(parse(&text, &source)?);
            }
        }
        if documents.is_empty() {
            return Err(Error::from("no objects passed"));
        }
        Ok(documents)
    }
}

/// The command as it was typed, without the flag for the folder.
fn command_line(words: impl Iterator<Item = String>, folder: &str) -> String {
    let is_about_folder = |word: &String| {
        let plain = word.trim_start_matches("--kustomize").trim_start_matches("-k");
        word == folder
            || (plain.len() < word.len() && plain.trim_start_matches('=') == folder)
            || ["-k", "--kustomize"].contains(&word.as_str())
    };
    let mut words = words;
    let program = words.next().unwrap_or_default();
    let program = program
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .replace("kubectl-karmada", "kubectl karmada");
    let rest = words.filter(|word| !is_about_folder(word));
    std::iter::once(program).chain(rest).collect::<Vec<_>>().join(" ")
}

/// The files a path stands for.
fn expand(path: &Path, recursive: bool) -> Result<Vec<PathBuf>> {
    if !path.exists() {
        return Err(Error::Message(format!("the path \"{}\" does not exist", path.display())));
    }
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(path)?.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        if entry.is_dir() {
            if recursive {
                files.extend(expand(&entry, true)?);
            }
            continue;
        }
        let extension = entry.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("json" | "yaml" | "yml")) {
            files.push(entry);
        }
    }
    Ok(files)
}

/// The objects in a text.
pub(crate) fn parse(text: &str, source: &str) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    let is_json = text.trim_start().starts_with(['{', '[']);
    let trees: Vec<Value> = if is_json {
        let all = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        all.collect::<std::result::Result<_, _>>()
            .map_err(|error| Error::Message(format!("error parsing {source}: {error}")))?
    } else {
        let texts = split(text);
        let tree = |text: &String| {
            decode::yaml_untyped(text.as_bytes())
                .map(|decoded| decoded.value)
                .map_err(|error| Error::Message(format!("error parsing {source}: {error}")))
        };
        texts.iter().map(tree).collect::<Result<_>>()?
    };
    for tree in trees {
        flatten(tree, source, &mut documents)?;
    }
    Ok(documents)
}

/// Splits YAML at its document marks; what is empty is no document.
fn split(text: &str) -> Vec<String> {
    let mut texts = vec![String::new()];
    for line in text.lines() {
        if line == "---" || line.starts_with("--- ") || line.starts_with("---\t") {
            texts.push(String::new());
            continue;
        }
        if let Some(last) = texts.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    let says_something = |text: &String| {
        text.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    };
    texts.into_iter().filter(says_something).collect()
}

fn flatten(tree: Value, source: &str, documents: &mut Vec<Document>) -> Result<()> {
    if tree.is_null() {
        return Ok(());
    }
    if let (true, Some(items)) =
        (tree.kind().ends_with("List"), tree.get("items").and_then(Value::as_array))
    {
        return items.iter().try_for_each(|item| flatten(item.clone(), source, documents));
    }
    for (field, what) in [("kind", tree.kind()), ("apiVersion", tree.api_version())] {
        if what.is_empty() {
            return Err(Error::Message(format!("error validating \"{source}\": {field} not set")));
        }
    }
    documents.push(Document { source: source.to_owned(), object: tree });
    Ok(())
}

/// Gives a namespaced object its namespace; one that names another is refused.
pub(crate) fn settle_namespace(object: &mut Value, wanted: &str, is_explicit: bool) -> Result<()> {
    let own = object.namespace().to_owned();
    if own.is_empty() {
        object.set(&["metadata", "namespace"], wanted);
    } else if is_explicit && own != wanted {
        return Err(Error::Message(format!(
            "the namespace from the provided object \"{own}\" does not match the namespace \"{wanted}\". You must \
             pass '--namespace={own}' to perform this operation."
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_are_read_one_by_one() {
        let yaml = "# first\napiVersion: v1\nkind: A\n---\n\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: B}\n- {apiVersion: v1, kind: C}\n";
        let kinds = |text: &str| -> Vec<String> {
            parse(text, "x").unwrap().iter().map(|d| d.object.kind().to_owned()).collect()
        };
        assert_eq!(kinds(yaml), ["A", "B", "C"]);
        assert_eq!(
            kinds(r#"{"apiVersion":"v1","kind":"A"}{"apiVersion":"v1","kind":"B"}"#),
            ["A", "B"]
        );
        let error = parse("kind: A", "a.yaml").unwrap_err().render();
        assert_eq!(error, "error: error validating \"a.yaml\": apiVersion not set\n");
    }

    #[test]
    fn the_way_around_kustomizations_can_be_typed() {
        for line in [
            "apply -k dir -n a",
            "apply -kdir -n a",
            "apply --kustomize=dir -n a",
            "apply --kustomize dir -n a",
        ] {
            let words = format!("/bin/karmadactl {line}");
            let words = words.split(' ').map(str::to_owned);
            assert_eq!(command_line(words, "dir"), "karmadactl apply -n a", "{line}");
        }
    }

    #[test]
    fn a_namespace_is_given_and_a_contradiction_refused() {
        let mut object = karmada_apimachinery::json!({"metadata": {}});
        settle_namespace(&mut object, "a", false).unwrap();
        assert_eq!(object.namespace(), "a");
        assert!(settle_namespace(&mut object, "b", true).is_err());
        assert!(settle_namespace(&mut object, "b", false).is_ok());
    }
}
