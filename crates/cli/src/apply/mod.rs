//! `apply`: makes objects as files describe them; with `--all-clusters` or `-C` also a policy that places each; with
//! `--prune` takes away what the files no longer have.

mod prune;
mod three_way;

use karmada_api::names;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};
use karmada_client::{Patch, PatchOptions};

use crate::context::{Context, Server, cluster_names};
use crate::error::{Attempt as _, Error, Result};
use crate::files::FileFlags;
use crate::output::{self, PrintFlags};
use crate::subjects::{
    DryRun, DryRunFlag, LAST_APPLIED, Selection, Subject, WriteOptions, create, validation,
};

pub(crate) const EXAMPLES: &str = "  # Make things as a file describes them
  karmadactl apply -f nginx.yaml

  # The same, and run them in every cluster
  karmadactl apply -f nginx.yaml --all-clusters

  # Make the folder's content all there is with this label
  karmadactl apply -f shop/ --prune -l app=shop

  # The same as the first, and run it in two clusters
  karmadactl apply -f nginx.yaml --cluster member1,member2
";

/// How often a change is computed anew because somebody else was faster.
const TRIES: usize = 5;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    print: PrintFlags,
    #[command(flatten)]
    dry_run: DryRunFlag,
    /// Run what is applied in every member cluster
    #[arg(long)]
    all_clusters: bool,
    /// Run what is applied in these member clusters
    #[arg(long, short = 'C', value_name = "NAMES", value_delimiter = ',')]
    cluster: Vec<String>,
    /// Let the server merge, by who owns which field
    #[arg(long)]
    server_side: bool,
    /// With --server-side, take fields that others own
    #[arg(long)]
    force_conflicts: bool,
    /// Who is recorded as the writer
    #[arg(long, value_name = "NAME")]
    field_manager: Option<String>,
    /// With --server-side, the subresource to apply to, such as status
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    subresource: String,
    /// Only objects that this selector matches
    #[arg(
        long,
        short = 'l',
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    /// What to do about fields that are unknown: strict, warn or ignore
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    validate: String,
    #[command(flatten)]
    prune: prune::Flags,
    // Compat: taken and without effect here: conflicts are merged by the server's own rules.
    #[arg(long, hide = true)]
    force: bool,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    overwrite: Option<Option<String>>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    openapi_patch: Option<Option<String>>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    wait: Option<Option<String>>,
    #[arg(long, hide = true)]
    timeout: Option<String>,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    if args.all_clusters && !args.cluster.is_empty() {
        return Err(Error::from("--all-clusters and --cluster cannot be used together"));
    }
    if !args.files.is_given() {
        return Err(Error::from("must specify one of -f and -k"));
    }
    if !args.subresource.is_empty() && !args.server_side {
        return Err(Error::from("--subresource can only be used with --server-side"));
    }
    args.prune.check(&args.selector)?;
    let server = ctx.karmada().await?;
    if !args.cluster.is_empty() {
        let known = cluster_names(&server).await?;
        if let Some(missing) = args.cluster.iter().find(|name| !known.contains(name)) {
            let hint = crate::suggest::did_you_mean(missing, known.iter().map(String::as_str));
            return Err(Error::Message(format!("cluster {missing} does not exist{hint}")));
        }
    }
    let selection = Selection { files: args.files.clone(), ..Selection::default() };
    let selector = karmada_apimachinery::selector::LabelSelector::parse(&args.selector)
        .map_err(|error| error.to_string())?;
    let mut errors = Vec::new();
    let mut applied = prune::Applied::default();
    for subject in selection.subjects(ctx, &server).await? {
        if !subject.object.as_ref().is_some_and(|object| selector.matches_object(object)) {
            continue;
        }
        errors.extend(apply_with_policy(&server, &subject, &args, &mut applied).await.err());
    }
    // What failed to be applied might look left over.
    Error::combine(errors)?;
    if args.prune.is_on() {
        args.prune.run(&server, &applied, &args.selector, args.dry_run.dry_run).await?;
    }
    Ok(())
}

async fn apply_with_policy(
    server: &Server,
    subject: &Subject,
    args: &Args,
    applied: &mut prune::Applied,
) -> Result<()> {
    applied.uids.insert(one(server, subject, args).await?);
    if !subject.namespace.is_empty() {
        applied.namespaces.insert(subject.namespace.clone());
    }
    if !args.all_clusters && args.cluster.is_empty() {
        return Ok(());
    }
    let object = subject.object.clone().unwrap_or_default();
    let policy = policy_for(&object, &subject.namespace, &args.cluster);
    let resource = server.resources.of_kind(&policy.gvk()).await?;
    let policy = Subject {
        namespace: policy.namespace().to_owned(),
        name: policy.name().to_owned(),
        resource,
        object: Some(policy),
        source: subject.source.clone(),
    };
    applied.uids.insert(one(server, &policy, args).await?);
    Ok(())
}

/// A policy that places one object in the named clusters, or in all.
pub(crate) fn policy_for(object: &Value, namespace: &str, clusters: &[String]) -> Value {
    let gvk = object.gvk();
    let name = names::policy(
        namespace,
        object.name(),
        &format!("{}, Kind={}", gvk.api_version(), gvk.kind),
    );
    let affinity = if clusters.is_empty() { json!({}) } else { json!({"clusterNames": clusters}) };
    let kind = if namespace.is_empty() { "ClusterPropagationPolicy" } else { "PropagationPolicy" };
    let mut policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"apiVersion": gvk.api_version(), "kind": gvk.kind, "name": object.name()}],
            "placement": {"clusterAffinity": affinity},
        },
    });
    if !namespace.is_empty() {
        policy.set(&["metadata", "namespace"], namespace);
        policy["spec"]["resourceSelectors"][0]["namespace"] = namespace.into();
    }
    policy
}

