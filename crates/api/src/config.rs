//! `config.karmada.io/v1alpha1`: teaching Karmada about custom kinds, by script or by webhook.

use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::selector::validate_label_selector;

use crate::core::WebhookClientConfig;
use crate::meta::{GroupVersionKind, LabelSelector, kinds};
use crate::wire::{Bytes, go_package, text, wire};
use crate::work::{AggregatedStatusItem, Component, ReplicaRequirements};

go_package!("v1alpha1");

pub const GROUP: &str = "config.karmada.io";

kinds! {
    /// Lua scripts that answer Karmada's questions about one kind of object.
    pub struct ResourceInterpreterCustomization in "config.karmada.io" / "v1alpha1" as "resourceinterpretercustomizations", Cluster {
        /// The kind and the scripts for it.
        spec: ResourceInterpreterCustomizationSpec,
    }

    /// Webhooks that answer Karmada's questions about kinds of objects.
    pub struct ResourceInterpreterWebhookConfiguration in "config.karmada.io" / "v1alpha1" as "resourceinterpreterwebhookconfigurations", Cluster {
        /// The hooks and what they answer.
        webhooks: Vec<ResourceInterpreterWebhook>,
    }
}

wire! {
    /// A kind and the scripts for it.
    pub struct ResourceInterpreterCustomizationSpec {
        /// Kind the scripts are for.
        target: CustomizationTarget,
        /// Scripts by question; each may be left out.
        customizations: CustomizationRules,
    }

    /// The kind scripts are for.
    pub struct CustomizationTarget {
        /// Group and version.
        api_version: String,
        /// Kind.
        kind: String,
    }

    /// Scripts by question.
    pub struct CustomizationRules {
        /// Keeps values that the member itself sets: `Retain(desiredObj, observedObj)` returns the object to apply.
        retention?: Option<LocalValueRetention>,
        /// Tells replicas and their needs: `GetReplicas(obj)` returns the number and the requirements.
        replica_resource?: Option<ReplicaResourceRequirement>,
        /// Tells the pod templates and their needs: `GetComponents(obj)` returns a list of components.
        component_resource?: Option<ComponentResourceRequirement>,
        /// Sets the number of replicas: `ReviseReplica(obj, desiredReplica)` returns the object.
        replica_revision?: Option<ReplicaRevision>,
        /// Picks the status to collect: `ReflectStatus(observedObj)` returns it.
        status_reflection?: Option<StatusReflection>,
        /// Combines the collected statuses: `AggregateStatus(desiredObj, statusItems)` returns the object.
        status_aggregation?: Option<StatusAggregation>,
        /// Judges health: `InterpretHealth(observedObj)` returns true or false.
        health_interpretation?: Option<HealthInterpretation>,
        /// Lists the objects it needs: `GetDependencies(obj)` returns references. The lists of several customizations add up.
        dependency_interpretation?: Option<DependencyInterpretation>,
    }

    /// Script that keeps values of the member.
    pub struct LocalValueRetention {
        /// Lua source that defines `Retain(desiredObj, observedObj)`.
        lua_script: String,
    }

    /// Script that tells replicas and their needs.
    pub struct ReplicaResourceRequirement {
        /// Lua source that defines `GetReplicas(obj)`.
        lua_script: String,
    }

    /// Script that tells pod templates and their needs.
    pub struct ComponentResourceRequirement {
        /// Lua source that defines `GetComponents(obj)`.
        lua_script: String,
    }

    /// Script that sets the number of replicas.
    pub struct ReplicaRevision {
        /// Lua source that defines `ReviseReplica(obj, desiredReplica)`.
        lua_script: String,
    }

    /// Script that picks the status to collect.
    pub struct StatusReflection {
        /// Lua source that defines `ReflectStatus(observedObj)`.
        lua_script: String,
    }

    /// Script that combines collected statuses.
    pub struct StatusAggregation {
        /// Lua source that defines `AggregateStatus(desiredObj, statusItems)`.
        lua_script: String,
    }

    /// Script that judges health.
    pub struct HealthInterpretation {
        /// Lua source that defines `InterpretHealth(observedObj)`.
        lua_script: String,
    }

    /// Script that lists dependencies.
    pub struct DependencyInterpretation {
        /// Lua source that defines `GetDependencies(obj)`.
        lua_script: String,
    }

    /// One webhook.
    pub struct ResourceInterpreterWebhook {
        /// Name of the hook, a fully qualified domain name, unique within the configuration.
        name: String,
        /// Where and how the hook is reached.
        client_config: WebhookClientConfig,
        /// What the hook answers; without rules it is never asked.
        rules?: Vec<RuleWithOperations>,
        /// Longest wait in seconds for an answer, 1 to 30.
        timeout_seconds?: Option<i32>,
        /// Versions of the request the hook understands, in order of preference; v1alpha1 must be among them.
        interpreter_context_versions: Vec<String>,
    }

    /// Questions and the kinds they are about.
    pub struct RuleWithOperations {
        /// Questions the hook answers, or `*` alone for all.
        operations: Vec<InterpreterOperation>,
        flatten rule: Rule,
    }

    /// Kinds.
    pub struct Rule {
        /// API groups, the empty word for the core group, or `*` alone for all.
        api_groups: Vec<String>,
        /// API versions, or `*` alone for all.
        api_versions: Vec<String>,
        /// Kinds, or `*` alone for all.
        kinds: Vec<String>,
    }

    /// Body of a call to an interpreter webhook and of its answer.
    pub struct ResourceInterpreterContext {
        api_version?: String,
        kind?: String,
        /// The question.
        request?: Option<ResourceInterpreterRequest>,
        /// The answer.
        response?: Option<ResourceInterpreterResponse>,
    }

    /// A question to an interpreter webhook.
    pub struct ResourceInterpreterRequest {
        /// Id of the call.
        uid: String,
        /// Kind of the object.
        kind: GroupVersionKind,
        /// Name of the object.
        name: String,
        /// Namespace of the object.
        namespace?: String,
        /// The question.
        operation: InterpreterOperation,
        /// The object; for Retain the desired one.
        object+: Value = {"type": "object"},
        /// For Retain: the object in the member.
        observed_object?: Option<Value> = {"type": "object"},
        /// For ReviseReplica: the wanted number.
        desired_replicas as "replicas"?: Option<i32>,
        /// For AggregateStatus: the statuses of the members.
        aggregated_status?: Vec<AggregatedStatusItem>,
    }

    /// An answer of an interpreter webhook.
    pub struct ResourceInterpreterResponse {
        /// Id of the call.
        uid: String,
        /// Whether the hook could answer.
        successful: bool,
        /// Why it could not.
        status?: Option<RequestStatus>,
        /// JSON Patch on the object of the request.
        patch?: Bytes,
        /// Form of the patch.
        patch_type?: Option<String>,
        /// For InterpretReplica: what one replica needs.
        replica_requirements?: Option<ReplicaRequirements>,
        /// For InterpretReplica: the number of replicas.
        replicas?: Option<i32>,
        /// For InterpretComponent: the pod templates.
        components?: Vec<Component>,
        /// For InterpretDependency: the objects it needs.
        dependencies?: Vec<DependentObjectReference>,
        /// For InterpretStatus: the status to collect.
        raw_status?: Option<Value> = {"type": "object"},
        /// For InterpretHealth: the verdict.
        healthy?: Option<bool>,
    }

    /// Why a hook could not answer.
    pub struct RequestStatus {
        /// Explanation for people.
        message?: String,
        /// Code in the manner of HTTP.
        code?: i32,
    }

    /// An object that another one needs.
    pub struct DependentObjectReference {
        /// Group and version.
        api_version: String,
        /// Kind.
        kind: String,
        /// Namespace, empty for cluster scope.
        namespace?: String,
        /// Name; if empty the labels select.
        name?: String,
        /// Labels of the objects; used without a name.
        label_selector?: Option<LabelSelector>,
    }
}

