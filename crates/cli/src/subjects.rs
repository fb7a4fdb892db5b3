//! The objects a command acts on: those of files, or those that type, names and selectors lead to.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Api, ApiResource, ListOptions};

use crate::context::{Context, Server};
use crate::error::{Attempt as _, Error, Result};
use crate::files::{FileFlags, settle_namespace};
use crate::resources::line_name;

/// What was applied last, kept with the object, so that a field left out later is known to be unwanted.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Which objects, as the flags of many commands say it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection<'a> {
    pub(crate) files: FileFlags,
    pub(crate) what: &'a [String],
    pub(crate) label_selector: &'a str,
    pub(crate) field_selector: &'a str,
    pub(crate) all: bool,
    pub(crate) all_namespaces: bool,
}

/// One object to act on.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) resource: ApiResource,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// As it stands in a file, or as a list showed it.
    pub(crate) object: Option<Value>,
    /// The file, for errors.
    pub(crate) source: Option<String>,
}

impl Subject {
    pub(crate) fn api(&self, server: &Server) -> Api {
        server.client.api(&self.resource.gvr).namespaced(&self.namespace)
    }

    /// `deployment.apps/nginx`.
    pub(crate) fn line_name(&self) -> String {
        line_name(&self.resource, &self.name)
    }

    pub(crate) async fn live(&self, server: &Server) -> Result<Value> {
        Ok(self.api(server).get(&self.name).await?)
    }

    /// What an error about it begins with: `error when creating "file"`.
    pub(crate) fn attempt(&self, verb: &str) -> String {
        self.source
            .as_ref()
            .map_or_else(String::new, |source| format!("error when {verb} \"{source}\""))
    }
}

impl Selection<'_> {
    pub(crate) async fn subjects(&self, ctx: &Context, server: &Server) -> Result<Vec<Subject>> {
        let namespace = ctx.namespace().await?;
        if self.files.is_given() {
            return from_files(ctx, server, &self.files, &namespace).await;
        }
        if self.what.is_empty() {
            return Err(Error::from(
                "You must provide one or more resources by argument or filename.\n\
                 Example resource specifications include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   \
                 '<resource> <name>'\n   '<resource>'",
            ));
        }
        let namespace = if self.all_namespaces { String::new() } else { namespace };
        let mut subjects = Vec::new();
        for wanted in server.resources.resolve(self.what).await? {
            let namespace = if wanted.resource.namespaced { namespace.as_str() } else { "" };
            let subject = |name: &str, namespace: &str, object: Option<Value>| Subject {
                resource: wanted.resource.clone(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                object,
                source: None,
            };
            if !wanted.names.is_empty() {
                if self.all || !self.label_selector.is_empty() {
                    return Err(Error::from(
                        "name cannot be provided when a selector is specified",
                    ));
                }
                subjects.extend(wanted.names.iter().map(|name| subject(name, namespace, None)));
                continue;
            }
            if !self.all && self.label_selector.is_empty() && self.field_selector.is_empty() {
                return Err(Error::from("resource(s) were provided, but no name was specified"));
            }
            let options = ListOptions {
                label_selector: self.label_selector.to_owned(),
                field_selector: self.field_selector.to_owned(),
                ..ListOptions::default()
            };
            let api = server.client.api(&wanted.resource.gvr).namespaced(namespace);
            for item in &api.list_all(&options).await?.items {
                subjects.push(subject(item.name(), item.namespace(), Some(item.value())));
            }
        }
        Ok(subjects)
    }
}

async fn from_files(
    ctx: &Context,
    server: &Server,
    files: &FileFlags,
    namespace: &str,
) -> Result<Vec<Subject>> {
    let is_explicit = ctx.globals.namespace.is_some();
    let mut subjects = Vec::new();
    for mut document in files.read().await? {
        let resource = server.resources.of_kind(&document.object.gvk()).await?;
        if resource.namespaced {
            settle_namespace(&mut document.object, namespace, is_explicit)?;
        }
        let own = if resource.namespaced { document.object.namespace() } else { "" };
        subjects.push(Subject {
            namespace: own.to_owned(),
            name: document.object.name().to_owned(),
            resource,
            object: Some(document.object),
            source: Some(document.source),
        });
    }
    Ok(subjects)
}

/// Creates an object that a file or flags describe.
pub(crate) async fn create(
    server: &Server,
    subject: &Subject,
    options: &WriteOptions,
) -> Result<Value> {
    let object = subject.object.clone().unwrap_or_default();
    let path = karmada_client::request::path(
        &subject.resource.gvr,
        Some(subject.namespace.as_str()).filter(|namespace| !namespace.is_empty()),
        "",
        "",
    );
    let mut query = karmada_client::request::Query::default();
    query
        .add("fieldManager", &options.field_manager)
        .add("fieldValidation", options.validation)
        .add("dryRun", if options.server_dry_run { "All" } else { "" });
    let request = http::Request::post(query.append_to(path))
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::ACCEPT, "application/json")
        .body(karmada_client::Body::from(object.to_string().into_bytes()))
        .map_err(|error| error.to_string())?;
    server.client.request_json(request).await.attempting(|| subject.attempt("creating"))
}

/// How something is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    pub(crate) field_manager: String,
    pub(crate) server_dry_run: bool,
    /// `Strict`, `Warn` or `Ignore`.
    pub(crate) validation: &'static str,
}

/// Whether anything is really written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DryRun {
    #[default]
    None,
    Client,
    Server,
}

impl DryRun {
    /// What stands behind a line about something that was not done.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

impl std::str::FromStr for DryRun {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" | "false" => Ok(Self::None),
            "client" | "unchanged" | "true" => Ok(Self::Client),
            "server" => Ok(Self::Server),
            other => Err(format!(
                "Invalid dry-run value ({other}). Must be \"none\", \"server\", or \"client\"."
            )),
        }
    }
}

/// `--dry-run[=client|server]`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct DryRunFlag {
    /// Only print what would be sent (client), or send it without keeping it (server)
    #[arg(long, value_name = "none|client|server", num_args = 0..=1, require_equals = true, default_value = "none",
        default_missing_value = "client", hide_default_value = true)]
    pub(crate) dry_run: DryRun,
}

/// `--validate[=strict|warn|ignore]`.
pub(crate) fn validation(text: &str) -> Result<&'static str> {
    match text {
        "strict" | "true" => Ok("Strict"),
        "warn" => Ok("Warn"),
        "ignore" | "false" => Ok("Ignore"),
        other => Err(Error::Message(format!(
            "invalid - validate option \"{other}\"; must be one of: strict (or true), warn, ignore (or false)"
        ))),
    }
}
