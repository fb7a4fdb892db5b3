//! Configuration, secrets, quotas, accounts and their tokens, from flags.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::context::{Context, Server};
use crate::error::{Error, Result};
use crate::globals::parse_duration;
use crate::output::{self, PrintFlags};

/// An object that is only a name.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Named {
    name: String,
}

impl Named {
    pub(super) fn build(&self, api_version: &str, kind: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": self.name}})
    }
}

/// Where keys and values come from.
#[derive(Debug, Clone, clap::Args)]
struct Sources {
    /// A file, a directory, or KEY=FILE
    #[arg(long, value_name = "[KEY=]FILE")]
    from_file: Vec<String>,
    /// KEY=VALUE
    #[arg(long, value_name = "KEY=VALUE")]
    from_literal: Vec<String>,
    /// A file with lines KEY=VALUE
    #[arg(long, value_name = "FILE")]
    from_env_file: Vec<String>,
}

impl Sources {
    fn read(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut pairs: Vec<(String, Vec<u8>)> = Vec::new();
        for source in &self.from_file {
            match source.split_once('=') {
                Some((key, path)) => pairs.push((key.to_owned(), read(path)?)),
                None => pairs.extend(read_path(Path::new(source))?),
            }
        }
        for literal in &self.from_literal {
            let (key, value) = literal
                .split_once('=')
                .ok_or_else(|| format!("invalid literal source {literal}, expected key=value"))?;
            pairs.push((key.to_owned(), value.as_bytes().to_vec()));
        }
        for path in &self.from_env_file {
            let text = String::from_utf8_lossy(&read(path)?).into_owned();
            let lines = text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with('#'));
            for line in lines {
                let (key, value) = line.split_once('=').unwrap_or((line, ""));
                pairs.push((key.to_owned(), value.as_bytes().to_vec()));
            }
        }
        for (place, (key, _)) in pairs.iter().enumerate() {
            if pairs.iter().take(place).any(|(other, _)| other == key) {
                return Err(Error::Message(format!(
                    "cannot add key {key}, another key by that name already exists"
                )));
            }
        }
        Ok(pairs)
    }
}

/// Whether the content shall be seen in the name.
#[derive(Debug, Clone, Default, clap::Args)]
struct Hash {
    /// Append a hash of the content to the name
    #[arg(long)]
    append_hash: bool,
}

impl Hash {
    /// Compat: the same content has the same name as kubectl gives it.
    fn name(&self, mut object: Value) -> Value {
        if !self.append_hash {
            return object;
        }
        let data = object.get("data").cloned().unwrap_or_else(|| json!({}));
        let mut content = json!({"kind": object.kind(), "name": object.name(), "data": data});
        match object.kind() {
            "Secret" => content["type"] = object.str_at(&["type"]).unwrap_or_default().into(),
            _ => {
                if let Some(binary) = object.get("binaryData") {
                    content["binaryData"] = binary.clone();
                }
            }
        }
        // Go's encoder writes these so that they mean nothing within HTML.
        let text = content.to_string();
        let text = text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
        let hex: String =
            Sha256::digest(text).iter().take(5).map(|byte| format!("{byte:02x}")).collect();
        let letter = |letter| match letter {
            '0' => 'g',
            '1' => 'h',
            '3' => 'k',
            'a' => 'm',
            'e' => 't',
            other => other,
        };
        let hash: String = hex.chars().map(letter).collect();
        let name = format!("{}-{hash}", object.name());
        object.set(&["metadata", "name"], name);
        object
    }
}

fn read(path: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Error::Message(format!("error reading {path}: {error}")))
}

fn read_path(path: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !path.is_dir() {
        return Ok(vec![(name(path), read(&path.display().to_string())?)]);
    }
    let mut files: Vec<_> =
        std::fs::read_dir(path)?.filter_map(|entry| entry.ok().map(|e| e.path())).collect();
    files.sort();
    files.retain(|file| file.is_file());
    files.iter().map(|file| Ok((name(file), read(&file.display().to_string())?))).collect()
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct ConfigMap {
    name: String,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    hash: Hash,
}

impl ConfigMap {
    pub(super) fn build(&self) -> Result<Value> {
        let (mut data, mut binary) = (Map::new(), Map::new());
        for (key, bytes) in self.sources.read()? {
            match String::from_utf8(bytes) {
                Ok(text) => drop(data.insert(key, text.into())),
                Err(error) => drop(binary.insert(key, STANDARD.encode(error.as_bytes()).into())),
            }
        }
        let mut map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name}});
        for (field, values) in [("data", data), ("binaryData", binary)] {
            if !values.is_empty() {
                map[field] = Value::Object(values);
            }
        }
        Ok(self.hash.name(map))
    }
}

