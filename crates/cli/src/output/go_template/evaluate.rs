//! Runs a tree over a value.

use karmada_apimachinery::Value;

use super::parse::{Branch, Command, Node, Operand, Pipeline, Tree};
use super::{Error, Missing, functions};

/// How deep templates may call each other.
const DEEPEST: usize = 100;

/// Whether the nodes that follow are still wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

pub(super) fn render(tree: &Tree, value: &Value, missing: Missing) -> Result<String, Error> {
    let variables = vec![("$".to_owned(), value.clone())];
    let mut run = Run { tree, missing, variables, out: String::new(), depth: 0 };
    run.nodes(&tree.body, value)?;
    Ok(run.out)
}

struct Run<'t> {
    tree: &'t Tree,
    missing: Missing,
    /// The innermost last.
    variables: Vec<(String, Value)>,
    out: String,
    depth: usize,
}

impl Run<'_> {
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<Flow, Error> {
        for node in nodes {
            let flow = self.node(node, dot)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn node(&mut self, node: &Node, dot: &Value) -> Result<Flow, Error> {
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Print(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    self.out.push_str(&functions::show(&value));
                } else {
                    self.assign(pipeline, vec![value]);
                }
            }
            Node::If(branch) | Node::With(branch) => {
                let known = self.variables.len();
                let value = self.pipeline(&branch.pipeline, dot)?;
                self.assign(&branch.pipeline, vec![value.clone()]);
                let inside = if matches!(node, Node::With(_)) { &value } else { dot };
                let flow = match functions::is_true(&value) {
                    true => self.nodes(&branch.body, inside),
                    false => self.nodes(&branch.otherwise, dot),
                };
                self.variables.truncate(known);
                return flow;
            }
            Node::Range(branch) => return self.range(branch, dot),
            Node::Template { name, argument, line } => {
                self.template(name, argument.as_ref(), *line, dot)?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    fn range(&mut self, branch: &Branch, dot: &Value) -> Result<Flow, Error> {
        let over = self.pipeline(&branch.pipeline, dot)?;
        let elements: Vec<(Value, Value)> = match over {
            Value::Array(list) => {
                list.into_iter().enumerate().map(|(place, item)| (place.into(), item)).collect()
            }
            Value::Object(map) => map.into_iter().map(|(key, value)| (key.into(), value)).collect(),
            Value::Null => Vec::new(),
            Value::Number(count) => {
                let count = count.as_u64().unwrap_or_default();
                (0..count).map(|place| (place.into(), place.into())).collect()
            }
            other => {
                let message = format!("range can't iterate over {}", functions::show(&other));
                return Err(Error::Execute { line: branch.pipeline.line, message });
            }
        };
        if elements.is_empty() {
            return self.nodes(&branch.otherwise, dot);
        }
        let known = self.variables.len();
        for (place, element) in elements {
            let values = match branch.pipeline.variables.len() {
                2 => vec![place, element.clone()],
                _ => vec![element.clone()],
            };
            self.assign(&branch.pipeline, values);
            let flow = self.nodes(&branch.body, &element)?;
            self.variables.truncate(known);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(Flow::On)
    }

    fn template(
        &mut self,
        name: &str,
        argument: Option<&Pipeline>,
        line: usize,
        dot: &Value,
    ) -> Result<(), Error> {
        let failed = |message: String| Error::Execute { line, message };
        let body = self.tree.defined.get(name);
        let body = body.ok_or_else(|| failed(format!("template {name:?} not defined")))?;
        if self.depth == DEEPEST {
            return Err(failed(format!("exceeded maximum template depth ({DEEPEST})")));
        }
        let value = match argument {
            Some(pipeline) => self.pipeline(pipeline, dot)?,
            None => Value::Null,
        };
        let outside = std::mem::replace(&mut self.variables, vec![("$".to_owned(), value.clone())]);
        self.depth += 1;
        self.nodes(body, &value)?;
        self.depth -= 1;
        self.variables = outside;
        Ok(())
    }

    fn assign(&mut self, pipeline: &Pipeline, values: Vec<Value>) {
        for (name, value) in pipeline.variables.iter().zip(values) {
            let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
            match known {
                Some((_, present)) if !pipeline.is_declared => *present = value,
                _ => self.variables.push((name.clone(), value)),
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, Error> {
        let mut last = None;
        for command in &pipeline.commands {
            last = Some(self.command(command, dot, last, pipeline.line)?);
        }
        Ok(last.unwrap_or_default())
    }

    fn command(
        &mut self,
        command: &Command,
        dot: &Value,
        piped: Option<Value>,
        line: usize,
    ) -> Result<Value, Error> {
        let failed = |message: String| Error::Execute { line, message };
        let Some((first, rest)) = command.split_first() else { return Ok(Value::Null) };
        let Operand::Function(name) = first else {
            if !rest.is_empty() || piped.is_some() {
                return Err(failed("can't give argument to non-function".to_owned()));
            }
            return self.operand(first, dot, line);
        };
        let mut arguments = Vec::new();
        for operand in rest {
            // What decides is not looked behind.
            if let Some(decided) = functions::decide(name, &arguments) {
                return Ok(decided);
            }
            arguments.push(self.operand(operand, dot, line)?);
        }
        arguments.extend(piped);
        functions::call(name, &arguments)
            .map_err(|message| failed(format!("error calling {name}: {message}")))
    }

    fn operand(&mut self, operand: &Operand, dot: &Value, line: usize) -> Result<Value, Error> {
        match operand {
            Operand::Dot => Ok(dot.clone()),
            Operand::Constant(value) => Ok(value.clone()),
            Operand::Variable(name) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                Ok(found.map(|(_, value)| value.clone()).unwrap_or_default())
            }
            Operand::Function(name) => functions::call(name, &[]).map_err(|message| {
                Error::Execute { line, message: format!("error calling {name}: {message}") }
            }),
            Operand::Inner(pipeline) => self.pipeline(pipeline, dot),
            Operand::Fields(base, fields) => {
                let mut value = self.operand(base, dot, line)?;
                for field in fields {
                    value = self.field(value, field, line)?;
                }
                Ok(value)
            }
        }
    }

    fn field(&self, value: Value, field: &str, line: usize) -> Result<Value, Error> {
        let failed = |message: String| Err(Error::Execute { line, message });
        match value {
            Value::Object(mut map) => match map.remove(field) {
                Some(found) => Ok(found),
                None if self.missing == Missing::Shown => Ok(Value::Null),
                None => failed(format!("map has no entry for key {field:?}")),
            },
            Value::Null if self.missing == Missing::Shown => Ok(Value::Null),
            Value::Null => failed(format!("nil data; no entry for key {field:?}")),
            other => failed(format!("can't evaluate field {field} in {}", functions::show(&other))),
        }
    }
}
