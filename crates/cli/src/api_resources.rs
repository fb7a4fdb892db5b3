//! `api-resources`: what a server serves, by group.

use karmada_apimachinery::{Value, json};
use karmada_client::ApiResource;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::scope::OneServer;
use crate::{columns, output};

pub(crate) const EXAMPLES: &str = "  # Print the resources of the control plane
  karmadactl api-resources

  # Print Karmada's policies
  karmadactl api-resources --api-group=policy.karmada.io

  # Print what a member serves
  karmadactl api-resources --operation-scope members --cluster member1 -o name
";

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: OneServer,
    /// Output format: wide, name, json or yaml
    #[arg(long, short, value_name = "FORMAT", default_value = "", hide_default_value = true,
        value_parser = ["", "wide", "name", "json", "yaml"])]
    output: String,
    /// Print no headers
    #[arg(long)]
    no_headers: bool,
    /// Only resources of this group
    #[arg(long, value_name = "GROUP")]
    api_group: Option<String>,
    /// Only namespaced resources, or with =false only those that are not
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    namespaced: Option<bool>,
    /// Only resources with all these verbs
    #[arg(long, value_name = "VERBS", value_delimiter = ',')]
    verbs: Vec<String>,
    /// Only resources of all these categories
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    categories: Vec<String>,
    /// Sort by name or kind
    #[arg(long, value_name = "FIELD", value_parser = ["name", "kind"])]
    sort_by: Option<String>,
    /// Taken for compatibility; nothing is cached
    #[arg(long, hide = true)]
    cached: bool,
    /// Taken for compatibility
    #[arg(long, hide = true)]
    show_managed_fields: bool,
}

pub(crate) async fn run(ctx: &Context, args: Args) -> Result<()> {
    let server = args.server.server(ctx).await?;
    let resources = select(server.resources.preferred().await?, &args);
    output::print(&render(&resources, &args)?)
}

fn select(mut resources: Vec<ApiResource>, args: &Args) -> Vec<ApiResource> {
    resources.retain(|resource| {
        let has = |verb: &String| resource.verbs.contains(verb);
        let is_in = |category: &String| resource.categories.contains(category);
        !resource.verbs.is_empty()
            && args.api_group.as_ref().is_none_or(|group| *group == resource.gvr.group)
            && args.namespaced.is_none_or(|namespaced| namespaced == resource.namespaced)
            && args.verbs.iter().all(has)
            && args.categories.iter().all(is_in)
    });
    match args.sort_by.as_deref() {
        Some("name") => resources.sort_by(|a, b| a.gvr.resource.cmp(&b.gvr.resource)),
        Some("kind") => resources.sort_by(|a, b| a.kind.cmp(&b.kind)),
        _ => resources
            .sort_by(|a, b| (&a.gvr.group, &a.gvr.resource).cmp(&(&b.gvr.group, &b.gvr.resource))),
    }
    resources
}

fn render(resources: &[ApiResource], args: &Args) -> Result<String> {
    let wide = args.output == "wide";
    match args.output.as_str() {
        "name" => return Ok(resources.iter().map(|r| format!("{}\n", full_name(r))).collect()),
        "json" => return Ok(output::json_text(&document(resources))),
        "yaml" => return Ok(output::yaml_text(&document(resources))),
        "" | "wide" => {}
        other => return Err(Error::Message(format!("--output {other} is not available"))),
    }
    let mut lines = Vec::new();
    if !args.no_headers {
        let headers =
            ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND", "VERBS", "CATEGORIES"];
        lines.push(headers.iter().take(if wide { 7 } else { 5 }).map(|&h| h.to_owned()).collect());
    }
    for resource in resources {
        let mut line = vec![
            resource.gvr.resource.clone(),
            resource.short_names.join(","),
            resource.gvr.group_version().to_string(),
            resource.namespaced.to_string(),
            resource.kind.clone(),
        ];
        if wide {
            line.push(resource.verbs.join(","));
            line.push(resource.categories.join(","));
        }
        lines.push(line);
    }
    Ok(columns::lay_out(&lines))
}

fn full_name(resource: &ApiResource) -> String {
    match resource.gvr.group.as_str() {
        "" => resource.gvr.resource.clone(),
        group => format!("{}.{group}", resource.gvr.resource),
    }
}

fn document(resources: &[ApiResource]) -> Value {
    let entry = |resource: &ApiResource| {
        json!({
            "name": resource.gvr.resource, "singularName": resource.singular, "namespaced": resource.namespaced,
            "group": resource.gvr.group, "version": resource.gvr.version, "kind": resource.kind,
            "verbs": resource.verbs, "shortNames": resource.short_names, "categories": resource.categories,
        })
    };
    json!({
        "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": "",
        "resources": resources.iter().map(entry).collect::<Vec<_>>(),
    })
}
