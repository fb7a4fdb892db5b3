//! The facade: finds who answers a question about an object, asks it, and hands back the answer.

use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use karmada_api::config::{
    DependentObjectReference, ResourceInterpreterCustomization,
    ResourceInterpreterWebhookConfiguration,
};
use karmada_api::work::{AggregatedStatusItem, Component};
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::object::ObjectExt;

use crate::customization::{Customizations, Scripts};
use crate::error::{Error, Result};
use crate::lua::{Call, Limits};
use crate::rules::{Members, Replicas, Rules, find};
use crate::webhook::{self, Caller, Extra, Hook, Webhooks};
use crate::{Operation, dependency, native, thirdparty};

/// Tells the time when a script or an aggregation asks for it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Feature gates that change answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gates {
    /// ResourceQuotaEstimate: requirements carry the priority class.
    pub quota_estimate: bool,
}

/// Who answers a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    Declarative,
    Webhook,
    ThirdParty,
    Native,
}

/// Answers questions about objects. Cheap to share; configuration is replaced as a whole.
pub struct Interpreter {
    gates: Gates,
    limits: Limits,
    clock: Clock,
    customizations: ArcSwap<Customizations>,
    webhooks: ArcSwap<Webhooks>,
    caller: Option<Arc<dyn Caller>>,
}

/// Who was found to answer, with what it takes to ask.
enum Answerer {
    Declarative(Arc<Scripts>),
    Webhook(Arc<dyn Caller>, Arc<Hook>),
    Rules(Source, &'static Rules),
    WholeStatus,
}

impl Interpreter {
    pub fn new(gates: Gates, clock: Clock) -> Self {
        Self {
            gates,
            limits: Limits::default(),
            clock,
            customizations: ArcSwap::default(),
            webhooks: ArcSwap::default(),
            caller: None,
        }
    }

    /// Asks webhooks through `caller`; without one, configured webhooks are not asked.
    #[must_use]
    pub fn with_caller(mut self, caller: Arc<dyn Caller>) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Bounds what scripts may use.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Replaces all customizations.
    pub fn set_customizations<'a>(
        &self,
        customizations: impl IntoIterator<Item = &'a ResourceInterpreterCustomization>,
    ) {
        let previous = self.customizations.load();
        self.customizations.store(Arc::new(previous.rebuild(customizations)));
    }

