//! Who is told of the steps of a decision while it is made. Reading a clock is up to them.

/// A part of a decision, in the order in which they come. Every affinity group begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Filter {
        /// Whether any cluster was left.
        passed: bool,
    },
    Score,
    Select,
    AssignReplicas,
}

/// Where rules are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    Filter,
    Score,
}

pub trait Observer {
    /// The first step begins. Every other one begins where the one before it ended.
    fn began(&self);

    fn ended(&self, step: Step);

    /// Whether it wants to be told of every rule for every cluster, which are many.
    fn sees_rules(&self) -> bool;

    /// A rule was asked about a cluster; before that, nothing was done since it was last told anything.
    fn asked(&self, rule: &'static str, at: Point, passed: bool);
}

/// Nobody is told.
pub(crate) struct Silent;

impl Observer for Silent {
    fn began(&self) {}

    fn ended(&self, _: Step) {}

    fn sees_rules(&self) -> bool {
        false
    }

    fn asked(&self, _: &'static str, _: Point, _: bool) {}
}
