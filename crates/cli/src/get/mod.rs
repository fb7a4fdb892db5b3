//! `get`: objects of the control plane and of members, as tables with the columns CLUSTER and ADOPTION, or in a
//! format for programs.

mod fetch;
mod sort;
mod watch;

use futures::future::join_all;
use karmada_api::annotations;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_client::ApiResource;

use crate::context::{Context, Server};
use crate::error::{Error, Result};
use crate::output::table::{Look, Part, TablePrinter};
use crate::output::{self, Format, PrintFlags};
use crate::resources::{Wanted, kind_and_group};
use crate::scope::{Scope, servers};

pub(crate) const EXAMPLES: &str = "  \
  # List the deployments of the control plane
  karmadactl get deployments

  # List the pods of all member clusters
  karmadactl get pods --operation-scope members

  # List a deployment wherever it is, with its images
  karmadactl get deploy nginx --operation-scope all -o wide --ignore-not-found

  # Which replicas went where
  karmadactl get rb nginx-deployment -o jsonpath='{.spec.clusters}'
";

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Args {
    /// TYPE[.VERSION][.GROUP] [NAME…], or TYPE/NAME…; several types are separated by commas
    #[arg(value_name = "TYPE [NAME]")]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) print: PrintFlags,
    /// Where to look: karmada, members or all
    #[arg(long, short = 's', value_name = "SCOPE", default_value = "karmada")]
    pub(crate) operation_scope: Scope,
    /// The member clusters to look at; all of them unless given
    #[arg(long, short = 'C', value_name = "NAMES", value_delimiter = ',')]
    pub(crate) clusters: Vec<String>,
    /// Selector (label query) to filter on, such as a=b,c!=d
    #[arg(
        long,
        short = 'l',
        alias = "selector",
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) labels: String,
    /// Look in all namespaces
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
    /// Succeed if a named object does not exist
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
    /// Go on and print changes
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// Print changes without listing first
    #[arg(long)]
    pub(crate) watch_only: bool,
    /// With --watch, print what happened to each object
    #[arg(long)]
    pub(crate) output_watch_events: bool,
    /// Print no headers
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Print all labels as the last column
    #[arg(long)]
    pub(crate) show_labels: bool,
    /// Print the kind before each name
    #[arg(long)]
    pub(crate) show_kind: bool,
    /// Labels to print as columns
    #[arg(long, short = 'L', value_name = "LABELS", value_delimiter = ',')]
    pub(crate) label_columns: Vec<String>,
    /// Sort by this path, such as {.metadata.name}
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    pub(crate) sort_by: String,
}

/// One kind on one server, with the outcome of looking.
pub(crate) struct Looked<'a> {
    pub(crate) server: &'a Server,
    pub(crate) wanted: Wanted,
}

pub(crate) async fn run(ctx: &Context, mut args: Args) -> Result<()> {
    if args.what.is_empty() {
        return Err(Error::Message(format!(
            "You must specify the type of resource to get. Use \"{} api-resources\" for a complete list of \
             supported resources.",
            ctx.self_name()
        )));
    }
    args.print.no_headers = args.no_headers;
    let format = args.print.format()?;
    let namespace = ctx.namespace().await?;
    let namespace = if args.all_namespaces { String::new() } else { namespace };
    let servers = servers(ctx, args.operation_scope, &args.clusters).await?;
    if servers.is_empty() {
        output::note("No member Clusters found in Karmada control plane");
        return Ok(());
    }
    let (looked, mut errors) = resolve(&servers, &args).await;
    let asked = fetch::Asked { namespace: &namespace, args: &args };
    if args.watch || args.watch_only {
        Error::combine(errors)?;
        return watch::run(&looked, &asked, format.as_ref()).await;
    }
    match &format {
        Some(format) => print_objects(&looked, &asked, format, &mut errors).await?,
        None => print_tables(&looked, &asked, &mut errors).await?,
    }
    Error::combine(errors)
}

/// Finds the kinds on every server. One that cannot be asked is an error and no reason to leave out the rest.
async fn resolve<'a>(servers: &'a [Server], args: &Args) -> (Vec<Looked<'a>>, Vec<Error>) {
    let (mut looked, mut errors) = (Vec::new(), Vec::new());
    let answers = join_all(servers.iter().map(|server| server.resources.resolve(&args.what))).await;
    for (server, answer) in servers.iter().zip(answers) {
        match answer {
            Ok(all) => looked.extend(all.into_iter().map(|wanted| Looked { server, wanted })),
            Err(error) => errors.push(of_server(server, error)),
        }
    }
    // Compat: kinds come out sorted by group, whatever the order in which they were asked for.
    looked.sort_by(|a, b| a.wanted.resource.gvr.cmp(&b.wanted.resource.gvr));
    (looked, errors)
}