/// Applies one object; returns its uid.
async fn one(server: &Server, subject: &Subject, args: &Args) -> Result<String> {
    let (object, verb) = if args.server_side {
        (server_side(server, subject, args).await?, "serverside-applied")
    } else {
        client_side(server, subject, args).await?
    };
    match args.print.format()? {
        Some(format) => output::print(&output::render(&format, &args.print, &object)?),
        None => output::print(&format!(
            "{} {verb}{}\n",
            subject.line_name(),
            args.dry_run.dry_run.suffix()
        )),
    }?;
    Ok(object.uid().to_owned())
}

async fn server_side(server: &Server, subject: &Subject, args: &Args) -> Result<Value> {
    let options = PatchOptions {
        field_manager: args.field_manager.clone().unwrap_or_else(|| "kubectl".to_owned()),
        force: args.force_conflicts,
        dry_run: args.dry_run.dry_run == DryRun::Server,
        field_validation: validation(&args.validate)?,
    };
    let object = subject.object.clone().unwrap_or_default();
    let api = subject.api(server);
    let patch = Patch::Apply(object);
    let answer = api.patch_subresource(&subject.name, &args.subresource, &patch, &options).await;
    answer.map_err(|source| {
        let is_conflict = source.is_conflict();
        let text = crate::error::describe(&source);
        if is_conflict {
            return Error::Message(format!(
                "Apply failed with {text}\nPlease review the fields above--they currently have other managers. Use \
                 --force-conflicts to take them."
            ));
        }
        Error::Request { attempt: subject.attempt("applying patch to"), source }
    })
}

async fn client_side(
    server: &Server,
    subject: &Subject,
    args: &Args,
) -> Result<(Value, &'static str)> {
    let manager =
        args.field_manager.clone().unwrap_or_else(|| "kubectl-client-side-apply".to_owned());
    let dry_run = args.dry_run.dry_run;
    let modified = remembering(subject.object.clone().unwrap_or_default());
    for _ in 0..TRIES {
        let live = subject.api(server).find(&subject.name).await;
        let Some(live) =
            live.attempting(|| subject.attempt("retrieving current configuration of"))?
        else {
            if dry_run == DryRun::Client {
                return Ok((modified, "created"));
            }
            let options = WriteOptions {
                field_manager: manager,
                server_dry_run: dry_run == DryRun::Server,
                validation: validation(&args.validate)?,
            };
            let created = Subject { object: Some(modified), ..subject.clone() };
            return Ok((create(server, &created, &options).await?, "created"));
        };
        let last = live.annotation(LAST_APPLIED).and_then(|text| serde_json::from_str(text).ok());
        let last: Value = last.unwrap_or_else(|| json!({}));
        let gvk = live.gvk();
        let schema = karmada_kinds::schema::of(&gvk.group, &gvk.version, &gvk.kind);
        let wanted = three_way::merge(&last, &modified, &live, schema);
        if wanted == live {
            return Ok((live, "unchanged"));
        }
        if dry_run == DryRun::Client {
            return Ok((wanted, "configured"));
        }
        let empty = karmada_apimachinery::Map::new();
        let diff = karmada_apimachinery::patch::merge::diff(
            live.as_object().unwrap_or(&empty),
            wanted.as_object().unwrap_or(&empty),
        );
        let mut patch = Value::Object(diff);
        // Lists are sent whole, so nothing may have changed since they were read.
        patch.set(&["metadata", "resourceVersion"], live.resource_version());
        let options = PatchOptions {
            field_manager: manager.clone(),
            force: false,
            dry_run: dry_run == DryRun::Server,
            field_validation: validation(&args.validate)?,
        };
        match subject.api(server).patch(&subject.name, &Patch::Merge(patch), &options).await {
            Ok(object) => return Ok((object, "configured")),
            Err(error) if error.is_conflict() => {}
            Err(source) => {
                return Err(Error::Request {
                    attempt: subject.attempt("applying patch to"),
                    source,
                });
            }
        }
    }
    Err(Error::Message(format!("{} changes too fast to be applied to", subject.line_name())))
}

/// The object with its own text in the annotation of what was applied last.
fn remembering(mut object: Value) -> Value {
    object.remove_at(&["metadata", "annotations", LAST_APPLIED]);
    object.set_default(&["metadata", "annotations"], json!({}));
    let text = format!("{object}\n");
    object.set(&["metadata", "annotations", LAST_APPLIED], text);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_policies_have_the_names_and_form_of_the_original() {
        let deployment =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "nginx"}});
        let policy = policy_for(&deployment, "default", &["m1".to_owned()]);
        assert_eq!(policy.name(), "nginx-6d7f8d5f5b");
        assert_eq!(policy["spec"]["resourceSelectors"][0]["namespace"], "default");
        assert_eq!(policy["spec"]["placement"]["clusterAffinity"]["clusterNames"], json!(["m1"]));
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a:b"}});
        let policy = policy_for(&role, "", &[]);
        assert_eq!(policy.kind(), "ClusterPropagationPolicy");
        assert!(policy.name().starts_with("a.b-"));
        assert_eq!(policy["spec"]["placement"], json!({"clusterAffinity": {}}));
    }
}
