//! `-o custom-columns=NAME:.metadata.name,…`.

use karmada_apimachinery::Value;
use karmada_apimachinery::jsonpath::{self, Template};

use super::{go_template, tree};
use crate::columns;
use crate::error::{Error, Result};

pub(crate) fn render(spec: &str, all: &Value, no_headers: bool) -> Result<String> {
    let mut headers = Vec::new();
    let mut paths = Vec::new();
    for column in spec.split(',') {
        let (header, path) = column.split_once(':').ok_or_else(|| {
            Error::Message(format!(
                "unexpected custom-columns spec: {column}, expected <header>:<json-path-expr>"
            ))
        })?;
        let path = jsonpath::complete_path(path).map_err(|error| error.to_string())?;
        let template = Template::parse(&path).map_err(|error| error.to_string())?;
        headers.push(header.to_owned());
        paths.push(template.allowing_missing());
    }
    let mut lines = if no_headers { Vec::new() } else { vec![headers] };
    for object in tree::items(all) {
        let cell = |path: &Template| cell(path, object);
        lines.push(paths.iter().map(cell).collect::<Result<_>>()?);
    }
    Ok(columns::lay_out(&lines))
}

/// The values of a path with commas between them.
fn cell(path: &Template, object: &Value) -> Result<String> {
    let found = path.find_first(object).map_err(|error| error.to_string())?;
    let texts: Vec<String> = found
        .iter()
        .map(|value| match &**value {
            Value::Null => "<none>".to_owned(),
            other => go_template::show(other),
        })
        .collect();
    Ok(if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn columns_are_paths_under_headers() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"c": [{"n": "1"}, {"n": "2"}]}});
        let text = render("NAME:.metadata.name,L:metadata.labels,N:.spec.c[*].n,Z:.z", &pod, false)
            .unwrap();
        assert_eq!(text, "NAME   L          N     Z\na      map[x:y]   1,2   <none>\n");
        assert!(render("NAME", &pod, false).is_err());
    }
}
