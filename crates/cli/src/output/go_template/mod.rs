//! `-o go-template`: Go's text templates over JSON, as far as people use them to pick fields of objects.
//!
//! Known are fields, variables, pipelines, `if`, `range`, `with`, `define`, `template`, `break`, `continue`, trimming,
//! comments, and the functions of Go and kubectl that work on plain values.

mod evaluate;
mod functions;
mod lex;
mod parse;

use karmada_apimachinery::Value;

pub(crate) use functions::show;

/// What is wrong with a template, or with the object it meets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("template: output:{line}: {message}")]
    Parse { line: usize, message: String },
    #[error("template: output:{line}: executing \"output\": {message}")]
    Execute { line: usize, message: String },
}

/// A template that was understood.
#[derive(Debug)]
pub(crate) struct Template {
    tree: parse::Tree,
}

/// What becomes of a field that an object does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// `<no value>`.
    Shown,
    Refused,
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self { tree: parse::parse(lex::lex(text)?)? })
    }

    pub(crate) fn render(&self, value: &Value, missing: Missing) -> Result<String, Error> {
        evaluate::render(&self.tree, value, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn render(template: &str, value: &Value) -> String {
        match Template::parse(template).and_then(|it| it.render(value, Missing::Shown)) {
            Ok(text) => text,
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn templates_print_what_go_prints() {
        let list = json!({
            "kind": "List", "n": 3, "f": 1.5, "yes": true, "none": null,
            "items": [
                {"metadata": {"name": "a", "labels": {"app": "x", "tier": "1"}}, "spec": {"replicas": 2}},
                {"metadata": {"name": "b"}, "spec": {"replicas": 0}}],
            "data": {"k": "aGVsbG8="},
        });
        for (template, expected) in [
            ("{{.kind}} {{.n}} {{.f}} {{.yes}}", "List 3 1.5 true"),
            ("{{.missing}}{{.none}}", "<no value><no value>"),
            ("{{range .items}}{{.metadata.name}}{{\"\\n\"}}{{end}}", "a\nb\n"),
            ("{{range $i, $e := .items}}{{$i}}={{$e.metadata.name}} {{end}}", "0=a 1=b "),
            (
                "{{range $k, $v := (index .items 0).metadata.labels}}{{$k}}:{{$v}},{{end}}",
                "app:x,tier:1,",
            ),
            ("{{range .nothing}}x{{else}}empty{{end}}", "empty"),
            (
                "{{range .items}}{{if .spec.replicas}}{{.metadata.name}}{{else}}-{{end}}{{end}}",
                "a-",
            ),
            ("{{if eq .kind \"X\"}}1{{else if eq .kind \"Y\" \"List\"}}2{{else}}3{{end}}", "2"),
            ("{{with .data}}{{.k | base64decode}}{{end}}", "hello"),
            ("{{index .data \"k\" | len}} {{len .items}}", "8 2"),
            ("{{printf \"%-5s|%03d|%v|%q\" .kind .n .yes \"z\"}}", "List |003|true|\"z\""),
            ("{{$x := .n}}{{if gt $x 2}}{{$x = 9}}{{end}}{{$x}}", "9"),
            ("a  {{- /* note */ -}}  b {{- \" c\" }}", "ab c"),
            (
                "{{(index .items 0).metadata.labels}} {{.items | len | printf \"%d!\"}}",
                "map[app:x tier:1] 2!",
            ),
            ("{{and .kind (or .none \"d\")}} {{not .yes}} {{exists . \"items\"}}", "d false true"),
            (
                "{{range .items}}{{if eq .metadata.name \"b\"}}{{break}}{{end}}{{.metadata.name}}{{end}}",
                "a",
            ),
            (
                "{{define \"row\"}}<{{.metadata.name}}>{{end}}{{range .items}}{{template \"row\" .}}{{end}}",
                "<a><b>",
            ),
            ("{{range .items}}{{$.kind}}{{end}}", "ListList"),
            ("{{println .kind 1}}{{print \"a\" 1 2 \"b\"}}", "List 1\na1 2b"),
            ("{{slice .kind 1 3}} {{html \"<a>\"}} {{urlquery \"a b\"}}", "is &lt;a&gt; a+b"),
        ] {
            assert_eq!(render(template, &list), expected, "{template}");
        }
    }

    #[test]
    fn mistakes_name_their_line() {
        let empty = json!({});
        for (template, expected) in [
            ("a\n{{.x", "template: output:2: unclosed action"),
            ("{{if .x}}", "template: output:1: unexpected EOF"),
            ("{{end}}", "template: output:1: unexpected {{end}}"),
            ("{{nosuch .x}}", "template: output:1: function \"nosuch\" not defined"),
            ("{{$y}}", "template: output:1: undefined variable \"$y\""),
            (
                "{{range .a}}{{end}}\n{{index .l 5}}",
                "template: output:2: executing \"output\": error calling index: index out of range: 5",
            ),
        ] {
            let value = if template.contains(".l") { json!({"l": [1]}) } else { empty.clone() };
            assert_eq!(render(template, &value), expected, "{template}");
        }
        let strict = Template::parse("{{.x}}").unwrap().render(&empty, Missing::Refused);
        assert_eq!(
            strict.unwrap_err().to_string(),
            "template: output:1: executing \"output\": map has no entry for key \"x\""
        );
    }
}
