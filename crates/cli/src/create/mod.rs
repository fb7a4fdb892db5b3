//! `create`: objects from files, and from flags for the kinds people make by hand.

mod config;
mod rbac;
mod service;
mod workload;

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, decode};

use crate::context::{Context, Server};
use crate::draft::{CANCELLED, Draft, HEADER, content};
use crate::error::{Error, Result};
use crate::files::FileFlags;
use crate::output::{self, PrintFlags};
use crate::raw;
use crate::subjects::{
    DryRun, DryRunFlag, LAST_APPLIED, Selection, Subject, WriteOptions, create, validation,
};

pub(crate) const EXAMPLES: &str = "  # Create what a file describes
  karmadactl create -f nginx.yaml

  # Create a deployment; a policy decides where it runs
  karmadactl create deployment nginx --image nginx --replicas 2

  # Print a namespace instead of creating it
  karmadactl create namespace test --dry-run=client -o yaml
";

#[derive(Debug, Clone, clap::Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = false)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    how: How,
    /// Only objects that this selector matches
    #[arg(
        long,
        short = 'l',
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    /// Edit each object before it is created
    #[arg(long)]
    edit: bool,
    /// Edit with line endings of Windows
    #[arg(long)]
    windows_line_endings: bool,
    /// Send the file to this address of the server as it is
    #[arg(long, value_name = "PATH")]
    raw: Option<String>,
    #[command(subcommand)]
    kind: Option<Kind>,
}

/// Flags of all ways to create.
#[derive(Debug, Clone, clap::Args)]
struct How {
    #[command(flatten)]
    print: PrintFlags,
    #[command(flatten)]
    dry_run: DryRunFlag,
    /// Who is recorded as the writer
    #[arg(long, value_name = "NAME", default_value = "kubectl-create", hide_default_value = true)]
    field_manager: String,
    /// Remember the object for a later apply
    #[arg(long)]
    save_config: bool,
    /// What to do about fields that are unknown: strict, warn or ignore
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    validate: String,
}

