//! Takes out of an answer what differs from run to run, by the rules of the recordings.

use karmada_apimachinery::Value;

/// Numbers UUIDs by first appearance, in the order in which JSON lists them.
#[derive(Default)]
pub(crate) struct Normaliser {
    ids: Vec<String>,
}

impl Normaliser {
    pub(crate) fn apply(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                    metadata.remove("managedFields");
                    if metadata.contains_key("resourceVersion") {
                        metadata.insert("resourceVersion".to_owned(), "<rv>".into());
                    }
                }
                fields.values_mut().for_each(|value| self.apply(value));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::String(text) if is_time(text) => *text = "<time>".to_owned().into(),
            Value::String(text) => *text = self.replace_ids(text).into(),
            _ => {}
        }
    }

    fn replace_ids(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((start, id)) = find_id(rest) {
            let number = match self.ids.iter().position(|known| known == id) {
                Some(index) => index + 1,
                None => {
                    self.ids.push(id.to_owned());
                    self.ids.len()
                }
            };
            out.push_str(&rest[..start]);
            out.push_str(&format!("<uid:{number}>"));
            rest = &rest[start + id.len()..];
        }
        out.push_str(rest);
        out
    }
}

/// Times of the year 2020 are sent by the cases themselves and stay.
fn is_time(text: &str) -> bool {
    text.len() == 20
        && text.ends_with('Z')
        && text.as_bytes()[4] == b'-'
        && !text.starts_with("2020")
}

fn find_id(text: &str) -> Option<(usize, &str)> {
    const LENGTH: usize = 36;
    (0..text.len().saturating_sub(LENGTH - 1)).find_map(|start| {
        let candidate = text.get(start..start + LENGTH)?;
        let is_id = candidate.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
        is_id.then_some((start, candidate))
    })
}
