//! What people type for a kind of object, and which resource of a server that is.

use karmada_apimachinery::gvk::Gvk;
use karmada_client::{ApiResource, Client, Discovery};

use crate::error::{Error, Result};
use crate::suggest::did_you_mean;

/// The resources of one server, found by any of their names.
#[derive(Clone)]
pub(crate) struct Resources {
    discovery: Discovery,
}

/// One kind of object to look at, and which of them: all, or those named.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) resource: ApiResource,
    pub(crate) names: Vec<String>,
}

/// A kind as typed, and the names of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Typed {
    pub(crate) kind: String,
    pub(crate) names: Vec<String>,
}

impl Resources {
    pub(crate) fn new(client: Client) -> Self {
        Self { discovery: Discovery::new(client) }
    }

    /// Every resource in every version, the preferred version of each group first.
    pub(crate) async fn all(&self) -> Result<Vec<ApiResource>> {
        Ok(self.discovery.resources().await?)
    }

    /// Every resource once, in the version its group prefers.
    pub(crate) async fn preferred(&self) -> Result<Vec<ApiResource>> {
        Ok(self.discovery.preferred().await?.0)
    }

    pub(crate) async fn find(&self, typed: &str) -> Result<ApiResource> {
        let resources = self.all().await?;
        if let Some(found) = find(&resources, typed) {
            return Ok(found.clone());
        }
        let names = resources.iter().flat_map(|resource| {
            let short = resource.short_names.iter().map(String::as_str);
            [resource.gvr.resource.as_str(), resource.singular.as_str()].into_iter().chain(short)
        });
        let hint = did_you_mean(&typed.to_lowercase(), names);
        Err(Error::Message(format!("the server doesn't have a resource type \"{typed}\"{hint}")))
    }

    /// The resource of an object read from a file.
    pub(crate) async fn of_kind(&self, gvk: &Gvk) -> Result<ApiResource> {
        if let Some(found) = self.discovery.resource_of(gvk).await? {
            return Ok(found);
        }
        let known = self.all().await.unwrap_or_default();
        let alike = known.iter().filter(|own| own.gvr.group == gvk.group);
        let hint = did_you_mean(&gvk.kind, alike.map(|own| own.kind.as_str()));
        Err(Error::Message(format!(
            "resource mapping not found: no matches for kind \"{}\" in version \"{}\"{hint}\n\
             ensure CRDs are installed first",
            gvk.kind,
            gvk.api_version()
        )))
    }

    /// Resolves `TYPE[,TYPE…] [NAME…]` and `TYPE/NAME…`; categories such as `all` stand for their members.
    pub(crate) async fn resolve(&self, arguments: &[String]) -> Result<Vec<Wanted>> {
        let mut wanted = Vec::new();
        for Typed { kind, names } in parse(arguments)? {
            let category = self.category(&kind).await?;
            if names.is_empty() && !category.is_empty() {
                wanted.extend(
                    category.into_iter().map(|resource| Wanted { resource, names: Vec::new() }),
                );
                continue;
            }
            wanted.push(Wanted { resource: self.find(&kind).await?, names });
        }
        Ok(wanted)
    }

    async fn category(&self, name: &str) -> Result<Vec<ApiResource>> {
        let mut resources = self.preferred().await?;
        resources.retain(|r| r.categories.iter().any(|one| one == name) && r.supports("list"));
        Ok(resources)
    }
}

/// Splits the arguments into kinds and names, without asking a server.
pub(crate) fn parse(arguments: &[String]) -> Result<Vec<Typed>> {
    let mixed = "there is no need to specify a resource type as a separate argument when passing arguments in \
                 resource/name form";
    let Some(first) = arguments.first() else { return Ok(Vec::new()) };
    if first.contains('/') {
        let mut typed: Vec<Typed> = Vec::new();
        for argument in arguments {
            let (kind, name) = argument.split_once('/').ok_or(mixed)?;
            if kind.is_empty() || name.is_empty() || name.contains('/') {
                return Err(Error::Message(format!(
                    "arguments in resource/name form must have a single resource and name, not {argument:?}"
                )));
            }
            match typed.iter_mut().find(|typed| typed.kind == kind) {
                Some(typed) => typed.names.push(name.to_owned()),
                None => typed.push(Typed { kind: kind.to_owned(), names: vec![name.to_owned()] }),
            }
        }
        return Ok(typed);
    }
    let names = &arguments[1..];
    if names.iter().any(|name| name.contains('/')) {
        return Err(Error::from(mixed));
    }
    let kinds = first.split(',').filter(|kind| !kind.is_empty());
    Ok(kinds.map(|kind| Typed { kind: kind.to_owned(), names: names.to_vec() }).collect())
}

