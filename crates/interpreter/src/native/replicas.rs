//! How many replicas a built-in kind asks for, and writing another number into it.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectMutExt;

use crate::Gates;
use crate::error::{Error, Result};
use crate::fields::{int, replicas, walk};
use crate::pod::{requirements, template_requirements};
use crate::rules::Replicas;

const TEMPLATE: &[&str] = &["spec", "template"];

pub(super) fn workload(object: &Value, gates: Gates) -> Result<Replicas> {
    Ok(Replicas {
        replicas: replicas(object, &["spec", "replicas"], 0)?,
        requirements: template_requirements(object, TEMPLATE, gates)?,
    })
}

/// No more pods run at once than there are completions to reach.
pub(super) fn job(object: &Value, gates: Gates) -> Result<Replicas> {
    let parallelism = replicas(object, &["spec", "parallelism"], 0)?;
    let completions = replicas(object, &["spec", "completions"], parallelism)?;
    Ok(Replicas {
        replicas: parallelism.min(completions),
        requirements: template_requirements(object, TEMPLATE, gates)?,
    })
}

pub(super) fn pod(object: &Value, gates: Gates) -> Result<Replicas> {
    let requirements = match walk(object, &["spec"])? {
        Some(spec) => requirements(spec, gates).map_err(|e| e.under("spec"))?,
        None => None,
    };
    Ok(Replicas { replicas: 1, requirements })
}

pub(super) fn revise_replicas(object: &mut Value, replicas: i64) -> Result<()> {
    overwrite_count(object, &["spec", "replicas"], replicas)
}

pub(super) fn revise_parallelism(object: &mut Value, replicas: i64) -> Result<()> {
    overwrite_count(object, &["spec", "parallelism"], replicas)
}

/// Replaces a number that is there; a missing one stays missing, so that defaults keep working.
pub(crate) fn overwrite_count(object: &mut Value, path: &[&str], replicas: i64) -> Result<()> {
    if int(object, path)?.is_none() {
        return match object.at_mut(path) {
            Some(null) => Err(Error::wrong_type(path, "an integer", null)),
            None => Ok(()),
        };
    }
    object.set(path, replicas);
    Ok(())
}