/// Says which server an error is from.
fn of_server(server: &Server, error: Error) -> Error {
    match (&server.member, &error) {
        // The way to the control plane itself is told in kubectl's words.
        (None, Error::Request { source, .. }) if source.api().is_none() => error,
        (Some(name), Error::Request { source, .. }) if source.api().is_none() => {
            Error::Message(format!(
                "basic connection test to cluster({name}) failed, please check authorization or network: {error}"
            ))
        }
        _ => Error::Message(format!("cluster({}): {error}", server.label())),
    }
}

async fn print_tables(
    looked: &[Looked<'_>],
    asked: &fetch::Asked<'_>,
    errors: &mut Vec<Error>,
) -> Result<()> {
    let answers = join_all(looked.iter().map(|one| fetch::table(one, asked))).await;
    let mut groups: Vec<(&ApiResource, Vec<Part>)> = Vec::new();
    for (one, (table, failed)) in looked.iter().zip(answers) {
        errors.extend(failed.into_iter().map(|error| of_server(one.server, error)));
        let part = Part {
            cluster: one.server.label().to_owned(),
            is_karmada: one.server.member.is_none(),
            table,
        };
        let resource = &one.wanted.resource;
        match groups.iter_mut().find(|(known, _)| same_kind(&known.gvr, &resource.gvr)) {
            Some((_, parts)) => parts.push(part),
            None => groups.push((resource, vec![part])),
        }
    }
    let several_kinds = groups.len() > 1;
    let mut shown = false;
    for (resource, mut parts) in groups {
        if !asked.args.sort_by.is_empty() {
            sort::sort_tables(&mut parts, &asked.args.sort_by)?;
        }
        let look = look(asked, resource, several_kinds);
        let text = TablePrinter::default().render(&parts, &look, None);
        if text.is_empty() {
            continue;
        }
        output::print(&if shown { format!("\n{text}") } else { text })?;
        shown = true;
    }
    if !shown && errors.is_empty() && !asked.args.ignore_not_found {
        output::note(&nothing_found(looked, asked.namespace));
    }
    Ok(())
}

/// Members of different age may serve a kind in different versions.
fn same_kind(one: &Gvr, other: &Gvr) -> bool {
    one.group == other.group && one.resource == other.resource
}

fn look(asked: &fetch::Asked<'_>, resource: &ApiResource, several_kinds: bool) -> Look {
    let args = asked.args;
    Look {
        wide: args.print.wide(),
        no_headers: args.no_headers,
        show_labels: args.show_labels,
        label_columns: args.label_columns.clone(),
        with_namespace: args.all_namespaces && resource.namespaced,
        kind_prefix: (several_kinds || args.show_kind).then(|| kind_and_group(resource)),
        with_cluster: true,
        adoption_is_wide: resource.gvr.group.is_empty() && resource.gvr.resource == "pods",
        event_column: args.output_watch_events,
    }
}

fn nothing_found(looked: &[Looked<'_>], namespace: &str) -> String {
    let namespaced = looked.iter().any(|one| one.wanted.resource.namespaced);
    if namespaced && !namespace.is_empty() {
        format!("No resources found in {namespace} namespace.")
    } else {
        "No resources found".to_owned()
    }
}

async fn print_objects(
    looked: &[Looked<'_>],
    asked: &fetch::Asked<'_>,
    format: &Format,
    errors: &mut Vec<Error>,
) -> Result<()> {
    let answers = join_all(looked.iter().map(|one| fetch::objects(one, asked))).await;
    let mut objects = Vec::new();
    for (one, (mut found, failed)) in looked.iter().zip(answers) {
        errors.extend(failed.into_iter().map(|error| of_server(one.server, error)));
        if let Some(member) = &one.server.member {
            // In one list of many clusters an object has to say where it is from.
            for object in &mut found {
                object.set(
                    &["metadata", "annotations", annotations::CACHED_FROM_CLUSTER],
                    member.as_str(),
                );
            }
        }
        objects.extend(found);
    }
    if !asked.args.sort_by.is_empty() {
        sort::sort_objects(&mut objects, &asked.args.sort_by)?;
    }
    let named: usize = looked.iter().map(|one| one.wanted.names.len()).sum();
    let is_single = named == 1 && looked.len() == 1;
    let all = match (is_single, objects.len()) {
        (true, 0) => return Ok(()),
        (true, _) => objects.remove(0),
        (false, 0) if !errors.is_empty() || *format == Format::Name => {
            return Ok(());
        }
        (false, _) => output::list_of(objects),
    };
    output::print(&output::render(format, &asked.args.print, &all)?)
}

/// The items of a list, each with its kind, which lists leave out.
pub(crate) fn with_kind(resource: &ApiResource, mut object: Value) -> Value {
    let gvk = resource.gvk();
    object.set_default(&["apiVersion"], gvk.api_version());
    object.set_default(&["kind"], gvk.kind.as_str());
    object
}
