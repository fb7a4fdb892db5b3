//! The variables that expressions of admission may use: those of policies and of match conditions.

use karmada_cel::{Declarations, Program, Type, compile};

/// Which variables there are beside those every expression has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Available {
    /// The policy names a kind for its parameters.
    pub params: bool,
    /// The namespace of the object is known: policies, not webhooks.
    pub namespace: bool,
}

/// The variables of an expression; `computed` are the policy's own, in order, where it may use them.
pub fn declarations(available: Available, computed: Option<&[(String, Type)]>) -> Declarations {
    let mut known = Declarations::from([
        ("object".to_owned(), Type::Dyn),
        ("oldObject".to_owned(), Type::Dyn),
        ("request".to_owned(), request()),
    ]);
    if available.namespace {
        known.insert("namespaceObject".to_owned(), Type::Dyn);
    }
    if available.params {
        known.insert("params".to_owned(), Type::Dyn);
    }
    if let Some(computed) = computed {
        let mut variables = karmada_cel::ObjectType {
            name: "kubernetes.variables".to_owned(),
            ..Default::default()
        };
        variables.fields.extend(computed.iter().cloned());
        known.insert("variables".to_owned(), Type::Object(variables.into()));
    }
    known
}

/// What is known of a request.
fn request() -> Type {
    let text = Type::string;
    let kind = || {
        let fields = [("group", text()), ("version", text()), ("kind", text())];
        Type::object("kubernetes.GroupVersionKind", fields)
    };
    let resource = || {
        let fields = [("group", text()), ("version", text()), ("resource", text())];
        Type::object("kubernetes.GroupVersionResource", fields)
    };
    let user = Type::object(
        "kubernetes.UserInfo",
        [
            ("username", text()),
            ("uid", text()),
            ("groups", Type::list(text())),
            ("extra", Type::map(text(), Type::list(text()))),
        ],
    );
    Type::object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

/// What an expression must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    Bool,
    Text,
    /// Text, or nothing.
    TextOrNull,
    Anything,
}

/// Compiles an expression; an error is the text that refuses it.
pub fn compile_as(source: &str, known: &Declarations, gives: Gives) -> Result<Program, String> {
    let program =
        compile(source.trim(), known).map_err(|why| format!("compilation failed: {why}"))?;
    let fits = match gives {
        Gives::Bool => matches!(program.result, Type::Bool | Type::Dyn),
        Gives::Text => matches!(program.result, Type::String(_) | Type::Dyn),
        Gives::TextOrNull => matches!(program.result, Type::String(_) | Type::Null | Type::Dyn),
        Gives::Anything => true,
    };
    if fits {
        return Ok(program);
    }
    let wanted = match gives {
        Gives::Bool => "bool",
        Gives::TextOrNull => "string or null_type",
        _ => "string",
    };
    Err(format!("must evaluate to {wanted} but got {}", program.result))
}
