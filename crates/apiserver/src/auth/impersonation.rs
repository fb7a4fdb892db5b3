//! Acting as somebody else: reading the Impersonate headers and checking every part of the wish, first by
//! the constrained modes (`impersonate-on:<mode>:<verb>` and `impersonate:<mode>`), then the plain verb.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use karmada_apimachinery::field::quote;
use karmada_apimachinery::status::Status;

use super::authenticate::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, decode_key};
use super::authorize::{check, forbidden};
use super::rbac::MASTERS;
use super::{Attributes, Authorizer, Identity, service_account};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// From this many checks on, one check for everything is tried first.
const MANY: usize = 4;

/// Returns whom the request wants to act as after checking that its sender (the user of `request`) may;
/// nothing when no impersonation is asked for.
pub fn impersonate(
    headers: &HeaderMap,
    request: &Attributes,
    authorizer: &dyn Authorizer,
) -> Result<Option<Identity>, Status> {
    let Some(wanted) = wanted_user(headers)? else { return Ok(None) };
    let mut first_refusal = None;
    for mode in Mode::ALL.into_iter().filter(|mode| mode.applies(&wanted, &request.user)) {
        match mode.check(&wanted, request, authorizer) {
            Ok(identity) => return Ok(Some(identity)),
            Err(refusal) => {
                first_refusal.get_or_insert(refusal);
            }
        }
    }
    Err(first_refusal.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
}

/// Removes the headers, so that nothing later can act on them again.
pub fn strip_headers(headers: &mut HeaderMap) {
    let ours = |name: &str| name.starts_with("impersonate-");
    let names: Vec<_> = headers.keys().filter(|name| ours(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

fn wanted_user(headers: &HeaderMap) -> Result<Option<Identity>, Status> {
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let one = |name| headers.get(name).map(text).unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            extra.entry(decode_key(key)).or_default().push(text(value));
        }
    }
    let groups = headers.get_all(GROUP).iter().map(text).collect();
    let wanted = Identity { user: one(USER), uid: one(UID), groups, extra };
    if !wanted.user.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == Identity::default() {
        return Ok(None);
    }
    Err(Status::bad_request(format!(
        "requested uid {}, groups {}, extra keys {} without impersonating a user name",
        quote(&wanted.uid),
        super::rule::quote_list(&wanted.groups),
        super::rule::quote_list(&wanted.extra.keys().collect::<Vec<_>>()),
    )))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    /// The verb `impersonate`, as before there were modes.
    Legacy,
}

impl Mode {
    const ALL: [Self; 5] = [
        Self::AssociatedNode,
        Self::ArbitraryNode,
        Self::ServiceAccount,
        Self::UserInfo,
        Self::Legacy,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn verb(self) -> String {
        match self {
            Self::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.name()),
        }
    }

    fn applies(self, wanted: &Identity, sender: &Identity) -> bool {
        let node = service_account::node_name(&wanted.user);
        let account = service_account::split_user_name(&wanted.user);
        let only_name =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        match self {
            Self::AssociatedNode => {
                let own = sender.extra.get(service_account::NODE_NAME).map(Vec::as_slice);
                only_name
                    && service_account::split_user_name(&sender.user).is_some()
                    && node.is_some_and(|node| matches!(own, Some([own]) if own == node))
            }
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }

    fn check(
        self,
        wanted: &Identity,
        request: &Attributes,
        authorizer: &dyn Authorizer,
    ) -> Result<Identity, Status> {
        let sender = self.sender(&request.user);
        if self != Self::Legacy {
            let verb = format!("impersonate-on:{}:{}", self.name(), request.verb).into();
            check(authorizer, &Attributes { verb, user: sender.clone(), ..request.clone() })?;
        }
        let wish = Wish { mode: self, sender, authorizer };
        let mut identity = wanted.clone();
        if let Some(groups) = wish.check_name(wanted)? {
            identity.groups = groups;
        }
        wish.check_uid(&wanted.uid)?;
        wish.check_groups(&wanted.groups)?;
        wish.check_extra(&wanted.extra)?;
        add_common_group(&mut identity);
        Ok(identity)
    }

    /// The sender as authorizers see them; a node's own account shows only which extra keys it has, so
    /// that the answer is the same on every node.
    fn sender(self, user: &Arc<Identity>) -> Arc<Identity> {
        if self != Self::AssociatedNode {
            return user.clone();
        }
        let keys = user.extra.keys().cloned().collect();
        let key = "authentication.kubernetes.io/associated-node-keys".to_owned();
        Arc::new(Identity { extra: BTreeMap::from([(key, keys)]), ..(**user).clone() })
    }
}

/// The checks of one mode on the parts of the wanted identity.
struct Wish<'a> {
    mode: Mode,
    sender: Arc<Identity>,
    authorizer: &'a dyn Authorizer,
}

impl Wish<'_> {
    fn attributes(&self, resource: &str, name: &str) -> Attributes {
        let core = self.mode == Mode::Legacy && !matches!(resource, "uids" | "userextras");
        Attributes {
            user: self.sender.clone(),
            verb: self.mode.verb().into(),
            group: if core { "" } else { "authentication.k8s.io" }.into(),
            version: "v1".into(),
            resource: resource.into(),
            name: name.into(),
            is_resource: true,
            ..Attributes::default()
        }
    }

    fn check(&self, attributes: &Attributes) -> Result<(), Status> {
        check(self.authorizer, attributes)
    }

    /// Checks the user name; returns the groups the name alone implies.
    fn check_name(&self, wanted: &Identity) -> Result<Option<Vec<String>>, Status> {
        let mut attributes = self.attributes("users", &wanted.user);
        let mut groups = None;
        let node = service_account::node_name(&wanted.user).filter(|_| self.mode != Mode::Legacy);
        if let Some(node) = node {
            let any = self.mode == Mode::AssociatedNode;
            attributes.resource = "nodes".into();
            attributes.name = if any { "*" } else { node }.into();
            groups = Some(vec!["system:nodes".to_owned()]);
        }
        if let Some((namespace, name)) = service_account::split_user_name(&wanted.user) {
            attributes.resource = "serviceaccounts".into();
            attributes.namespace = namespace.into();
            attributes.name = name.into();
            if wanted.groups.is_empty() {
                groups = Some(service_account::groups(namespace));
            }
        }
        self.check(&attributes)?;
        Ok(groups)
    }

    fn check_uid(&self, uid: &str) -> Result<(), Status> {
        if uid.is_empty() { Ok(()) } else { self.check(&self.attributes("uids", uid)) }
    }

    fn check_groups(&self, groups: &[String]) -> Result<(), Status> {
        let constrained = self.mode != Mode::Legacy;
        for (group, shown, why) in [
            ("", "", "impersonating the empty string group is not allowed"),
            (MASTERS, MASTERS, "impersonating the system:masters group is not allowed"),
        ] {
            if constrained && groups.iter().any(|wanted| wanted == group) {
                return Err(forbidden(&self.attributes("groups", shown), why));
            }
        }
        if constrained
            && groups.len() >= MANY
            && self.check(&self.attributes("groups", "*")).is_ok()
        {
            return Ok(());
        }
        groups.iter().try_for_each(|group| self.check(&self.attributes("groups", group)))
    }

    fn check_extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Status> {
        let value = |key: &str, value: &str| Attributes {
            subresource: key.into(),
            ..self.attributes("userextras", value)
        };
        if self.mode != Mode::Legacy {
            if let Some(why) = extra.iter().find_map(|(key, values)| extra_problem(key, values)) {
                return Err(forbidden(&self.attributes("userextras", ""), &why));
            }
            let many = extra.len() >= MANY || extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if many && self.check(&value("*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for wanted in values {
                self.check(&value(key, wanted))?;
            }
        }
        Ok(())
    }
}

fn extra_problem(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".into());
    }
    let is_path = |path: &str| {
        !path.is_empty()
            && path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b))
    };
    let prefixed = key
        .split_once('/')
        .is_some_and(|(domain, path)| service_account::is_dns_subdomain(domain) && is_path(path));
    if !prefixed {
        return Some(format!(
            "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {}: must be a domain-prefixed path (such as \"acme.io/foo\")",
            quote(key)
        ));
    }
    if key.chars().any(char::is_uppercase) {
        return Some(format!(
            "impersonating a non-lowercase key in extra is not allowed: {}",
            quote(key)
        ));
    }
    values
        .iter()
        .any(String::is_empty)
        .then(|| "impersonating the empty string value in extra is not allowed".into())
}