text! {
    /// A question about an object.
    pub enum InterpreterOperation {
        All = "*",
        InterpretReplica,
        InterpretComponent,
        ReviseReplica,
        InterpretStatus,
        Prune,
        Retain,
        AggregateStatus,
        InterpretHealth,
        InterpretDependency,
    }
}

impl CustomizationRules {
    /// The scripts that are not empty, by question.
    pub fn scripts(&self) -> Vec<(InterpreterOperation, &str)> {
        use InterpreterOperation as Op;
        let all = [
            (Op::Retain, self.retention.as_ref().map(|r| &r.lua_script)),
            (Op::InterpretReplica, self.replica_resource.as_ref().map(|r| &r.lua_script)),
            (Op::InterpretComponent, self.component_resource.as_ref().map(|r| &r.lua_script)),
            (Op::ReviseReplica, self.replica_revision.as_ref().map(|r| &r.lua_script)),
            (Op::InterpretStatus, self.status_reflection.as_ref().map(|r| &r.lua_script)),
            (Op::AggregateStatus, self.status_aggregation.as_ref().map(|r| &r.lua_script)),
            (Op::InterpretHealth, self.health_interpretation.as_ref().map(|r| &r.lua_script)),
            (
                Op::InterpretDependency,
                self.dependency_interpretation.as_ref().map(|r| &r.lua_script),
            ),
        ];
        all.into_iter()
            .filter_map(|(operation, script)| Some((operation, script?.as_str())))
            .filter(|(_, script)| !script.is_empty())
            .collect()
    }
}

