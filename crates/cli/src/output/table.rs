//! The server's tables as people see them, with the columns that say where a row is from.

use std::collections::BTreeMap;

use karmada_api::labels;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use crate::columns::Columns;

/// One table of one server, and what it is about.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// The value of the column CLUSTER.
    pub(crate) cluster: String,
    /// Whether the rows are the control plane's own.
    pub(crate) is_karmada: bool,
    pub(crate) table: Value,
}

/// What to show beyond the server's columns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    pub(crate) wide: bool,
    pub(crate) no_headers: bool,
    pub(crate) show_labels: bool,
    pub(crate) label_columns: Vec<String>,
    pub(crate) with_namespace: bool,
    /// `deployment.apps/` before each name, where several kinds are shown.
    pub(crate) kind_prefix: Option<String>,
    /// CLUSTER and ADOPTION.
    pub(crate) with_cluster: bool,
    /// Whether ADOPTION is shown only in the wide form, as for pods.
    pub(crate) adoption_is_wide: bool,
    pub(crate) event_column: bool,
}

/// Prints tables one below the other; columns keep their widths and headers are printed once.
#[derive(Debug, Default)]
pub(crate) struct TablePrinter {
    columns: Columns,
    definitions: Vec<Definition>,
    has_headers: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Definition {
    name: String,
    is_wide: bool,
}

impl TablePrinter {
    /// Renders the rows of several servers as one table. `event` is the kind of a watch event.
    pub(crate) fn render(&mut self, parts: &[Part], look: &Look, event: Option<&str>) -> String {
        let mut lines = Vec::new();
        for part in parts {
            let own = definitions(&part.table);
            if self.definitions.is_empty() {
                self.definitions.clone_from(&own);
            }
            // Servers of different age have different columns: cells are found by name.
            let by_name: BTreeMap<&str, usize> = own
                .iter()
                .enumerate()
                .map(|(place, column)| (column.name.as_str(), place))
                .collect();
            let watch_goes_on = own.is_empty();
            for row in part.table.list_at(&["rows"]) {
                let cells = row.list_at(&["cells"]);
                let at = |place: usize, name: &str| {
                    let place =
                        if watch_goes_on { Some(place) } else { by_name.get(name).copied() };
                    place.and_then(|place| cells.get(place))
                };
                lines.push(self.line(part, row, look, event, at));
            }
        }
        if !self.has_headers && !look.no_headers && !lines.is_empty() {
            lines.insert(0, self.headers(look));
            self.has_headers = true;
        }
        self.columns.lay_out(&lines)
    }

    fn headers(&self, look: &Look) -> Vec<String> {
        let mut headers = Vec::new();
        if look.event_column {
            headers.push("EVENT".to_owned());
        }
        if look.with_namespace {
            headers.push("NAMESPACE".to_owned());
        }
        for (place, column) in self.shown(look) {
            headers.push(column.name.to_uppercase());
            if place == 0 && look.with_cluster {
                headers.push("CLUSTER".to_owned());
            }
        }
        if look.shows_adoption() {
            headers.push("ADOPTION".to_owned());
        }
        for label in &look.label_columns {
            let short = label.rsplit('/').next().unwrap_or(label);
            headers.push(short.to_uppercase());
        }
        if look.show_labels {
            headers.push("LABELS".to_owned());
        }
        headers
    }

    fn line<'v>(
        &self,
        part: &Part,
        row: &'v Value,
        look: &Look,
        event: Option<&str>,
        at: impl Fn(usize, &str) -> Option<&'v Value>,
    ) -> Vec<String> {
        let object = row.get("object").unwrap_or(&Value::Null);
        let mut line = Vec::new();
        if look.event_column {
            line.push(event.unwrap_or("ADDED").to_owned());
        }
        if look.with_namespace {
            line.push(object.namespace().to_owned());
        }
        for (place, column) in self.shown(look) {
            let mut cell = at(place, &column.name).map_or_else(String::new, show);
            if place == 0 {
                if let Some(prefix) = &look.kind_prefix {
                    cell = format!("{prefix}/{cell}");
                }
                line.push(cell);
                if look.with_cluster {
                    line.push(part.cluster.clone());
                }
            } else {
                line.push(cell);
            }
        }
        if look.shows_adoption() {
            line.push(adoption(part, object).to_owned());
        }
        for label in &look.label_columns {
            line.push(object.label(label).unwrap_or_default().to_owned());
        }
        if look.show_labels {
            line.push(labels_of(object));
        }
        line
    }

