//! One object of every custom kind, as its controller writes it, with the answer to every question that is
//! answered for it. `samples/*.yaml` hold object, members and answers; run with `UPDATE_SAMPLES=1` to write
//! the answers anew, and read them.

use karmada_api::work::AggregatedStatusItem;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Map, Value, decode, json, yaml};

use super::TABLE;
use crate::Operation;
use crate::testing::interpreter;

const FILES: [(&str, &str); 9] = [
    ("argo", include_str!("samples/argo.yaml")),
    ("flink", include_str!("samples/flink.yaml")),
    ("flux", include_str!("samples/flux.yaml")),
    ("kruise", include_str!("samples/kruise.yaml")),
    ("kubeflow", include_str!("samples/kubeflow.yaml")),
    ("kyverno", include_str!("samples/kyverno.yaml")),
    ("ray", include_str!("samples/ray.yaml")),
    ("spark", include_str!("samples/spark.yaml")),
    ("volcano", include_str!("samples/volcano.yaml")),
];

/// The object as its user wrote it, before any member had it.
fn template(object: &Value) -> Value {
    let mut template = object.clone();
    template.as_object_mut().unwrap().remove("status");
    template["metadata"]["generation"] = json!(2);
    template
}

fn ask(operation: Operation, sample: &Value) -> Value {
    let object = &sample["object"];
    let interpreter = interpreter();
    match operation {
        Operation::InterpretReplica => {
            let answer = interpreter.interpret_replica(object).unwrap();
            json!({"replicas": answer.replicas, "requirements": answer.requirements})
        }
        Operation::InterpretComponent => {
            json!(interpreter.interpret_component(object).unwrap())
        }
        Operation::ReviseReplica => {
            let replicas = sample["replicas"].as_i64().unwrap();
            interpreter.revise_replica(template(object), replicas).unwrap()["spec"].clone()
        }
        Operation::Retain => {
            let observed = sample.get("observed").unwrap_or(object);
            interpreter.retain(template(object), observed).unwrap()
        }
        Operation::InterpretStatus => json!(interpreter.interpret_status(object).unwrap()),
        Operation::AggregateStatus => {
            let members: Vec<AggregatedStatusItem> =
                karmada_apimachinery::from_value(sample["members"].clone()).unwrap();
            let combined = interpreter.aggregate_status(template(object), &members).unwrap();
            combined["status"].clone()
        }
        Operation::InterpretHealth => json!(interpreter.interpret_health(object).unwrap()),
        Operation::InterpretDependency => {
            let references = interpreter.interpret_dependency(object).unwrap();
            let named = |r: &karmada_api::config::DependentObjectReference| {
                format!("{}/{}", r.kind, r.name)
            };
            json!(references.iter().map(named).collect::<Vec<_>>())
        }
    }
}

fn answers(sample: &Value) -> Value {
    let object = &sample["object"];
    let rules = TABLE
        .iter()
        .find(|rules| rules.api_version == object.api_version() && rules.kind == object.kind())
        .unwrap_or_else(|| panic!("{} {} is not known", object.api_version(), object.kind()));
    let answered = Operation::ALL.into_iter().filter(|operation| rules.answers(*operation));
    let answers: Map =
        answered.map(|operation| (operation.name().to_owned(), ask(operation, sample))).collect();
    answers.into()
}

#[test]
fn every_question_about_every_kind_is_answered_as_written_down() {
    let mut seen = Vec::new();
    for (name, text) in FILES {
        let Value::Array(mut samples) = decode::yaml_untyped(text.as_bytes()).unwrap().value else {
            panic!("{name}")
        };
        for sample in &mut samples {
            let object = &sample["object"];
            seen.push(format!("{} {}", object.api_version(), object.kind()));
            let answers = answers(sample);
            if std::env::var_os("UPDATE_SAMPLES").is_none() {
                assert_eq!(sample["answers"], answers, "{}", seen.last().unwrap());
            }
            sample["answers"] = answers;
        }
        if std::env::var_os("UPDATE_SAMPLES").is_some() {
            let path = format!("{}/src/thirdparty/samples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, yaml::to_string(&samples.into())).unwrap();
        }
    }
    let mut known: Vec<String> =
        TABLE.iter().map(|rules| format!("{} {}", rules.api_version, rules.kind)).collect();
    seen.sort();
    known.sort();
    assert_eq!(seen, known, "every kind has one sample");
}