fn secret(name: &str, kind: &str, pairs: Vec<(String, Vec<u8>)>) -> Value {
    let data: Map = pairs.into_iter().map(|(key, bytes)| (key, STANDARD.encode(bytes))).collect();
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    if !kind.is_empty() {
        secret["type"] = kind.into();
    }
    if !data.is_empty() {
        secret["data"] = Value::Object(data);
    }
    secret
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Generic {
    name: String,
    #[command(flatten)]
    sources: Sources,
    /// The type of the secret
    #[arg(long = "type", default_value = "", hide_default_value = true)]
    kind: String,
    #[command(flatten)]
    hash: Hash,
}

impl Generic {
    pub(super) fn build(&self) -> Result<Value> {
        Ok(self.hash.name(secret(&self.name, &self.kind, self.sources.read()?)))
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Registry {
    name: String,
    /// A file of the form of ~/.docker/config.json
    #[arg(long, value_name = "FILE")]
    from_file: Option<String>,
    #[arg(long, default_value = "https://index.docker.io/v1/")]
    docker_server: String,
    #[arg(long)]
    docker_username: Option<String>,
    #[arg(long)]
    docker_password: Option<String>,
    #[arg(long, default_value = "", hide_default_value = true)]
    docker_email: String,
    #[command(flatten)]
    hash: Hash,
}

impl Registry {
    pub(super) fn build(&self) -> Result<Value> {
        const KIND: &str = "kubernetes.io/dockerconfigjson";
        let key = ".dockerconfigjson".to_owned();
        if let Some(path) = &self.from_file {
            return Ok(self.hash.name(secret(&self.name, KIND, vec![(key, read(path)?)])));
        }
        let (Some(user), Some(password)) = (&self.docker_username, &self.docker_password) else {
            return Err(Error::from(
                "either --from-file or --docker-username and --docker-password are required",
            ));
        };
        let mut entry = json!({
            "username": user, "password": password, "auth": STANDARD.encode(format!("{user}:{password}")),
        });
        if !self.docker_email.is_empty() {
            entry["email"] = self.docker_email.as_str().into();
        }
        let config = json!({"auths": {self.docker_server.as_str(): entry}});
        let pairs = vec![(key, config.to_string().into_bytes())];
        Ok(self.hash.name(secret(&self.name, KIND, pairs)))
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Tls {
    name: String,
    /// PEM file of the certificate
    #[arg(long, value_name = "FILE", required = true)]
    cert: String,
    /// PEM file of its key
    #[arg(long, value_name = "FILE", required = true)]
    key: String,
    #[command(flatten)]
    hash: Hash,
}

impl Tls {
    pub(super) fn build(&self) -> Result<Value> {
        let pairs = vec![
            ("tls.crt".to_owned(), read(&self.cert)?),
            ("tls.key".to_owned(), read(&self.key)?),
        ];
        Ok(self.hash.name(secret(&self.name, "kubernetes.io/tls", pairs)))
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Quota {
    name: String,
    /// RESOURCE=QUANTITY, several separated by commas
    #[arg(long, value_delimiter = ',')]
    hard: Vec<String>,
    /// What is counted
    #[arg(long, value_delimiter = ',')]
    scopes: Vec<String>,
}

impl Quota {
    pub(super) fn build(&self) -> Result<Value> {
        let mut hard = Map::new();
        for pair in &self.hard {
            let (resource, quantity) = pair
                .split_once('=')
                .ok_or_else(|| format!("invalid argument {pair}, expected resource=quantity"))?;
            hard.insert(resource.to_owned(), quantity.into());
        }
        let mut spec = json!({"hard": hard});
        if !self.scopes.is_empty() {
            spec["scopes"] = json!(self.scopes);
        }
        Ok(
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": self.name}, "spec": spec}),
        )
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Token {
    /// The service account
    name: String,
    /// Who accepts the token
    #[arg(long, value_delimiter = ',')]
    audience: Vec<String>,
    /// How long it lasts
    #[arg(long, value_parser = parse_duration, default_value = "0s", hide_default_value = true)]
    duration: std::time::Duration,
    /// The object the token dies with
    #[arg(long, requires = "bound_object_name")]
    bound_object_kind: Option<String>,
    #[arg(long)]
    bound_object_name: Option<String>,
    #[arg(long, default_value = "", hide_default_value = true)]
    bound_object_uid: String,
    #[command(flatten)]
    print: PrintFlags,
}

impl Token {
    pub(super) async fn request(&self, ctx: &Context, server: &Server) -> Result<()> {
        let mut spec = json!({});
        if !self.audience.is_empty() {
            spec["audiences"] = json!(self.audience);
        }
        if !self.duration.is_zero() {
            spec["expirationSeconds"] = self.duration.as_secs().into();
        }
        if let (Some(kind), Some(name)) = (&self.bound_object_kind, &self.bound_object_name) {
            spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": self.bound_object_uid});
        }
        let request =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let accounts = karmada_apimachinery::gvk::Gvr::new("", "v1", "serviceaccounts");
        let api = server.client.api(&accounts).namespaced(&ctx.namespace().await?);
        let answer = api.create_subresource(&self.name, "token", &request).await?;
        if let Some(format) = self.print.format()? {
            return output::print(&output::render(&format, &self.print, &answer)?);
        }
        let token = answer.str_at(&["status", "token"]).ok_or("the server issued no token")?;
        output::print(&format!("{token}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(literals: &[&str]) -> Sources {
        let from_literal = literals.iter().map(|&l| l.to_owned()).collect();
        Sources { from_file: vec![], from_literal, from_env_file: vec![] }
    }

    #[test]
    fn literals_become_data_and_repeats_are_refused() {
        let hash = Hash::default();
        let map = |literals: &[&str], hash: Hash| {
            ConfigMap { name: "a".into(), sources: sources(literals), hash }.build()
        };
        let made = map(&["x=1", "y=a=b"], hash.clone()).unwrap();
        assert_eq!(made["data"], json!({"x": "1", "y": "a=b"}));
        assert!(map(&["x=1", "x=2"], hash.clone()).is_err());
        let named = map(&["x=1"], Hash { append_hash: true }).unwrap();
        assert_ne!(named.name(), map(&["x=2"], Hash { append_hash: true }).unwrap().name());
        let sources = sources(&["p=pw"]);
        let secret = Generic { name: "s".into(), kind: String::new(), sources, hash };
        assert_eq!(secret.build().unwrap()["data"], json!({"p": "cHc="}));
    }
}
