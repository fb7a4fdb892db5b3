//! Reads the struct declarations of Go source: JSON names, protobuf numbers, and whether a field is a
//! pointer or left out when empty. Only the plain style of the Kubernetes API packages is understood.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The modules that declare API types, and the folder of each to search.
const MODULES: &[(&str, &str)] = &[
    ("api", ""),
    ("apimachinery", "pkg/apis/meta/v1"),
    ("apiextensions-apiserver", "pkg/apis/apiextensions/v1"),
    ("kube-aggregator", "pkg/apis/apiregistration/v1"),
];

/// Structs by the name of their OpenAPI definition.
pub(crate) type Structs = BTreeMap<String, Vec<Field>>;

/// A definition and the one whose fields it has.
type Alias = (String, String);

#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// The name in JSON; empty when the fields of the type are inlined.
    pub(crate) json: String,
    /// The number in protobuf, where there is one.
    pub(crate) number: Option<u64>,
    pub(crate) presence: Presence,
    /// The definition that is inlined.
    pub(crate) inlined: Option<String>,
}

/// When Go writes a field to JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// `omitempty` on a value.
    OmitEmpty,
    /// `omitempty` on a pointer.
    Pointer,
    /// Always.
    Always,
    /// Always, `null` when the pointer is nil.
    AlwaysPointer,
    /// `omitzero`.
    OmitZero,
}

impl Presence {
    pub(crate) fn code(self) -> Option<&'static str> {
        match self {
            Self::OmitEmpty => None,
            Self::Pointer => Some("pointer"),
            Self::Always => Some("always"),
            Self::AlwaysPointer => Some("nullable"),
            Self::OmitZero => Some("omitzero"),
        }
    }
}

/// Reads all modules below `root`, taking the newest version of each.
pub(crate) fn read(root: &Path) -> Result<Structs> {
    let mut structs = Structs::new();
    let mut aliases = Vec::new();
    for (module, folder) in MODULES {
        let directory = newest(root, module)?.join(folder);
        let prefix = match *folder {
            "" => format!("io.k8s.{module}"),
            folder => format!("io.k8s.{module}.{}", folder.replace('/', ".")),
        };
        read_folder(&directory, &prefix, &mut structs, &mut aliases)?;
    }
    for (name, target) in aliases {
        if let Some(fields) = structs.get(&target).cloned() {
            structs.insert(name, fields);
        }
    }
    Ok(structs)
}

fn newest(root: &Path, module: &str) -> Result<std::path::PathBuf> {
    let prefix = format!("{module}@");
    let mut found: Vec<_> = fs::read_dir(root)
        .with_context(|| format!("list {}", root.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix)))
        .collect();
    found.sort();
    found.pop().with_context(|| format!("no module {module} in {}", root.display()))
}

fn read_folder(
    directory: &Path,
    prefix: &str,
    structs: &mut Structs,
    aliases: &mut Vec<Alias>,
) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            read_folder(&path, &format!("{prefix}.{name}"), structs, aliases)?;
        } else if name.ends_with(".go")
            && !name.ends_with("_test.go")
            && !name.starts_with("zz_")
            && !name.starts_with("generated")
        {
            let source = fs::read_to_string(&path)?;
            read_source(&source, prefix, structs);
            aliases.extend(read_aliases(&source, prefix));
        }
    }
    Ok(())
}

/// Types that take over a struct of another package: `type MatchCondition v1.MatchCondition`.
fn read_aliases(source: &str, prefix: &str) -> Vec<Alias> {
    let imports = imports(source);
    let declared = source.lines().filter_map(|line| line.strip_prefix("type "));
    declared
        .filter_map(|declaration| {
            let mut words = declaration.split_whitespace().filter(|word| *word != "=");
            let (name, target) = (words.next()?, words.next()?);
            let (package, target) = target.split_once('.')?;
            Some((format!("{prefix}.{name}"), format!("{}.{target}", imports.get(package)?)))
        })
        .collect()
}

fn read_source(source: &str, prefix: &str, structs: &mut Structs) {
    let imports = imports(source);
    let mut open: Option<(String, Vec<Field>)> = None;
    for line in source.lines() {
        let text = line.trim();
        match &mut open {
            None => {
                let declared = text.strip_prefix("type ").and_then(|t| t.strip_suffix(" struct {"));
                if let Some(name) = declared {
                    open = Some((format!("{prefix}.{name}"), Vec::new()));
                }
            }
            Some((_, fields)) if line != "}" => {
                if !text.starts_with("//")
                    && let Some(field) = field(text, prefix, &imports)
                {
                    fields.push(field);
                }
            }
            Some(_) => {
                if let Some((name, fields)) = open.take() {
                    structs.insert(name, fields);
                }
            }
        }
    }
}

/// Import aliases and the definition prefixes they stand for.
fn imports(source: &str) -> BTreeMap<String, String> {
    let mut imports = BTreeMap::new();
    for line in source.lines() {
        let line = line.trim().strip_prefix("import ").unwrap_or(line.trim());
        let Some((alias, path)) = line.split_once('"') else { continue };
        let Some(path) = path.strip_suffix('"').and_then(|p| p.strip_prefix("k8s.io/")) else {
            continue;
        };
        let last = path.rsplit('/').next().unwrap_or_default();
        let alias = if alias.trim().is_empty() { last } else { alias.trim() };
        imports.insert(alias.to_owned(), format!("io.k8s.{}", path.replace('/', ".")));
    }
    imports
}

fn field(text: &str, prefix: &str, imports: &BTreeMap<String, String>) -> Option<Field> {
    let (declaration, rest) = text.split_once('`')?;
    let tags = rest.split('`').next()?;
    let json = tag(tags, "json")?;
    let mut options = json.split(',');
    let name = options.next().unwrap_or_default();
    let options: Vec<&str> = options.collect();
    let go_type = declaration.split_whitespace().last()?;
    let number = tag(tags, "protobuf").and_then(|tag| tag.split(',').nth(1)?.parse().ok());
    let is_inline = options.contains(&"inline") || name.is_empty();
    let inlined = is_inline.then(|| match go_type.trim_start_matches('*').split_once('.') {
        Some((alias, name)) => {
            format!("{}.{name}", imports.get(alias).map_or("", String::as_str))
        }
        None => format!("{prefix}.{}", go_type.trim_start_matches('*')),
    });
    let is_pointer = go_type.starts_with('*');
    let presence = match (options.contains(&"omitzero"), options.contains(&"omitempty")) {
        (true, _) => Presence::OmitZero,
        (false, true) if is_pointer => Presence::Pointer,
        (false, true) => Presence::OmitEmpty,
        (false, false) if is_pointer => Presence::AlwaysPointer,
        (false, false) => Presence::Always,
    };
    Some(Field { json: name.to_owned(), number, presence, inlined })
}

fn tag<'a>(tags: &'a str, key: &str) -> Option<&'a str> {
    let start = tags.find(&format!("{key}:\""))? + key.len() + 2;
    tags[start..].split('"').next()
}
