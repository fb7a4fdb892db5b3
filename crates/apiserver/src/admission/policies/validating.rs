//! ValidatingAdmissionPolicy: expressions that must hold for a write.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::{Cause, Status};
use karmada_cel::{Budget, Value as Cel};

use super::compiled::Validation;
use super::{Applies, BUDGET, InForce, Subject, Variables, applies, in_force, wanted};

/// Lets all policies in force judge a write; the first that denies it decides.
pub(crate) async fn validate(subject: &Subject<'_>) -> Result<(), Status> {
    let pairs =
        in_force(subject.call, "validatingadmissionpolicies", "validatingadmissionpolicybindings");
    for pair in &pairs {
        let failures = judge(pair, subject).await?;
        let actions = pair.binding.list_at(&["spec", "validationActions"]);
        let has = |action: &str| actions.iter().any(|own| own == action);
        for failure in failures {
            let (policy, binding) = (&pair.policy.name, pair.binding.name());
            if has("Warn") {
                subject.call.warn(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding \
                     '{binding}': {}",
                    failure.message
                ));
            }
            if has("Audit") {
                subject.call.annotate(
                    "validation.policy.admission.k8s.io/validation_failure",
                    format!("{policy}/{binding}: {}", failure.message),
                );
            }
            if has("Deny") {
                return Err(denial(subject, (policy, binding), &failure));
            }
        }
    }
    Ok(())
}

struct Failure {
    message: String,
    reason: String,
}

impl Failure {
    fn new(message: String) -> Self {
        Self { message, reason: String::new() }
    }
}

async fn judge(pair: &InForce, subject: &Subject<'_>) -> Result<Vec<Failure>, Status> {
    let policy = &*pair.policy;
    // Whether a failure to evaluate counts is the policy's choice.
    let failed = |why: String| {
        if policy.ignores_failures() { Vec::new() } else { vec![Failure::new(why)] }
    };
    let (version, parameters) = match applies(pair, subject) {
        Applies::No => return Ok(Vec::new()),
        Applies::Failed(why) => return Ok(failed(why)),
        Applies::To(version, parameters) => (version, parameters),
    };
    let view = subject.view(version).await?;
    let mut failures = Vec::new();
    for parameter in parameters {
        let parameter: Option<&Value> = parameter.as_deref();
        let variables = Variables::new(subject, &view, policy, parameter);
        match wanted(policy, &variables) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                failures.extend(failed(why));
                continue;
            }
        }
        let mut budget = Budget::new(BUDGET);
        for validation in &policy.validations {
            failures.extend(check(validation, &variables, &mut budget, policy.ignores_failures()));
        }
        for (key, program) in &policy.annotations {
            let value = program.as_ref().ok().and_then(|p| p.run(&variables, &mut budget).ok());
            if let Some(Cel::String(text)) = value {
                subject.call.annotate(&format!("{}/{key}", policy.name), text.to_string());
            }
        }
    }
    Ok(failures)
}

fn check(
    validation: &Validation,
    variables: &Variables<'_>,
    budget: &mut Budget,
    ignore: bool,
) -> Option<Failure> {
    let verdict = match &validation.program {
        Ok(program) => program.run(variables, budget).map_err(|error| error.to_string()),
        Err(why) => Err(why.clone()),
    };
    match verdict {
        Ok(Cel::Bool(true)) => None,
        Err(_) if ignore => None,
        Err(why) => {
            Some(Failure::new(format!("expression '{}' resulted in error: {why}", validation.text)))
        }
        Ok(_) => {
            let said = validation.message_program.as_ref();
            let said = said.and_then(|program| program.run(variables, budget).ok());
            let said = said.and_then(|value| value.as_str().map(|text| text.trim().to_owned()));
            let said = said.filter(|text| !text.is_empty() && !text.contains('\n'));
            let message = said.unwrap_or_else(|| match validation.message.as_str() {
                "" => format!("failed expression: {}", validation.text),
                message => message.to_owned(),
            });
            Some(Failure { message, reason: validation.reason.clone() })
        }
    }
}

fn denial(subject: &Subject<'_>, (policy, binding): (&str, &str), failure: &Failure) -> Status {
    let message = format!(
        "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {}",
        failure.message
    );
    let attributes = subject.attributes;
    let mut status = Status::forbidden(&attributes.group_resource(), &attributes.name, &message);
    (status.code, status.reason) = match failure.reason.as_str() {
        "Unauthorized" => (401, "Unauthorized"),
        "Forbidden" => (403, "Forbidden"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    if let Some(details) = &mut status.details {
        details.causes.push(Cause { message, ..Cause::default() });
    }
    status
}