    /// Replaces all webhooks.
    pub fn set_webhooks<'a>(
        &self,
        configurations: impl IntoIterator<Item = &'a ResourceInterpreterWebhookConfiguration>,
    ) {
        self.webhooks.store(Arc::new(Webhooks::new(configurations)));
    }

    /// Whether anybody answers this question about this kind.
    pub fn hook_enabled(&self, gvk: &Gvk, operation: Operation) -> bool {
        self.source(gvk, operation).is_some()
    }

    /// Who answers this question about this kind.
    pub fn source(&self, gvk: &Gvk, operation: Operation) -> Option<Source> {
        let answerer = self.answerer(&gvk.api_version(), &gvk.kind, operation)?;
        Some(match answerer {
            Answerer::Declarative(_) => Source::Declarative,
            Answerer::Webhook(..) => Source::Webhook,
            Answerer::Rules(source, _) => source,
            Answerer::WholeStatus => Source::Native,
        })
    }

    /// The first that is enabled answers; if it fails there is no second try.
    fn answerer(&self, api_version: &str, kind: &str, operation: Operation) -> Option<Answerer> {
        if let Some(scripts) = self.customizations.load().find(api_version, kind, operation) {
            return Some(Answerer::Declarative(scripts));
        }
        if let Some(caller) = &self.caller {
            let gvk = GroupVersion::parse(api_version).unwrap_or_default().with_kind(kind);
            if let Some(hook) = self.webhooks.load().find(&gvk, operation) {
                return Some(Answerer::Webhook(caller.clone(), hook.clone()));
            }
        }
        for (source, table) in
            [(Source::ThirdParty, thirdparty::TABLE), (Source::Native, native::TABLE)]
        {
            let rules = find(table, api_version, kind).filter(|rules| rules.answers(operation));
            if let Some(rules) = rules {
                return Some(Answerer::Rules(source, rules));
            }
        }
        // Every kind has a status worth reporting.
        (operation == Operation::InterpretStatus).then_some(Answerer::WholeStatus)
    }

    fn answerer_for(&self, object: &Value, operation: Operation) -> Result<Answerer> {
        let found = self.answerer(object.api_version(), object.kind(), operation);
        found.ok_or_else(|| no_answer(object, operation))
    }

    /// How many replicas the object asks for and what one of them needs.
    pub fn interpret_replica(&self, object: &Value) -> Result<Replicas> {
        let operation = Operation::InterpretReplica;
        match self.answerer_for(object, operation)? {
            Answerer::Declarative(scripts) => {
                scripts.first(|script| script.replicas(object, &self.call_settings()))
            }
            Answerer::Webhook(caller, hook) => {
                let extra = Extra::default();
                webhook::ask(&*caller, &hook, operation, object, &extra).map(webhook::replicas)
            }
            Answerer::Rules(_, Rules { replicas: Some(replicas), .. }) => {
                replicas(object, self.gates)
            }
            _ => Err(no_answer(object, operation)),
        }
    }

    /// The pod templates of the object.
    pub fn interpret_component(&self, object: &Value) -> Result<Vec<Component>> {
        let operation = Operation::InterpretComponent;
        match self.answerer_for(object, operation)? {
            Answerer::Declarative(scripts) => {
                scripts.first(|script| script.components(object, &self.call_settings()))
            }
            Answerer::Webhook(caller, hook) => {
                let extra = Extra::default();
                let response = webhook::ask(&*caller, &hook, operation, object, &extra)?;
                Ok(response.components)
            }
            Answerer::Rules(_, Rules { components: Some(components), .. }) => {
                components(object, self.gates)
            }
            _ => Err(no_answer(object, operation)),
        }
    }

    /// The object with another number of replicas.
    pub fn revise_replica(&self, mut object: Value, replicas: i64) -> Result<Value> {
        let operation = Operation::ReviseReplica;
        match self.answerer_for(&object, operation)? {
            Answerer::Declarative(scripts) => {
                scripts.first(|script| script.revise(&object, replicas, &self.call_settings()))
            }
            Answerer::Webhook(caller, hook) => {
                let extra = Extra { replicas, ..Extra::default() };
                let response = webhook::ask(&*caller, &hook, operation, &object, &extra)?;
                webhook::patched(&hook, &object, &response)
            }
            Answerer::Rules(_, Rules { revise: Some(revise), .. }) => {
                revise(&mut object, replicas)?;
                Ok(object)
            }
            _ => Err(no_answer(&object, operation)),
        }
    }

    /// The desired object with the values that the member's object keeps.
    pub fn retain(&self, mut desired: Value, observed: &Value) -> Result<Value> {
        let operation = Operation::Retain;
        match self.answerer_for(&desired, operation)? {
            Answerer::Declarative(scripts) => {
                scripts.first(|script| script.retain(&desired, observed, &self.call_settings()))
            }
            Answerer::Webhook(caller, hook) => {
                let extra = Extra { observed: Some(observed), ..Extra::default() };
                let response = webhook::ask(&*caller, &hook, operation, &desired, &extra)?;
                webhook::patched(&hook, &desired, &response)
            }
            Answerer::Rules(_, Rules { retain: Some(retain), .. }) => {
                retain(&mut desired, observed)?;
                Ok(desired)
            }
            _ => Err(no_answer(&desired, operation)),
        }
    }

    /// The part of the object's status that is reported upward, if there is any.
    pub fn interpret_status(&self, object: &Value) -> Result<Option<Value>> {
        let operation = Operation::InterpretStatus;
        match self.answerer_for(object, operation)? {
            Answerer::Declarative(scripts) => {
                scripts.first(|script| script.reflect(object, &self.call_settings()))
            }
            Answerer::Webhook(caller, hook) => {
                let extra = Extra::default();
                let response = webhook::ask(&*caller, &hook, operation, object, &extra)?;
                Ok(response.raw_status)
            }
            Answerer::Rules(_, Rules { reflect: Some(reflect), .. }) => reflect(object),
            _ => native::reflect_whole(object),
        }
    }

    /// Whether the object is healthy.
    pub fn interpret_health(&self, object: &Value) -> Result<bool> {
        let operation = Operation::InterpretHealth;
        match self.answerer_for(object, operation)? {
            Answerer::Declarative(scripts) => {
                scripts.first(|script| script.health(object, &self.call_settings()))
            }
            Answerer::Webhook(caller, hook) => {
                let extra = Extra::default();
                let response = webhook::ask(&*caller, &hook, operation, object, &extra)?;
                Ok(response.healthy.unwrap_or(false))
            }
            Answerer::Rules(_, Rules { health: Some(health), .. }) => health(object),
            _ => Err(no_answer(object, operation)),
        }
    }

    /// The template with a status made from those of the members; only the status is meant to be used.
    pub fn aggregate_status(
        &self,
        mut object: Value,
        items: &[AggregatedStatusItem],
    ) -> Result<Value> {
        let operation = Operation::AggregateStatus;
        match self.answerer_for(&object, operation)? {
            Answerer::Declarative(scripts) => {
                scripts.first(|script| script.aggregate(&object, items, &self.call_settings()))
            }
            Answerer::Webhook(caller, hook) => {
                let extra = Extra { statuses: items, ..Extra::default() };
                let response = webhook::ask(&*caller, &hook, operation, &object, &extra)?;
                webhook::patched(&hook, &object, &response)
            }
            Answerer::Rules(_, Rules { aggregate: Some(aggregate), .. }) => {
                aggregate(&mut object, &Members { items, now: (self.clock)() })?;
                Ok(object)
            }
            _ => Err(no_answer(&object, operation)),
        }
    }

    /// Other objects that must go where this one goes, validated and sorted.
    pub fn interpret_dependency(&self, object: &Value) -> Result<Vec<DependentObjectReference>> {
        let operation = Operation::InterpretDependency;
        let mut references = match self.answerer_for(object, operation)? {
            Answerer::Declarative(scripts) => {
                scripts.dependencies(object, &self.call_settings())?
            }
            Answerer::Webhook(caller, hook) => {
                let extra = Extra::default();
                let response = webhook::ask(&*caller, &hook, operation, object, &extra)?;
                webhook::dependencies(response)?
            }
            Answerer::Rules(_, Rules { dependencies: Some(dependencies), .. }) => {
                dependencies(object)?
            }
            _ => return Err(no_answer(object, operation)),
        };
        dependency::validate(&references)?;
        dependency::sort(&mut references);
        Ok(references)
    }

    fn call_settings(&self) -> Call<'_> {
        Call { gates: self.gates, limits: &self.limits, clock: &*self.clock }
    }
}

fn no_answer(object: &Value, operation: Operation) -> Error {
    if operation == Operation::InterpretComponent {
        return Error::NotImplemented(operation);
    }
    Error::NoInterpreter { operation, gvk: object.gvk() }
}
