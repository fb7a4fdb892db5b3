//! The questions that are asked about objects.

use std::fmt;

use karmada_api::config::InterpreterOperation;

/// A question about an object; the names are those of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    InterpretReplica,
    InterpretComponent,
    ReviseReplica,
    Retain,
    AggregateStatus,
    InterpretDependency,
    InterpretStatus,
    InterpretHealth,
}

impl Operation {
    pub const ALL: [Self; 8] = [
        Self::InterpretReplica,
        Self::InterpretComponent,
        Self::ReviseReplica,
        Self::Retain,
        Self::AggregateStatus,
        Self::InterpretDependency,
        Self::InterpretStatus,
        Self::InterpretHealth,
    ];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::InterpretReplica => "InterpretReplica",
            Self::InterpretComponent => "InterpretComponent",
            Self::ReviseReplica => "ReviseReplica",
            Self::Retain => "Retain",
            Self::AggregateStatus => "AggregateStatus",
            Self::InterpretDependency => "InterpretDependency",
            Self::InterpretStatus => "InterpretStatus",
            Self::InterpretHealth => "InterpretHealth",
        }
    }

    /// The function a script defines to answer.
    pub fn function(self) -> &'static str {
        match self {
            Self::InterpretReplica => "GetReplicas",
            Self::InterpretComponent => "GetComponents",
            Self::ReviseReplica => "ReviseReplica",
            Self::Retain => "Retain",
            Self::AggregateStatus => "AggregateStatus",
            Self::InterpretDependency => "GetDependencies",
            Self::InterpretStatus => "ReflectStatus",
            Self::InterpretHealth => "InterpretHealth",
        }
    }

    /// The operation of a name, whatever its case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name().eq_ignore_ascii_case(name))
    }

    /// The operation as the API spells it; there is none for words that mean no single question.
    pub fn from_api(operation: &InterpreterOperation) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == operation.as_str())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
