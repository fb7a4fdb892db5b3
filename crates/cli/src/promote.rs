//! `promote`: takes a workload that runs in a member under the care of the control plane, without restarting it.

use karmada_api::{annotations, names};
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};
use karmada_client::ApiResource;
use karmada_interpreter::{Gates, Interpreter, Operation, Source};

use crate::context::{Context, Server};
use crate::error::{Error, Result};
use crate::output;

pub(crate) const EXAMPLES: &str = "  # Take over a deployment that runs in member1
  karmadactl promote deployment nginx -n default -C member1

  # With the config maps and secrets it uses
  karmadactl promote deployment nginx -C member1 --dependencies

  # Only show what would be created
  karmadactl promote deployment nginx -C member1 --dry-run -o yaml
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// TYPE and NAME
    #[arg(value_name = "TYPE NAME")]
    what: Vec<String>,
    /// The member cluster
    #[arg(long, short = 'C', value_name = "NAME", default_value = "", hide_default_value = true)]
    cluster: String,
    /// Reach the member by this kubeconfig instead of through the control plane
    #[arg(long, value_name = "FILE")]
    cluster_kubeconfig: Option<std::path::PathBuf>,
    /// The context in it [default: the cluster's name, else the current one]
    #[arg(long, value_name = "NAME")]
    cluster_context: Option<String>,
    /// Make a policy that keeps the workload where it is
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", action = clap::ArgAction::Set)]
    auto_create_policy: bool,
    /// The name of that policy
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    policy_name: String,
    /// Take over what it depends on too
    #[arg(long, short)]
    dependencies: bool,
    /// Only say what would happen
    #[arg(long)]
    dry_run: bool,
    /// Print the objects and create nothing: json or yaml
    #[arg(long, short, value_name = "FORMAT", default_value = "", hide_default_value = true, value_parser = ["", "json", "yaml"])]
    output: String,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let [kind, name] = args.what.as_slice() else {
        return Err(Error::from("incorrect command format, please use correct command format"));
    };
    if args.cluster.is_empty() {
        return Err(Error::from("the cluster cannot be empty"));
    }
    let karmada = ctx.karmada().await?;
    let member = member(ctx, &karmada, &args).await?;
    let resource = member.resources.find(kind).await?;
    let namespace = if resource.namespaced { ctx.namespace().await? } else { String::new() };
    let api = member.client.api(&resource.gvr).namespaced(&namespace);
    let found = api.find(name).await?.ok_or_else(|| {
        format!(
            "failed to get resource in cluster({0}). err: the {kind} or {name} don't exist in cluster({0})",
            args.cluster
        )
    })?;
    if karmada.client.api(&resource.gvr).namespaced(&namespace).find(name).await?.is_some() {
        output::note(&format!(
            "warning: Resource \"{}\"({}) already exist in karmada control plane, you can edit PropagationPolicy and \
             OverridePolicy to propagate it",
            gvr_text(&resource),
            names::namespaced_key(&namespace, name)
        ));
        return Ok(());
    }
    let template = template(&found);
    let policy = policy(&template, &namespace, &args);
    if !args.output.is_empty() {
        return print_only(&args, &template, &policy);
    }
    promote(
        &karmada,
        &resource,
        &template,
        Some(&policy).filter(|_| args.auto_create_policy),
        &args,
    )
    .await?;
    if args.dependencies {
        dependencies(&karmada, &member, &found, &args).await?;
    }
    let key = names::namespaced_key(&namespace, name);
    output::print(&format!(
        "Resource \"{}\"({key}) is promoted successfully\n",
        gvr_text(&resource)
    ))
}

async fn member(ctx: &Context, karmada: &Server, args: &Args) -> Result<Server> {
    match &args.cluster_kubeconfig {
        None => ctx.member(karmada, &args.cluster).await,
        Some(path) => {
            Server::of_kubeconfig(path, args.cluster_context.as_deref(), &args.cluster).await
        }
    }
}

/// `apps/v1, Resource=deployments`.
fn gvr_text(resource: &ApiResource) -> String {
    format!("{}, Resource={}", resource.gvr.group_version(), resource.gvr.resource)
}

fn print_only(args: &Args, template: &Value, policy: &Value) -> Result<()> {
    let objects: Vec<&Value> =
        if args.auto_create_policy { vec![template, policy] } else { vec![template] };
    let texts: Vec<String> = objects
        .iter()
        .map(|object| match args.output.as_str() {
            "json" => output::json_text(object),
            _ => output::yaml_text(object),
        })
        .collect();
    let separator = if args.output == "yaml" { "---\n" } else { "" };
    output::print(&texts.join(separator))
}

/// The object as a template: without what a server or a controller put into it.
fn template(found: &Value) -> Value {
    let mut template = found.clone();
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
        "ownerReferences",
        "finalizers",
    ] {
        template.remove_at(&["metadata", field]);
    }
    template.remove_at(&["status"]);
    template.remove_at(&["metadata", "annotations", "deployment.kubernetes.io/revision"]);
    match found.kind() {
        "Service" => {
            for field in ["clusterIP", "clusterIPs"] {
                if template.str_at(&["spec", "clusterIP"]) != Some("None") || field == "clusterIPs"
                {
                    template.remove_at(&["spec", field]);
                }
            }
        }
        "ServiceAccount" => drop(template.remove_at(&["secrets"])),
        "Job" => {
            template.remove_at(&["spec", "selector"]);
            for label in [
                "controller-uid",
                "batch.kubernetes.io/controller-uid",
                "job-name",
                "batch.kubernetes.io/job-name",
            ] {
                template.remove_at(&["spec", "template", "metadata", "labels", label]);
                template.remove_at(&["metadata", "labels", label]);
            }
        }
        _ => {}
    }
    // The member has it already: the control plane takes it over instead of stopping at it.
    template.set(&["metadata", "annotations", annotations::CONFLICT_RESOLUTION], "overwrite");
    template
}

