//! Expressions after parsing. Macros are nodes of their own, so that they can be checked, costed and
//! evaluated as what they mean.

use crate::value::Value;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expr {
    /// Where it stands, as a count of characters; problems are reported here.
    pub(crate) at: usize,
    pub(crate) node: Node,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Literal(Value),
    Ident(String),
    Select {
        of: Box<Expr>,
        field: String,
        optional: bool,
    },
    /// `has(a.b)`.
    Has {
        of: Box<Expr>,
        field: String,
    },
    Index {
        of: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    Call {
        target: Option<Box<Expr>>,
        name: String,
        args: Vec<Expr>,
    },
    /// Elements, each with whether it is an optional to be unwrapped.
    List(Vec<(Expr, bool)>),
    Map(Vec<(Expr, Expr, bool)>),
    Struct {
        name: String,
        fields: Vec<(String, Expr, bool)>,
    },
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Cond(Box<Expr>, Box<Expr>, Box<Expr>),
    Fold(Box<Fold>),
    /// `cel.bind(name, value, body)`.
    Bind {
        name: String,
        value: Box<Expr>,
        body: Box<Expr>,
    },
    /// `optMap` and, if `flat`, `optFlatMap`.
    OptMap {
        of: Box<Expr>,
        name: String,
        body: Box<Expr>,
        flat: bool,
    },
    /// Stands where nothing could be read.
    Broken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
}

/// A macro over the elements of a list or map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fold {
    pub(crate) kind: FoldKind,
    pub(crate) range: Expr,
    pub(crate) first: String,
    /// The second variable of the macros that have two.
    pub(crate) second: Option<String>,
    pub(crate) filter: Option<Expr>,
    pub(crate) body: Expr,
}

impl Expr {
    pub(crate) fn new(at: usize, node: Node) -> Self {
        Self { at, node }
    }

    /// Whether a variable is used anywhere inside.
    pub(crate) fn mentions(&self, wanted: &str) -> bool {
        let any = |list: &[&Expr]| list.iter().any(|part| part.mentions(wanted));
        match &self.node {
            Node::Literal(_) | Node::Broken => false,
            Node::Ident(name) => name == wanted,
            Node::Select { of, .. } | Node::Has { of, .. } => of.mentions(wanted),
            Node::Index { of, index, .. } => any(&[of, index]),
            Node::Call { target, args, .. } => {
                target.as_ref().is_some_and(|target| target.mentions(wanted))
                    || args.iter().any(|arg| arg.mentions(wanted))
            }
            Node::List(items) => items.iter().any(|(item, _)| item.mentions(wanted)),
            Node::Map(entries) => entries.iter().any(|(key, value, _)| any(&[key, value])),
            Node::Struct { fields, .. } => {
                fields.iter().any(|(_, value, _)| value.mentions(wanted))
            }
            Node::And(a, b) | Node::Or(a, b) => any(&[a, b]),
            Node::Cond(a, b, c) => any(&[a, b, c]),
            Node::Fold(fold) => {
                any(&[&fold.range, &fold.body])
                    || fold.filter.as_ref().is_some_and(|filter| filter.mentions(wanted))
            }
            Node::Bind { value, body, .. } => any(&[value, body]),
            Node::OptMap { of, body, .. } => any(&[of, body]),
        }
    }
}
