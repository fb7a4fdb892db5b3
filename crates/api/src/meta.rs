//! The parts of `meta/v1` that Karmada's kinds use, and what all kinds have in common.

use std::collections::BTreeMap;

use karmada_apimachinery::Value;
use karmada_apimachinery::readable::Readable;
use serde::{Deserialize, Serialize};

use crate::form::Form;
use crate::wire::{Carried, Described, Time, go_package, text, wire};

go_package!("v1");

pub type Labels = BTreeMap<String, String>;

wire! {
    /// Standard metadata of an object.
    pub struct ObjectMeta {
        name?: String,
        generate_name?: String,
        namespace?: String,
        self_link?: String,
        uid?: String,
        resource_version?: String,
        generation?: i64,
        creation_timestamp?: Option<Time>,
        deletion_timestamp?: Option<Time>,
        deletion_grace_period_seconds?: Option<i64>,
        labels?: Labels,
        annotations?: Labels,
        owner_references?: Vec<OwnerReference>,
        finalizers?: Vec<String>,
        managed_fields?: Carried,
    }

    /// An object that must go before or with this one.
    pub struct OwnerReference {
        api_version: String,
        kind: String,
        name: String,
        uid: String,
        controller?: Option<bool>,
        block_owner_deletion?: Option<bool>,
    }

    /// Metadata of a list.
    pub struct ListMeta {
        self_link?: String,
        resource_version?: String,
        r#continue as "continue"?: String,
        remaining_item_count?: Option<i64>,
    }

    /// A label query; all parts must hold, an empty one matches everything.
    pub struct LabelSelector = {"x-kubernetes-map-type": "atomic"} {
        /// Labels that must have exactly these values.
        match_labels?: Labels,
        /// Requirements on single label keys, all of which must hold.
        match_expressions?: Vec<LabelSelectorRequirement> = {"x-kubernetes-list-type": "atomic"},
    }

    /// A relation between a label key and a set of values.
    pub struct LabelSelectorRequirement {
        /// Label key the requirement is about.
        key: String,
        /// Relation of the label to the values: In, NotIn, Exists or DoesNotExist.
        operator: LabelSelectorOperator,
        /// Values to compare with; must be empty for Exists and DoesNotExist.
        values?: Vec<String> = {"x-kubernetes-list-type": "atomic"},
    }

    /// One observed aspect of the state of an object.
    pub struct Condition {
        /// Name of the condition in CamelCase.
        r#type as "type": String = {
            "maxLength": 316,
            "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        },
        /// Truth value: True, False or Unknown.
        status: String = {"enum": ["True", "False", "Unknown"]},
        /// Generation of the object the condition was judged on.
        observed_generation?: i64 = {"minimum": 0},
        /// When the status last changed from one value to another.
        last_transition_time: Option<Time>,
        /// Machine-readable word for why the status is what it is.
        reason: String = {"maxLength": 1024, "minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
        /// Explanation for people; may be empty.
        message: String = {"maxLength": 32768},
    }

    /// Group, version and kind of an object.
    pub struct GroupVersionKind {
        group: String,
        version: String,
        kind: String,
    }
}

text! {
    /// Relation of a label or field to a set of values.
    pub enum LabelSelectorOperator { In, NotIn, Exists, DoesNotExist }
}

impl Condition {
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    pub fn is_false(&self) -> bool {
        self.status == "False"
    }
}

/// Returns the condition of the given type.
pub fn find_condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.r#type == kind)
}

/// Adds or replaces a condition of the same type; the transition time moves only when the status does.
/// Returns whether anything changed.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition, now: Time) -> bool {
    let Some(existing) = conditions.iter_mut().find(|condition| condition.r#type == new.r#type)
    else {
        new.last_transition_time.get_or_insert(now);
        conditions.push(new);
        return true;
    };
    new.last_transition_time = if existing.status == new.status {
        existing.last_transition_time
    } else {
        new.last_transition_time.or(Some(now))
    };
    let changed = *existing != new;
    *existing = new;
    changed
}

/// Names of a kind as the API serves it.
pub trait Kind:
    Serialize + for<'de> Deserialize<'de> + Readable + Described + Clone + Send + Sync + 'static
{
    const GROUP: &'static str;
    const VERSION: &'static str;
    const KIND: &'static str;
    const PLURAL: &'static str;
    const NAMESPACED: bool;

    fn metadata(&self) -> &ObjectMeta;
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Reads a tree by way of its text: reading both would be compiled twice, and half of this crate is that.
    fn from_value(value: &Value) -> serde_json::Result<Self> {
        Self::from_text(&serde_json::to_vec(value)?).map_err(|error| {
            // A place in a text that nobody sees would mean nothing.
            let message = error.to_string();
            let end = message.rfind(" at line ").unwrap_or(message.len());
            serde::de::Error::custom(&message[..end])
        })
    }

    /// Writes a tree. It is compiled once, here.
    fn to_value(&self) -> serde_json::Result<Value>;

    /// What objects of the kind look like when they were written by the type; made once.
    fn written() -> &'static Form;

    fn api_version() -> String {
        format!("{}/{}", Self::GROUP, Self::VERSION)
    }

    fn name(&self) -> &str {
        &self.metadata().name
    }

    fn namespace(&self) -> &str {
        &self.metadata().namespace
    }
}

/// Defines kinds: structs with `apiVersion`, `kind`, `metadata` and their own fields.
macro_rules! kinds {
    ($( $(#[doc = $doc:literal])* pub struct $name:ident in $group:literal / $version:literal as $plural:literal, $scope:ident { $($body:tt)* } )*) => {$(
        $crate::wire::wire! {
            $(#[doc = $doc])*
            pub struct $name {
                /// Version of the schema the object is written in.
                api_version?: String,
                /// Kind of the object.
                kind?: String,
                /// Standard metadata of an object.
                metadata+: $crate::meta::ObjectMeta,
                $($body)*
            }
        }

        impl $crate::meta::Kind for $name {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = stringify!($name);
            const PLURAL: &'static str = $plural;
            const NAMESPACED: bool = $crate::meta::kinds!(@scope $scope);

            fn metadata(&self) -> &$crate::meta::ObjectMeta {
                &self.metadata
            }
            fn metadata_mut(&mut self) -> &mut $crate::meta::ObjectMeta {
                &mut self.metadata
            }
            #[inline(never)]
            fn to_value(&self) -> serde_json::Result<karmada_apimachinery::Value> {
                karmada_apimachinery::to_value(self)
            }
            fn written() -> &'static $crate::form::Form {
                static FORM: std::sync::LazyLock<$crate::form::Form> =
                    std::sync::LazyLock::new(<$name as $crate::wire::Described>::form);
                &FORM
            }
        }

        karmada_apimachinery::readable!($name);

        impl $name {
            /// An object of this kind with the given metadata and everything else at its zero value.
            pub fn with_metadata(metadata: $crate::meta::ObjectMeta) -> Self {
                Self {
                    api_version: <Self as $crate::meta::Kind>::api_version(),
                    kind: stringify!($name).to_owned(),
                    metadata,
                    ..Self::default()
                }
            }
        }
    )*};
    (@scope Namespaced) => { true };
    (@scope Cluster) => { false };
}
pub(crate) use kinds;