/// What is wrong with the dependencies that a script or a webhook named.
pub fn check_dependencies(dependencies: &[DependentObjectReference]) -> Vec<FieldError> {
    let list_path = Path::new("dependencies");
    let mut errors = Vec::new();
    for (index, dependency) in dependencies.iter().enumerate() {
        let path = list_path.index(index);
        if dependency.api_version.is_empty() {
            let message = "missing required apiVersion";
            errors.push(FieldError::invalid(&path.child("apiVersion"), "", message));
        }
        if dependency.kind.is_empty() {
            errors.push(FieldError::invalid(&path.child("kind"), "", "missing required kind"));
        }
        if dependency.name.is_empty() && dependency.label_selector.is_none() {
            let shown = serde_json::to_string(dependency).unwrap_or_default();
            errors.push(FieldError::invalid(
                &path,
                Shown::Verbatim(shown),
                "dependency can not leave name and labelSelector all empty",
            ));
        }
        let selector = dependency.label_selector.as_ref();
        let selector = selector.and_then(|selector| karmada_apimachinery::to_value(selector).ok());
        errors.extend(validate_label_selector(selector.as_ref(), &path.child("labelSelector")));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_need_a_kind_and_a_way_to_find_them() {
        let cases = [
            (karmada_apimachinery::json!({"apiVersion": "v1", "kind": "Secret", "name": "s"}), ""),
            (
                karmada_apimachinery::json!({"apiVersion": "v1", "kind": "Secret", "labelSelector": {}}),
                "",
            ),
            (
                karmada_apimachinery::json!({"kind": "Secret", "name": "s"}),
                r#"dependencies[0].apiVersion: Invalid value: "": missing required apiVersion"#,
            ),
            (
                karmada_apimachinery::json!({"apiVersion": "v1", "kind": "Secret"}),
                r#"dependencies[0]: Invalid value: {"apiVersion":"v1","kind":"Secret"}: dependency can not leave name and labelSelector all empty"#,
            ),
            (
                karmada_apimachinery::json!({"apiVersion": "v1", "kind": "Secret", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
                "dependencies[0].labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ),
        ];
        for (dependency, expected) in cases {
            let dependency = karmada_apimachinery::from_value(dependency).unwrap();
            let errors: Vec<String> =
                check_dependencies(&[dependency]).iter().map(ToString::to_string).collect();
            assert_eq!(errors.join(", "), expected);
        }
    }
}