    fn shown(&self, look: &Look) -> impl Iterator<Item = (usize, &Definition)> {
        let wide = look.wide;
        self.definitions.iter().enumerate().filter(move |(_, column)| wide || !column.is_wide)
    }
}

impl Look {
    fn shows_adoption(&self) -> bool {
        self.with_cluster && (self.wide || !self.adoption_is_wide)
    }
}

fn definitions(table: &Value) -> Vec<Definition> {
    let definition = |column: &Value| Definition {
        name: column.str_at(&["name"]).unwrap_or_default().to_owned(),
        is_wide: column.i64_at(&["priority"]).unwrap_or_default() != 0,
    };
    table.list_at(&["columnDefinitions"]).iter().map(definition).collect()
}

/// Whether Karmada keeps the object of a row; the control plane's own rows are no question of that.
fn adoption(part: &Part, object: &Value) -> &'static str {
    match object.label(labels::MANAGED) {
        _ if part.is_karmada => "-",
        Some("true") => "Y",
        _ => "N",
    }
}

/// `a=b,c=d`, sorted by key.
fn labels_of(object: &Value) -> String {
    let labels = object.map_at(&["metadata", "labels"]).into_iter().flatten();
    let pairs: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// A cell as text; a line break would end the row, so only the first line is shown.
fn show(cell: &Value) -> String {
    match cell {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => match text.split_once(['\n', '\r', '\u{c}']) {
            Some((first, _)) => format!("{first}..."),
            None => text.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn deployments(cluster: &str, managed: bool) -> Part {
        let labels = if managed {
            json!({"karmada.io/managed": "true"})
        } else {
            json!({"app": "nginx", "a": "b"})
        };
        Part {
            cluster: cluster.to_owned(),
            is_karmada: cluster == "Karmada",
            table: json!({
                "columnDefinitions": [
                    {"name": "Name", "priority": 0}, {"name": "Ready", "priority": 0},
                    {"name": "Age", "priority": 0}, {"name": "Images", "priority": 1}],
                "rows": [{
                    "cells": ["nginx", "2/2", "8s", "nginx"],
                    "object": {"metadata": {"name": "nginx", "namespace": "default", "labels": labels}}}],
            }),
        }
    }

    fn render(parts: &[Part], look: &Look) -> String {
        TablePrinter::default().render(parts, look, None)
    }

    #[test]
    fn rows_say_where_they_are_from_and_who_keeps_them() {
        let parts =
            [deployments("Karmada", false), deployments("member1", true), deployments("m2", false)];
        let look = Look { with_cluster: true, ..Look::default() };
        assert_eq!(
            render(&parts, &look),
            "NAME    CLUSTER   READY   AGE   ADOPTION\n\
             nginx   Karmada   2/2     8s    -\n\
             nginx   member1   2/2     8s    Y\n\
             nginx   m2        2/2     8s    N\n"
        );
    }

    #[test]
    fn further_columns_stand_where_kubectl_has_them() {
        let parts = [deployments("Karmada", false)];
        let look = Look {
            wide: true,
            show_labels: true,
            label_columns: vec!["app".to_owned()],
            with_namespace: true,
            kind_prefix: Some("deployment.apps".to_owned()),
            ..Look::default()
        };
        assert_eq!(
            render(&parts, &look),
            "NAMESPACE   NAME                    READY   AGE   IMAGES   APP     LABELS\n\
             default     deployment.apps/nginx   2/2     8s    nginx    nginx   a=b,app=nginx\n"
        );
    }

    #[test]
    fn pods_show_adoption_only_when_wide() {
        let look = Look { with_cluster: true, adoption_is_wide: true, ..Look::default() };
        assert!(!render(&[deployments("m1", true)], &look).contains("ADOPTION"));
        let wide = Look { wide: true, ..look };
        assert!(render(&[deployments("m1", true)], &wide).contains("ADOPTION"));
    }

    #[test]
    fn cells_are_found_by_name_when_servers_differ() {
        let mut old = deployments("m2", false);
        old.table = json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Age"}, {"name": "Ready"}],
            "rows": [{"cells": ["old", "1d", "0/1"], "object": {"metadata": {}}}],
        });
        let text = render(&[deployments("m1", false), old], &Look::default());
        assert_eq!(text, "NAME    READY   AGE\nnginx   2/2     8s\nold     0/1     1d\n");
    }

    #[test]
    fn cells_hold_one_line() {
        assert_eq!(show(&json!("a\nb")), "a...");
        assert_eq!(show(&Value::Null), "<none>");
        assert_eq!(show(&json!(3)), "3");
    }
}