fn add_common_group(identity: &mut Identity) {
    let common = if identity.user == ANONYMOUS {
        UNAUTHENTICATED
    } else if identity.is_in(UNAUTHENTICATED) {
        return;
    } else {
        AUTHENTICATED
    };
    if !identity.is_in(common) {
        identity.groups.push(common.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Decision;

    type Headers = &'static [(&'static str, &'static str)];

    /// Allows what is on its list of `verb resource[/subresource][ name]`.
    struct Allowing(Vec<&'static str>);

    impl Authorizer for Allowing {
        fn authorize(&self, attributes: &Attributes) -> Decision {
            let Attributes { verb, resource, subresource, name, .. } = attributes;
            let slash = if subresource.is_empty() { "" } else { "/" };
            let asked = format!("{verb} {resource}{slash}{subresource}");
            let named = format!("{asked} {name}");
            let allowed =
                self.0.iter().any(|rule| *rule == "all" || *rule == asked || *rule == named);
            if allowed { Decision::allow("") } else { Decision::no_opinion("") }
        }
    }

    fn ask(
        headers: &[(&'static str, &'static str)],
        rules: &[&'static str],
    ) -> Result<Option<Identity>, Status> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a header value"));
        }
        let request = Attributes {
            user: Identity::new("system:serviceaccount:n:robot", ["g"]).into(),
            verb: "list".into(),
            resource: "pods".into(),
            namespace: "n".into(),
            is_resource: true,
            ..Attributes::default()
        };
        impersonate(&map, &request, &Allowing(rules.to_vec()))
    }

    #[test]
    fn without_headers_nobody_is_impersonated() {
        assert_eq!(ask(&[], &[]), Ok(None));
        assert_eq!(
            ask(&[("impersonate-group", "devs")], &["all"]).expect_err("needs a user").code,
            400
        );
    }

    // Shows: AUTHN-6, AUTHN-7
    #[test]
    fn groups_follow_from_the_name_and_the_common_group_is_added() {
        let cases: [(Headers, &str, &[&str]); 6] = [
            (&[("impersonate-user", "ann")], "ann", &["system:authenticated"]),
            (
                &[
                    ("impersonate-user", "ann"),
                    ("impersonate-group", "a"),
                    ("impersonate-group", "b"),
                ],
                "ann",
                &["a", "b", "system:authenticated"],
            ),
            (
                &[("impersonate-user", "ann"), ("impersonate-group", "system:unauthenticated")],
                "ann",
                &["system:unauthenticated"],
            ),
            (
                &[("impersonate-user", "system:anonymous")],
                "system:anonymous",
                &["system:unauthenticated"],
            ),
            (
                &[("impersonate-user", "system:serviceaccount:n:x")],
                "system:serviceaccount:n:x",
                &["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"],
            ),
            (
                &[("impersonate-user", "x"), ("impersonate-group", "system:masters")],
                "x",
                &["system:masters", "system:authenticated"],
            ),
        ];
        for (headers, user, groups) in cases {
            let identity = ask(headers, &["all"]).expect("allowed").expect("asked for");
            assert_eq!(
                (identity.user.as_str(), identity.groups.as_slice()),
                (user, groups.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice())
            );
        }
    }

    // Shows: AUTHN-6
    #[test]
    fn refusals_name_the_first_missing_right() {
        let cases: [(Headers, &[&'static str], &str); 4] = [
            (
                &[("impersonate-user", "ann")],
                &[],
                r#"pods is forbidden: User "system:serviceaccount:n:robot" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "n""#,
            ),
            (
                &[("impersonate-user", "ann")],
                &["impersonate-on:user-info:list pods"],
                r#"users.authentication.k8s.io "ann" is forbidden: User "system:serviceaccount:n:robot" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#,
            ),
            (
                &[
                    ("impersonate-user", "system:serviceaccount:n:x"),
                    ("impersonate-group", "system:masters"),
                ],
                &[],
                r#"serviceaccounts "x" is forbidden: User "system:serviceaccount:n:robot" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "n""#,
            ),
            (
                &[("impersonate-user", "system:serviceaccount:n:x"), ("impersonate-uid", "7")],
                &["impersonate serviceaccounts"],
                r#"uids.authentication.k8s.io "7" is forbidden: User "system:serviceaccount:n:robot" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope"#,
            ),
        ];
        for (headers, rules, message) in cases {
            assert_eq!(ask(headers, rules).expect_err("refused").message, message);
        }
    }

    // Shows: AUTHN-6
    #[test]
    fn the_plain_verb_still_suffices_and_checks_every_part() {
        let headers = [
            ("impersonate-user", "ann"),
            ("impersonate-group", "a"),
            ("impersonate-extra-acme.com%2fscope", "s"),
        ];
        let rules = [
            "impersonate users ann",
            "impersonate groups a",
            "impersonate userextras/acme.com/scope s",
        ];
        let identity = ask(&headers, &rules).expect("allowed").expect("asked for");
        assert_eq!(identity.extra["acme.com/scope"], ["s"]);
        for left_out in 0..rules.len() {
            let fewer: Vec<_> =
                rules.iter().enumerate().filter(|(i, _)| *i != left_out).map(|(_, r)| *r).collect();
            assert_eq!(ask(&headers, &fewer).expect_err("refused").code, 403);
        }
    }
}
