//! Customizations of users: the scripts of all ResourceInterpreterCustomizations, merged per kind and question.

use std::collections::HashMap;
use std::sync::Arc;

use karmada_api::config::{DependentObjectReference, ResourceInterpreterCustomization};
use karmada_apimachinery::Value;

use crate::error::{Error, Result};
use crate::lua::{Call, Script, ScriptError};
use crate::{Operation, dependency};

/// The scripts that answer one question about one kind, by the name of their customization. Only
/// dependencies have more than one.
#[derive(Debug)]
pub(crate) struct Scripts(Vec<(String, Script)>);

impl Scripts {
    /// Asks the script that comes first.
    pub(crate) fn first<T>(
        &self,
        ask: impl FnOnce(&Script) -> std::result::Result<T, ScriptError>,
    ) -> Result<T> {
        let (customization, script) = self.0.first().expect("made with at least one script");
        ask(script).map_err(|source| Error::Script { customization: customization.clone(), source })
    }

    /// What all scripts together name, each object once.
    pub(crate) fn dependencies(
        &self,
        object: &Value,
        call: &Call<'_>,
    ) -> Result<Vec<DependentObjectReference>> {
        let mut union: Vec<DependentObjectReference> = Vec::new();
        for (customization, script) in &self.0 {
            let references = script
                .dependencies(object, call)
                .map_err(|source| Error::Script { customization: customization.clone(), source })?;
            dependency::validate(&references)?;
            for reference in references {
                if !union.contains(&reference) {
                    union.push(reference);
                }
            }
        }
        Ok(union)
    }
}

type ByOperation = HashMap<Operation, Arc<Scripts>>;

/// All customizations, by kind and question.
#[derive(Debug, Default)]
pub struct Customizations {
    by_kind: HashMap<String, HashMap<String, ByOperation>>,
}

impl Customizations {
    pub fn new<'a>(
        customizations: impl IntoIterator<Item = &'a ResourceInterpreterCustomization>,
    ) -> Self {
        Self::default().rebuild(customizations)
    }

    /// Builds the merged view anew; scripts that did not change stay the same, so compiled forms stay valid.
    pub(crate) fn rebuild<'a>(
        &self,
        customizations: impl IntoIterator<Item = &'a ResourceInterpreterCustomization>,
    ) -> Self {
        let known = self.scripts_by_source();
        let mut sorted: Vec<_> = customizations.into_iter().collect();
        sorted.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));

        type Gathered = HashMap<(String, String, Operation), Vec<(String, Script)>>;
        let mut gathered = Gathered::new();
        for customization in sorted {
            let target = &customization.spec.target;
            for (operation, source) in customization.spec.customizations.scripts() {
                let Some(operation) = Operation::from_api(&operation) else { continue };
                let key = (target.kind.clone(), target.api_version.clone(), operation);
                let scripts = gathered.entry(key).or_default();
                // The first customization by name wins, except that dependencies add up.
                if scripts.is_empty() || operation == Operation::InterpretDependency {
                    let script = known
                        .get(source)
                        .map_or_else(|| Script::new(source), |script| (*script).clone());
                    scripts.push((customization.metadata.name.clone(), script));
                }
            }
        }
        let mut merged = Self::default();
        for ((kind, api_version, operation), scripts) in gathered {
            let by_version = merged.by_kind.entry(kind).or_default();
            let by_operation = by_version.entry(api_version).or_default();
            by_operation.insert(operation, Arc::new(Scripts(scripts)));
        }
        merged
    }

    fn scripts_by_source(&self) -> HashMap<&str, &Script> {
        let all = self.by_kind.values().flat_map(|versions| versions.values());
        let all = all.flat_map(|operations| operations.values());
        all.flat_map(|scripts| &scripts.0).map(|(_, script)| (script.source(), script)).collect()
    }

    pub(crate) fn find(
        &self,
        api_version: &str,
        kind: &str,
        operation: Operation,
    ) -> Option<Arc<Scripts>> {
        self.by_kind.get(kind)?.get(api_version)?.get(&operation).cloned()
    }
}
