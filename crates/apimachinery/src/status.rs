//! The `Status` object every refused request is answered with: one constructor per case, with
//! Kubernetes' codes, reasons and wording.

use std::fmt;

use crate::{Map, Value, json};

use crate::field::{FieldError, join_errors, quote};
use crate::gvk::{GroupKind, GroupResource};

/// One entry of `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// What a failed request is about; empty fields stay off the wire.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    pub name: String,
    pub group: String,
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: u32,
}

/// A failed request, as it goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub code: u16,
    /// Empty where Kubernetes gives no reason.
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Box<Details>>,
    /// `metadata.continue` of an expired list.
    pub continue_token: Option<String>,
}

impl Status {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, continue_token: None }
    }

    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    fn about(self, resource: &GroupResource, name: &str) -> Self {
        self.with_details(Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..Details::default()
        })
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// `why` completes `pods "x" is forbidden: …`.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = if resource.resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quote(name))
        };
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {} not found", quote(name)))
            .about(resource, name)
    }

    /// The resource itself is not served.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with_details(Details::default())
    }

    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(Details::default())
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} {} already exists", quote(name)))
            .about(resource, name)
    }

    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// The version the writer read is no longer the stored one.
    pub fn stale(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn too_large(message: impl fmt::Display) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity is too large: {message}"))
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// The object breaks rules; there is one cause per error.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let message = format!("{kind} {} is invalid: {}", quote(name), join_errors(errors));
        let causes = errors
            .iter()
            .map(|error| Cause {
                reason: error.kind.code().to_owned(),
                message: error.body(),
                field: error.path.to_string(),
            })
            .collect();
        Self::new(422, "Invalid", message).with_details(Details {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes,
            ..Details::default()
        })
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", message)
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    pub fn internal(message: impl fmt::Display) -> Self {
        let cause = Cause { message: message.to_string(), ..Cause::default() };
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
            .with_details(Details { causes: vec![cause], ..Details::default() })
    }

    /// An error the server gives neither reason nor details for.
    pub fn unexplained(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    pub fn timeout(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(504, "Timeout", message)
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue", token.as_str().into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "code": self.code,
        });
        if !self.message.is_empty() {
            status["message"] = self.message.as_str().into();
        }
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_value();
        }
        status
    }
}

impl Details {
    pub fn to_value(&self) -> Value {
        let mut details = Map::new();
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                details.insert(key, text.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            let causes: Vec<Value> = self.causes.iter().map(Cause::to_value).collect();
            details.insert("causes", causes.into());
        }
        if self.retry_after_seconds > 0 {
            details.insert("retryAfterSeconds", self.retry_after_seconds.into());
        }
        Value::Object(details)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut cause = Map::new();
        for (key, text) in
            [("reason", &self.reason), ("message", &self.message), ("field", &self.field)]
        {
            if !text.is_empty() {
                cause.insert(key, text.as_str().into());
            }
        }
        Value::Object(cause)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Path;

    #[test]
    fn statuses_read_as_kubernetes_writes_them() {
        let deployments = GroupResource::new("apps", "deployments");
        let pods = GroupResource::new("", "pods");
        let kind = GroupKind { group: "apps".into(), kind: "Deployment".into() };
        let selector = Path::new("spec").child("selector");
        let cases = [
            (Status::not_found(&deployments, "x"), r#"deployments.apps "x" not found"#),
            (Status::already_exists(&pods, "x"), r#"pods "x" already exists"#),
            (Status::forbidden(&pods, "", "no"), "pods is forbidden: no"),
            (
                Status::invalid(&kind, "x", &[FieldError::required(&selector, "")]),
                r#"Deployment.apps "x" is invalid: spec.selector: Required value"#,
            ),
        ];
        for (status, message) in cases {
            assert_eq!(status.to_value()["message"], message);
        }
    }
}
