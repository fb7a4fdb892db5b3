//! OverridePolicy and ClusterOverridePolicy: how copies differ per cluster.

use karmada_apimachinery::Value;

use super::propagation::{ClusterAffinity, ResourceSelector};
use crate::meta::{Labels, kinds};
use crate::wire::{go_package, text, wire};

go_package!("v1alpha1");

kinds! {
    /// Changes the copies of templates of its own namespace, cluster by cluster.
    pub struct OverridePolicy in "policy.karmada.io" / "v1alpha1" as "overridepolicies", Namespaced {
        /// What is changed where.
        spec: OverrideSpec,
    }

    /// Changes the copies of any template, cluster by cluster; applied before every OverridePolicy.
    pub struct ClusterOverridePolicy in "policy.karmada.io" / "v1alpha1" as "clusteroverridepolicies", Cluster {
        /// What is changed where.
        spec: OverrideSpec,
    }
}

wire! {
    /// What an override policy asks for.
    pub struct OverrideSpec {
        /// Templates whose copies are changed; all templates if empty.
        resource_selectors?: Vec<ResourceSelector>,
        /// Changes in order, each for some clusters.
        override_rules?: Vec<RuleWithCluster>,
        /// Outdated: clusters the overriders below are for; use overrideRules.
        target_cluster?: Option<ClusterAffinity>,
        /// Outdated: changes for the target cluster; use overrideRules.
        overriders+: Overriders,
    }

    /// Changes for some clusters.
    pub struct RuleWithCluster {
        /// Clusters the changes are for; all clusters if unset.
        target_cluster?: Option<ClusterAffinity>,
        /// Changes to make.
        overriders: Overriders,
    }

    /// Changes to a copy, applied in the order image, command, args, labels, annotations, field, plaintext.
    pub struct Overriders {
        /// Edits of any field by JSON Pointer.
        plaintext?: Vec<PlaintextOverrider>,
        /// Edits of image references.
        image_overrider?: Vec<ImageOverrider>,
        /// Edits of container commands.
        command_overrider?: Vec<CommandArgsOverrider>,
        /// Edits of container arguments.
        args_overrider?: Vec<CommandArgsOverrider>,
        /// Edits of labels.
        labels_overrider?: Vec<LabelAnnotationOverrider>,
        /// Edits of annotations.
        annotations_overrider?: Vec<LabelAnnotationOverrider>,
        /// Edits inside a JSON or YAML document that a string field holds.
        field_overrider?: Vec<FieldOverrider>,
    }

    /// Adds, changes or removes labels or annotations.
    pub struct LabelAnnotationOverrider {
        /// Kind of edit.
        operator: OverriderOperator = {"enum": ["add", "remove", "replace"]},
        /// Keys and values; for remove only the keys count.
        value: Labels,
    }

    /// Edits one part of an image reference.
    pub struct ImageOverrider {
        /// Restricts the edit to one field; the containers of known workloads if unset.
        predicate?: Option<ImagePredicate>,
        /// Part of `[registry/]repository[:tag]` that is edited.
        component: ImageComponent = {"enum": ["Registry", "Repository", "Tag"]},
        /// Kind of edit.
        operator: OverriderOperator = {"enum": ["add", "remove", "replace"]},
        /// New text; needed for add and replace, ignored for remove.
        value?: String,
    }

    /// Where an image stands.
    pub struct ImagePredicate {
        /// JSON Pointer of the field that holds the image.
        path: String,
    }

    /// Edits the command or the arguments of a container.
    pub struct CommandArgsOverrider {
        /// Name of the container.
        container_name: String,
        /// add appends the words, remove deletes those that are equal.
        operator: OverriderOperator = {"enum": ["add", "remove"]},
        /// Words to add or remove.
        value?: Vec<String>,
    }

    /// Edits one field.
    pub struct PlaintextOverrider {
        /// JSON Pointer of the field.
        path: String,
        /// Kind of edit.
        operator: OverriderOperator = {"enum": ["add", "remove", "replace"]},
        /// New value; leave it out for remove.
        value+: Value,
    }

    /// Edits a document inside a string field.
    pub struct FieldOverrider {
        /// JSON Pointer of the string field.
        field_path: String,
        /// Edits of a JSON document; cannot be combined with yaml.
        json?: Vec<JSONPatchOperation>,
        /// Edits of a YAML document; cannot be combined with json.
        yaml?: Vec<YAMLPatchOperation>,
    }

    /// One edit of a JSON document.
    pub struct JSONPatchOperation {
        /// JSON Pointer inside the document.
        sub_path: String,
        /// Kind of edit.
        operator: OverriderOperator = {"enum": ["add", "remove", "replace"]},
        /// New value; leave it out for remove.
        value+: Value,
    }

    /// One edit of a YAML document.
    pub struct YAMLPatchOperation {
        /// JSON Pointer inside the document.
        sub_path: String,
        /// Kind of edit.
        operator: OverriderOperator = {"enum": ["add", "remove", "replace"]},
        /// New value; leave it out for remove.
        value+: Value,
    }
}

text! {
    /// Kind of an edit.
    pub enum OverriderOperator { Add = "add", Remove = "remove", Replace = "replace" }

    /// Part of an image reference.
    pub enum ImageComponent { Registry, Repository, Tag }
}
