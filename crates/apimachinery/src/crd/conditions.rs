//! Which names of a definition are free, and the conditions that say so.

use crate::{Value, json};
use jiff::Timestamp;

use super::approval::approval_condition;
use crate::object::ObjectExt;
use crate::time::format_time;

/// A name that another definition of the group already has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub reason: &'static str,
    pub message: String,
}

/// The status of `definition` among the `others` of its group: accepted names and the two conditions, with
/// `now` as the time of those that change. Stored versions stay as they are.
pub fn name_conditions(definition: &Value, others: &[&Value], now: Timestamp) -> Value {
    let taken = Taken::by(others);
    let mut status = definition.get("status").cloned().unwrap_or_else(|| json!({}));
    let accepted = status.get("acceptedNames").cloned().unwrap_or_else(|| json!({}));
    let requested = definition.at(&["spec", "names"]).cloned().unwrap_or_default();
    let (names, conflict) = accept(&requested, &accepted, &taken);
    status["acceptedNames"] = names;

    let was_established = has_condition(&status, "Established", "True");
    let (accepted, established) = match conflict {
        None => (
            ("True", "NoConflicts", "no conflicts found".to_owned()),
            Some((
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted".to_owned(),
            )),
        ),
        Some(conflict) => (
            ("False", conflict.reason, conflict.message),
            // Once established a definition stays so.
            (!was_established)
                .then(|| ("False", "NotAccepted", "not all names are accepted".to_owned())),
        ),
    };
    set_condition(&mut status, "NamesAccepted", accepted, now);
    if let Some(established) = established {
        set_condition(&mut status, "Established", established, now);
    }
    if let Some(approved) = approval_condition(definition) {
        set_condition(&mut status, "KubernetesAPIApprovalPolicyConformant", approved, now);
    }
    status
}

/// Resource names and kinds that are in use.
#[derive(Default)]
struct Taken {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Taken {
    fn by(others: &[&Value]) -> Self {
        let mut taken = Self::default();
        for other in others {
            let names = other.at(&["status", "acceptedNames"]);
            let text =
                |key: &str| names.and_then(|n| n.str_at(&[key])).unwrap_or_default().to_owned();
            taken.resources.extend([text("plural"), text("singular")]);
            taken.kinds.extend([text("kind"), text("listKind")]);
            let short = names.map_or(&[][..], |names| names.list_at(&["shortNames"]));
            taken.resources.extend(short.iter().filter_map(|name| Some(name.as_str()?.to_owned())));
        }
        taken
    }
}

/// Takes over every requested name that is free; the last conflict is the one reported.
fn accept(requested: &Value, accepted: &Value, taken: &Taken) -> (Value, Option<Conflict>) {
    let mut names = accepted.clone();
    let mut conflict = None;
    let is_free = |name: &str, held: &[String], pool: &[String]| {
        name.is_empty() || held.iter().any(|h| h == name) || !pool.iter().any(|taken| taken == name)
    };
    for (key, reason, pool) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        let texts = |names: &Value| -> Vec<String> {
            match names.get(key) {
                Some(Value::String(name)) => vec![name.to_string()],
                Some(Value::Array(list)) => {
                    list.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
                }
                _ => Vec::new(),
            }
        };
        let held = texts(accepted);
        let clashes: Vec<String> = texts(requested)
            .into_iter()
            .filter(|name| !is_free(name, &held, pool))
            .map(|name| format!("\"{name}\" is already in use"))
            .collect();
        if clashes.is_empty() {
            copy(requested, &mut names, key);
        } else {
            let message = match clashes.as_slice() {
                [only] => only.clone(),
                several => format!("[{}]", several.join(", ")),
            };
            conflict = Some(Conflict { reason, message });
        }
    }
    copy(requested, &mut names, "categories");
    for key in ["kind", "plural"] {
        if names.get(key).is_none() {
            names[key] = "".into();
        }
    }
    (names, conflict)
}

fn copy(from: &Value, to: &mut Value, key: &str) {
    match (from.get(key), to.as_object_mut()) {
        (Some(value), Some(fields)) => drop(fields.insert(key.to_owned(), value.clone())),
        (None, Some(fields)) => drop(fields.remove(key)),
        _ => {}
    }
}

fn has_condition(status: &Value, kind: &str, state: &str) -> bool {
    status.list_at(&["conditions"]).iter().any(|condition| {
        condition.str_at(&["type"]) == Some(kind) && condition.str_at(&["status"]) == Some(state)
    })
}

fn set_condition(
    status: &mut Value,
    kind: &str,
    (state, reason, message): (&str, &str, String),
    now: Timestamp,
) {
    let mut conditions = status.list_at(&["conditions"]).to_vec();
    let mut wanted = json!({
        "type": kind, "status": state, "reason": reason, "message": message,
        "lastTransitionTime": format_time(now),
    });
    match conditions.iter_mut().find(|condition| condition.str_at(&["type"]) == Some(kind)) {
        Some(existing) => {
            if existing.get("status") == wanted.get("status") {
                wanted["lastTransitionTime"] = existing["lastTransitionTime"].clone();
            }
            *existing = wanted;
        }
        None => conditions.push(wanted),
    }
    status["conditions"] = conditions.into();
}