fn policy(template: &Value, namespace: &str, args: &Args) -> Value {
    let mut policy =
        crate::apply::policy_for(template, namespace, std::slice::from_ref(&args.cluster));
    policy["spec"]["conflictResolution"] = "Overwrite".into();
    policy["spec"]["preserveResourcesOnDeletion"] = true.into();
    policy["spec"]["propagateDeps"] = args.dependencies.into();
    if !args.policy_name.is_empty() {
        policy["metadata"]["name"] = args.policy_name.as_str().into();
    }
    policy
}

/// Creates the template and its policy; a policy that cannot be made takes the template back.
async fn promote(
    karmada: &Server,
    resource: &ApiResource,
    template: &Value,
    policy: Option<&Value>,
    args: &Args,
) -> Result<()> {
    let key = names::namespaced_key(template.namespace(), template.name());
    let templates = karmada.client.api(&resource.gvr).namespaced(template.namespace());
    if !args.dry_run {
        if !template.namespace().is_empty() {
            ensure_namespace(karmada, template.namespace()).await?;
        }
        templates.create(template).await?;
    }
    output::print(&format!("ResourceTemplate ({key}) is created successfully\n"))?;
    let Some(policy) = policy else { return Ok(()) };
    let kind = karmada.resources.of_kind(&policy.gvk()).await?;
    let policies = karmada.client.api(&kind.gvr).namespaced(policy.namespace());
    if !args.dry_run {
        let made = match policies.find(policy.name()).await? {
            Some(_) => Ok(()),
            None => policies.create(policy).await.map(drop),
        };
        if let Err(error) = made {
            templates.delete(template.name(), &Default::default()).await?;
            return Err(error.into());
        }
    }
    let key = names::namespaced_key(policy.namespace(), policy.name());
    let shown = if policy.namespace().is_empty() { key } else { format!("({key})") };
    output::print(&format!("{} {shown} is created successfully\n", policy.kind()))
}

/// A template needs its namespace in the control plane too.
async fn ensure_namespace(karmada: &Server, name: &str) -> Result<()> {
    let api = karmada.client.api(&karmada_apimachinery::gvk::Gvr::new("", "v1", "namespaces"));
    if api.find(name).await?.is_none() {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match api.create(&namespace).await {
            Err(error) if !error.is_already_exists() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

async fn dependencies(karmada: &Server, member: &Server, found: &Value, args: &Args) -> Result<()> {
    let interpreter = Interpreter::new(Gates::default(), std::sync::Arc::new(jiff::Timestamp::now));
    let operation = Operation::InterpretDependency;
    let Some(source) = interpreter.source(&found.gvk(), operation) else { return Ok(()) };
    output::print(match source {
        Source::Declarative => "use configurable interpreter\n",
        Source::Webhook => "use customized interpreter\n",
        Source::ThirdParty => "use third-party interpreter\n",
        Source::Native => "use default interpreter\n",
    })?;
    let references = interpreter.interpret_dependency(found).map_err(|error| error.to_string())?;
    for reference in references {
        let reference =
            karmada_apimachinery::to_value(&reference).map_err(|error| error.to_string())?;
        let (namespace, name) = (
            reference.str_at(&["namespace"]).unwrap_or_default().to_owned(),
            reference.str_at(&["name"]).unwrap_or_default().to_owned(),
        );
        if name.is_empty() {
            continue;
        }
        let resource = member.resources.of_kind(&reference.gvk()).await?;
        let api = member.client.api(&resource.gvr).namespaced(&namespace);
        let Some(dependency) = api.find(&name).await? else { continue };
        let there = karmada.client.api(&resource.gvr).namespaced(&namespace);
        if there.find(&name).await?.is_none() && !args.dry_run {
            ensure_namespace(karmada, &namespace).await?;
            there.create(&template(&dependency)).await?;
        }
        let key = names::namespaced_key(&namespace, &name);
        output::print(&format!(
            "Dependency resource \"{}\"({key}) is promoted successfully\n",
            gvr_text(&resource)
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_lose_what_servers_put_in() {
        let found = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "legacy", "namespace": "default", "uid": "1", "resourceVersion": "2", "generation": 1,
                "creationTimestamp": "x", "managedFields": [], "labels": {"app": "legacy"},
                "annotations": {"deployment.kubernetes.io/revision": "1"}},
            "spec": {"replicas": 1}, "status": {"replicas": 1},
        });
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "legacy", "namespace": "default", "labels": {"app": "legacy"},
                "annotations": {"work.karmada.io/conflict-resolution": "overwrite"}},
            "spec": {"replicas": 1},
        });
        assert_eq!(template(&found), expected);
    }
}
