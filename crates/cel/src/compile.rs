//! From text to something that runs.

use std::collections::BTreeMap;

use crate::ast::Expr;
use crate::eval::{Bindings, Budget, Error, evaluate};
use crate::source::render;
use crate::types::Type;
use crate::value::Value;
use crate::{check, parser};

/// The variables an expression may name.
pub type Declarations = BTreeMap<String, Type>;

/// A checked expression.
#[derive(Debug, Clone)]
pub struct Program {
    expr: Expr,
    /// The type of the result.
    pub result: Type,
    /// What one run costs at most.
    pub max_cost: u64,
}

/// Parses and checks an expression; an error is the list of its problems as clients know it.
pub fn compile(source: &str, variables: &Declarations) -> Result<Program, String> {
    let expr = parser::parse(source)?;
    let checked = check::check(&expr, variables);
    if !checked.problems.is_empty() {
        return Err(render(source, &checked.problems));
    }
    Ok(Program { expr, result: checked.of, max_cost: checked.cost })
}

impl Program {
    pub fn mentions(&self, variable: &str) -> bool {
        self.expr.mentions(variable)
    }

    /// Evaluates under a budget that it draws from.
    pub fn run(&self, bindings: &dyn Bindings, budget: &mut Budget) -> Result<Value, Error> {
        evaluate(&self.expr, bindings, budget)
    }
}
