//! `logs`: what containers of member clusters wrote.

use std::io::Write as _;
use std::time::Duration;

use futures::StreamExt as _;
use http::Request;
use http_body_util::BodyExt as _;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::Body;
use karmada_client::request::{Query, path};

use crate::context::{Context, Server};
use crate::error::{Error, Result};
use crate::globals::parse_duration;
use crate::{output, pods};

pub(crate) const EXAMPLES: &str = "  # What a pod of member1 wrote
  karmadactl logs nginx-7f8fbb96d-4n7dq -C member1

  # The last lines of a deployment's pod, and what follows
  karmadactl logs deployment/nginx -C member1 --tail 20 -f
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// POD or TYPE/NAME
    #[arg(value_name = "POD")]
    what: Vec<String>,
    /// The member cluster
    #[arg(long, short = 'C', value_name = "NAME")]
    cluster: Option<String>,
    /// Go on with what is written from now on
    #[arg(long, short)]
    follow: bool,
    /// The run of the container before this one
    #[arg(long, short)]
    previous: bool,
    /// The container
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
    /// All containers of the pod
    #[arg(long)]
    all_containers: bool,
    /// All pods of the workload
    #[arg(long)]
    all_pods: bool,
    /// Selector (label query) for pods
    #[arg(
        long,
        short = 'l',
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    /// Only what is newer than this, such as 5s or 2m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    since: Option<Duration>,
    /// Only what is newer than this time (RFC3339)
    #[arg(long, value_name = "TIME", default_value = "", hide_default_value = true)]
    since_time: String,
    /// How many lines from the end; -1 for all
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    tail: Option<i64>,
    /// How many bytes at most
    #[arg(long, value_name = "BYTES")]
    limit_bytes: Option<u64>,
    /// The time of each line
    #[arg(long)]
    timestamps: bool,
    /// The pod and container before each line
    #[arg(long)]
    prefix: bool,
    /// How many logs to follow at once
    #[arg(long, value_name = "COUNT", default_value_t = 5, hide_default_value = true)]
    max_log_requests: usize,
    /// Go on when the log of one pod cannot be read
    #[arg(long)]
    ignore_errors: bool,
    /// Do not check the identity of the kubelet
    #[arg(long)]
    insecure_skip_tls_verify_backend: bool,
    /// How long to wait for a pod to run
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "20s", hide = true)]
    pod_running_timeout: Duration,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let cluster = args.cluster.as_deref().ok_or("must specify a cluster")?;
    let namespace = ctx.namespace().await?;
    let (what, container) = match args.what.as_slice() {
        [] if args.selector.is_empty() => {
            return Err(Error::from("expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'"));
        }
        [] => (None, args.container.clone()),
        [what] => (Some(what), args.container.clone()),
        [what, container] => (Some(what), Some(container.clone())),
        _ => return Err(Error::from("expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'")),
    };
    let karmada = ctx.karmada().await?;
    let member = ctx.member(&karmada, cluster).await?;
    let found = match what {
        Some(what) => pods::find(&member, &namespace, what)
            .await
            .map_err(|error| in_namespace(error, &namespace))?,
        None => pods::select(&member, &namespace, &args.selector).await?,
    };
    let chosen = match what {
        Some(what) if !args.all_pods => {
            let count = found.len();
            let pod = pods::best(found, what)?;
            if count > 1 {
                output::note(&format!("Found {count} pods, using pod/{}", pod.name()));
            }
            vec![pods::await_running(&member, pod, args.pod_running_timeout).await?]
        }
        _ => found,
    };
    let streams = streams(&chosen, container.as_deref(), args.all_containers)?;
    if args.follow && streams.len() > args.max_log_requests {
        return Err(Error::Message(format!(
            "you are attempting to follow {} log streams, but maximum allowed concurrency is {}, use \
             --max-log-requests to increase the limit",
            streams.len(),
            args.max_log_requests
        )));
    }
    copy(&member, &namespace, &streams, &args).await
}

/// Compat: the namespace is named where a pod is not found.
fn in_namespace(error: Error, namespace: &str) -> Error {
    match &error {
        Error::Request { source, .. } if source.is_not_found() => Error::Plain(format!(
            "Error from server (NotFound): {error} in namespace \"{namespace}\""
        )),
        _ => error,
    }
}

/// Pod and container of every log to read.
fn streams(pods: &[Value], container: Option<&str>, all: bool) -> Result<Vec<(String, String)>> {
    let mut streams = Vec::new();
    for pod in pods {
        if all {
            for field in ["initContainers", "containers"] {
                let names =
                    pod.list_at(&["spec", field]).iter().filter_map(|one| one.str_at(&["name"]));
                streams.extend(names.map(|name| (pod.name().to_owned(), name.to_owned())));
            }
            continue;
        }
        let (chosen, note) = pods::container(pod, container)?;
        if let Some(note) = note {
            output::note(&note);
        }
        streams.push((pod.name().to_owned(), chosen));
    }
    Ok(streams)
}

async fn copy(
    member: &Server,
    namespace: &str,
    streams: &[(String, String)],
    args: &Args,
) -> Result<()> {
    let one = |(pod, container): &(String, String)| {
        let (pod, container) = (pod.clone(), container.clone());
        async move {
            let prefix =
                if args.prefix { format!("[pod/{pod}/{container}] ") } else { String::new() };
            read(member, &request_path(namespace, &pod, &container, args), &prefix).await
        }
    };
    let results: Vec<Result<()>> = if args.follow {
        futures::future::join_all(streams.iter().map(one)).await
    } else {
        futures::stream::iter(streams).then(one).collect().await
    };
    if args.ignore_errors {
        for error in results.into_iter().filter_map(Result::err) {
            output::note(error.render().trim_end());
        }
        return Ok(());
    }
    Error::combine(results.into_iter().filter_map(Result::err).collect())
}

fn request_path(namespace: &str, pod: &str, container: &str, args: &Args) -> String {
    let mut query = Query::default();
    // Compat: with a selector the last ten lines of each are enough.
    let tail = args.tail.or((!args.selector.is_empty() && !args.follow).then_some(10));
    query
        .add("container", container)
        .flag("follow", args.follow)
        .flag("previous", args.previous)
        .flag("timestamps", args.timestamps)
        .flag("insecureSkipTLSVerifyBackend", args.insecure_skip_tls_verify_backend)
        .number("sinceSeconds", args.since.map(|since| since.as_secs().max(1)))
        .add("sinceTime", &args.since_time)
        .number("tailLines", tail.and_then(|lines| u64::try_from(lines).ok()))
        .number("limitBytes", args.limit_bytes);
    query.append_to(path(&pods::pods(), Some(namespace), pod, "log"))
}

async fn read(member: &Server, path: &str, prefix: &str) -> Result<()> {
    let request = Request::get(path).body(Body::empty()).map_err(|error| error.to_string())?;
    let response = member.client.send(request).await?;
    let mut chunks = response.into_body().into_data_stream();
    let mut pending: Vec<u8> = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| error.to_string())?;
        if prefix.is_empty() {
            write(&chunk)?;
            continue;
        }
        pending.extend_from_slice(&chunk);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            write(&[prefix.as_bytes(), &line].concat())?;
        }
    }
    if !pending.is_empty() {
        write(&[prefix.as_bytes(), &pending, b"\n"].concat())?;
    }
    Ok(())
}

fn write(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}