/// The flags of a kind, with those of all ways to create.
#[derive(Debug, Clone, clap::Args)]
struct With<T: clap::Args> {
    #[command(flatten)]
    own: T,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Kind {
    /// Create a cluster role
    Clusterrole(With<rbac::ClusterRole>),
    /// Create a cluster role binding
    Clusterrolebinding(With<rbac::ClusterRoleBinding>),
    /// Create a config map from files, literals or env files
    #[command(alias = "cm")]
    Configmap(With<config::ConfigMap>),
    /// Create a cron job
    #[command(alias = "cj")]
    Cronjob(With<workload::CronJob>),
    /// Create a deployment
    #[command(alias = "deploy")]
    Deployment(With<workload::Deployment>),
    /// Create a job
    Job(With<workload::Job>),
    /// Create a namespace
    #[command(alias = "ns")]
    Namespace(With<config::Named>),
    /// Create a pod disruption budget
    #[command(alias = "pdb")]
    Poddisruptionbudget(With<workload::Budget>),
    /// Create a priority class
    #[command(alias = "pc")]
    Priorityclass(With<workload::PriorityClass>),
    /// Create a resource quota
    #[command(alias = "resourcequota")]
    Quota(With<config::Quota>),
    /// Create a role
    Role(With<rbac::Role>),
    /// Create a role binding
    Rolebinding(With<rbac::RoleBinding>),
    /// Create a secret
    #[command(subcommand)]
    Secret(Secret),
    /// Create a service
    #[command(subcommand, alias = "svc")]
    Service(Service),
    /// Create a service account
    #[command(alias = "sa")]
    Serviceaccount(With<config::Named>),
    /// Create an ingress
    #[command(alias = "ing")]
    Ingress(With<service::Ingress>),
    /// Request a token of a service account
    Token(config::Token),
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Secret {
    /// Create a secret from files, literals or env files
    Generic(With<config::Generic>),
    /// Create a secret for a registry
    DockerRegistry(With<config::Registry>),
    /// Create a secret from a certificate and its key
    Tls(With<config::Tls>),
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Service {
    /// Create a service with an address inside the cluster
    Clusterip(With<service::ClusterIp>),
    /// Create a service that is another name
    Externalname(With<service::ExternalName>),
    /// Create a service with a load balancer
    Loadbalancer(With<service::Plain>),
    /// Create a service on a port of every node
    Nodeport(With<service::NodePort>),
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let server = ctx.karmada().await?;
    if let Some(Kind::Token(token)) = &args.kind {
        return token.request(ctx, &server).await;
    }
    if let Some(kind) = &args.kind {
        let (object, how) = match kind {
            Kind::Job(with) => (with.own.build(ctx, &server).await?, &with.how),
            other => from_flags(other)?,
        };
        return from_object(ctx, &server, object, how).await;
    }
    if !args.files.is_given() {
        return Err(Error::from("must specify one of -f and -k"));
    }
    if let Some(path) = &args.raw {
        return raw::send(&server, http::Method::POST, path, &args.files).await;
    }
    let selector = karmada_apimachinery::selector::LabelSelector::parse(&args.selector)
        .map_err(|error| error.to_string())?;
    let selection = Selection { files: args.files.clone(), ..Selection::default() };
    let mut errors = Vec::new();
    for mut subject in selection.subjects(ctx, &server).await? {
        if !subject.object.as_ref().is_some_and(|object| selector.matches_object(object)) {
            continue;
        }
        if args.edit && !edited(&mut subject, args.windows_line_endings)? {
            output::note(CANCELLED);
            continue;
        }
        errors.extend(one(&server, subject, &args.how).await.err());
    }
    Error::combine(errors)
}

/// Opens an object in the editor; whether it shall be created then.
fn edited(subject: &mut Subject, windows_line_endings: bool) -> Result<bool> {
    let body = output::yaml_text(&subject.object.clone().unwrap_or_default());
    let draft = Draft::new("yaml", windows_line_endings);
    let text = content(&draft.edit(&format!("{HEADER}{body}"))?);
    if text.trim().is_empty() || text == body {
        return Ok(false);
    }
    let object = decode::yaml_untyped(text.as_bytes()).map_err(|error| error.to_string())?.value;
    if object.gvk() != subject.object.as_ref().map(|object| object.gvk()).unwrap_or_default() {
        return Err(Error::from("at least one of apiVersion and kind was changed"));
    }
    subject.name = object.name().to_owned();
    subject.object = Some(object);
    Ok(true)
}

fn from_flags(kind: &Kind) -> Result<(Value, &How)> {
    Ok(match kind {
        Kind::Clusterrole(with) => (with.own.build()?, &with.how),
        Kind::Clusterrolebinding(with) => (with.own.build()?, &with.how),
        Kind::Configmap(with) => (with.own.build()?, &with.how),
        Kind::Cronjob(with) => (with.own.build(), &with.how),
        Kind::Deployment(with) => (with.own.build(), &with.how),
        Kind::Namespace(with) => (with.own.build("v1", "Namespace"), &with.how),
        Kind::Poddisruptionbudget(with) => (with.own.build()?, &with.how),
        Kind::Priorityclass(with) => (with.own.build(), &with.how),
        Kind::Quota(with) => (with.own.build()?, &with.how),
        Kind::Role(with) => (with.own.build()?, &with.how),
        Kind::Rolebinding(with) => (with.own.build()?, &with.how),
        Kind::Secret(Secret::Generic(with)) => (with.own.build()?, &with.how),
        Kind::Secret(Secret::DockerRegistry(with)) => (with.own.build()?, &with.how),
        Kind::Secret(Secret::Tls(with)) => (with.own.build()?, &with.how),
        Kind::Service(Service::Clusterip(with)) => (with.own.build()?, &with.how),
        Kind::Service(Service::Externalname(with)) => (with.own.build()?, &with.how),
        Kind::Service(Service::Loadbalancer(with)) => (with.own.build("LoadBalancer")?, &with.how),
        Kind::Service(Service::Nodeport(with)) => (with.own.build()?, &with.how),
        Kind::Serviceaccount(with) => (with.own.build("v1", "ServiceAccount"), &with.how),
        Kind::Ingress(with) => (with.own.build()?, &with.how),
        Kind::Job(_) | Kind::Token(_) => return Err(Error::from("not made from flags alone")),
    })
}

async fn from_object(ctx: &Context, server: &Server, mut object: Value, how: &How) -> Result<()> {
    let resource = server.resources.of_kind(&object.gvk()).await?;
    let mut namespace = String::new();
    if resource.namespaced {
        namespace = ctx.namespace().await?;
        object.set(&["metadata", "namespace"], namespace.as_str());
    }
    let name = object.name().to_owned();
    // Words of a file would mislead: there is none.
    one(server, Subject { resource, namespace, name, object: Some(object), source: None }, how)
        .await
        .map_err(|error| match error {
            Error::Request { source, .. } if source.api().is_some() => {
                Error::Request { attempt: String::new(), source }
            }
            other => other,
        })
}

async fn one(server: &Server, mut subject: Subject, how: &How) -> Result<()> {
    if how.save_config
        && let Some(object) = &mut subject.object
    {
        let text = format!("{object}\n");
        object.set(&["metadata", "annotations", LAST_APPLIED], text);
    }
    let dry_run = how.dry_run.dry_run;
    let created = if dry_run == DryRun::Client {
        subject.object.clone().unwrap_or_default()
    } else {
        let options = WriteOptions {
            field_manager: how.field_manager.clone(),
            server_dry_run: dry_run == DryRun::Server,
            validation: validation(&how.validate)?,
        };
        create(server, &subject, &options).await?
    };
    match how.print.format()? {
        Some(format) => output::print(&output::render(&format, &how.print, &created)?),
        None => {
            let line = crate::resources::line_name(&subject.resource, created.name());
            output::print(&format!("{line} created{}\n", dry_run.suffix()))
        }
    }
}