/// Finds a resource by plural, singular, kind or short name, alone or as `name.group` or `name.version.group`.
pub(crate) fn find<'a>(resources: &'a [ApiResource], typed: &str) -> Option<&'a ApiResource> {
    let typed = typed.to_lowercase();
    let whole = |resource: &&ApiResource| goes_by(resource, &typed);
    if let Some(found) =
        resources.iter().find(|r| r.gvr.resource == typed).or_else(|| resources.iter().find(whole))
    {
        return Some(found);
    }
    let (name, rest) = typed.split_once('.')?;
    let in_version = rest.split_once('.').and_then(|(version, group)| {
        resources
            .iter()
            .find(|r| goes_by(r, name) && r.gvr.version == version && r.gvr.group == group)
    });
    in_version
        .or_else(|| resources.iter().find(|r| goes_by(r, name) && r.gvr.group == rest))
        // Compat: `deployments.v1.` and `pods.v1` name a version of the nameless group.
        .or_else(|| {
            let version = rest.trim_end_matches('.');
            resources
                .iter()
                .find(|r| goes_by(r, name) && r.gvr.group.is_empty() && r.gvr.version == version)
        })
        // Compat: the beginning of a group is enough.
        .or_else(|| resources.iter().find(|r| goes_by(r, name) && r.gvr.group.starts_with(rest)))
}

fn goes_by(resource: &ApiResource, name: &str) -> bool {
    resource.gvr.resource == name
        || resource.singular == name
        || resource.kind.eq_ignore_ascii_case(name)
        || resource.short_names.iter().any(|short| short == name)
}

/// `deployment.apps`: how lines about an object begin.
pub(crate) fn kind_and_group(resource: &ApiResource) -> String {
    let kind = resource.kind.to_lowercase();
    match resource.gvr.group.as_str() {
        "" => kind,
        group => format!("{kind}.{group}"),
    }
}

/// `deployment.apps/nginx`.
pub(crate) fn line_name(resource: &ApiResource, name: &str) -> String {
    format!("{}/{name}", kind_and_group(resource))
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::gvk::Gvr;

    fn resource(
        group: &str,
        version: &str,
        plural: &str,
        kind: &str,
        short: &[&str],
    ) -> ApiResource {
        ApiResource {
            gvr: Gvr::new(group, version, plural),
            kind: kind.to_owned(),
            singular: kind.to_lowercase(),
            short_names: short.iter().map(|&s| s.to_owned()).collect(),
            ..ApiResource::default()
        }
    }

    #[test]
    fn resources_go_by_all_their_names() {
        let known = [
            resource("", "v1", "pods", "Pod", &["po"]),
            resource("apps", "v1", "deployments", "Deployment", &["deploy"]),
            resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding", &["rb"]),
            resource("work.karmada.io", "v1alpha1", "resourcebindings", "ResourceBinding", &["rb"]),
            resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", &[]),
        ];
        for (typed, expected) in [
            ("po", Some(0)),
            ("Pod", Some(0)),
            ("pods.v1", Some(0)),
            ("deploy", Some(1)),
            ("deployment.apps", Some(1)),
            ("deployments.v1.apps", Some(1)),
            ("rb", Some(2)),
            ("rb.v1alpha1.work.karmada.io", Some(3)),
            ("rb.work", Some(2)),
            ("pods.metrics.k8s.io", Some(4)),
            ("podmetrics", Some(4)),
            ("nosuch", None),
            ("nosuch.apps", None),
        ] {
            assert_eq!(find(&known, typed), expected.map(|place: usize| &known[place]), "{typed}");
        }
    }

    #[test]
    fn arguments_split_into_kinds_and_names() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let typed = |kind: &str, names: &str| Typed { kind: kind.to_owned(), names: words(names) };
        assert_eq!(
            parse(&words("deploy,pods a b")).unwrap(),
            [typed("deploy", "a b"), typed("pods", "a b")]
        );
        assert_eq!(
            parse(&words("deploy/a pods/b deploy/c")).unwrap(),
            [typed("deploy", "a c"), typed("pods", "b")]
        );
        assert!(parse(&words("deploy pods/a")).is_err());
        assert!(parse(&words("deploy/a pods")).is_err());
        assert!(parse(&words("deploy/")).is_err());
    }
}
