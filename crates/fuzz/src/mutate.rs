//! Changes inputs, deterministically from a seed: most changes keep JSON well formed, so that they reach the
//! code behind the parser.

use karmada_apimachinery::{Map, Value, json};

/// A small generator of numbers (SplitMix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.roll() % bound as u64) as usize }
    }
}

/// A changed copy of one of the inputs; parts of the others may be grafted in.
pub fn mutate(inputs: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let picked = &inputs[dice.below(inputs.len())];
    match serde_json::from_slice::<Value>(picked) {
        Ok(mut document) if dice.below(8) > 0 => {
            let donor = &inputs[dice.below(inputs.len())];
            let donor = serde_json::from_slice(donor).unwrap_or(Value::Null);
            for _ in 0..=dice.below(4) {
                change(&mut document, &donor, dice);
            }
            document.to_string().into_bytes()
        }
        _ => change_bytes(picked.clone(), dice),
    }
}

fn change_bytes(mut bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    for _ in 0..=dice.below(6) {
        let place = dice.below(bytes.len() + 1);
        match dice.below(5) {
            0 if place < bytes.len() => bytes[place] ^= 1 << dice.below(8),
            1 if place < bytes.len() => drop(bytes.remove(place)),
            2 => bytes.truncate(place),
            3 => {
                let length = dice.below(12).min(bytes.len() - place.min(bytes.len()));
                let copy: Vec<u8> = bytes[place..place + length].to_vec();
                bytes.splice(place..place, copy);
            }
            _ => {
                const PARTS: &[&str] = &[
                    "\0",
                    "[[",
                    "{{",
                    "%",
                    "..",
                    "9999999999",
                    "-",
                    "é",
                    "\"",
                    "(",
                    "*",
                    "end",
                    "~1",
                    "\n",
                ];
                let part = PARTS[dice.below(PARTS.len())];
                bytes.splice(place..place, part.bytes());
            }
        }
    }
    bytes
}

/// Changes one place of a document.
fn change(document: &mut Value, donor: &Value, dice: &mut Dice) {
    let places = count(document);
    let mut left = dice.below(places);
    let here = place(document, &mut left).expect("the place was counted");
    match dice.below(10) {
        0..=4 => *here = hostile(dice),
        5 => {
            let mut left = dice.below(count(donor));
            let mut donor = donor.clone();
            *here = place(&mut donor, &mut left).expect("the place was counted").take();
        }
        6 => match here {
            Value::Array(items) if !items.is_empty() => {
                let copy = items[dice.below(items.len())].clone();
                items.extend(std::iter::repeat_n(copy, 1 + dice.below(3)));
            }
            Value::Number(number) => {
                let near = number.as_i64().unwrap_or_default();
                *here = json!(near.wrapping_add(dice.below(5) as i64 - 2));
            }
            _ => *here = Value::Array(vec![here.take()].into()),
        },
        7 => remove_one(here, dice),
        8 => {
            if let Value::Object(fields) = here {
                let key = fields.keys().nth(dice.below(fields.len())).cloned();
                if let Some(value) = key.and_then(|key| fields.remove(&key)) {
                    fields.insert(hostile_text(dice), value);
                }
            }
        }
        _ => {
            let mut inside = Map::new();
            inside.insert("a".to_owned(), here.take());
            *here = Value::Object(inside);
        }
    }
}

fn remove_one(here: &mut Value, dice: &mut Dice) {
    match here {
        Value::Object(fields) => {
            let key = fields.keys().nth(dice.below(fields.len())).cloned();
            if let Some(key) = key {
                fields.remove(&key);
            }
        }
        Value::Array(items) if !items.is_empty() => drop(items.remove(dice.below(items.len()))),
        _ => *here = Value::Null,
    }
}

/// Values nobody expects: nothing, the wrong type, the far ends of every range.
fn hostile(dice: &mut Dice) -> Value {
    match dice.below(16) {
        0 => Value::Null,
        1 => json!(i64::MAX),
        2 => json!(i64::MIN),
        3 => json!(u64::MAX),
        4 => json!(i32::MAX),
        5 => json!(-1),
        6 => json!(0),
        7 => json!(1e300),
        8 => json!([]),
        9 => json!({}),
        10 => json!(dice.below(2) == 0),
        11 => (0..40).fold(json!(1), |inner, _| json!([inner])),
        12 => json!("x".repeat(300)),
        13 => json!([null, 1, "a", {}]),
        _ => json!(hostile_text(dice)),
    }
}

fn hostile_text(dice: &mut Dice) -> String {
    const TEXTS: &[&str] = &[
        "",
        " ",
        "a",
        "é€",
        "*",
        "-1",
        "9e999",
        "1Ki",
        "0.0000000001",
        "99999999999999999999E",
        "/a/b",
        "/0/-",
        "~",
        "m1",
        "cluster",
        "region",
        "zone",
        "provider",
        "Divided",
        "Duplicated",
        "Weighted",
        "Aggregated",
        "NoExecute",
        "2026-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "{{",
        "Deployment",
        "apps/v1",
        "v1",
        "\u{0}",
        "..",
        "a=b,c!=d",
        "cpu",
    ];
    TEXTS[dice.below(TEXTS.len())].to_owned()
}

fn count(document: &Value) -> usize {
    1 + match document {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn place<'v>(document: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
    if *left == 0 {
        return Some(document);
    }
    *left -= 1;
    match document {
        Value::Array(items) => items.iter_mut().find_map(|item| place(item, left)),
        Value::Object(fields) => fields.values_mut().find_map(|value| place(value, left)),
        _ => None,
    }
}
