//! A configuration key, and the macros that declare keys in the table.

use serde_json::Value as Json;

use crate::agent_section::{self, AgentSection};
use crate::document;
use crate::environment;
use crate::node::ValueNode;
use crate::preset;
use crate::problem::ValueFault;
use crate::shape::{ValueLimits, ValueShape};
use crate::table;

/// One key: its name, its description, and the function that validates its values.
pub struct ConfigKey {
    /// The dotted name. A star matches any name that the user chooses.
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) fallback: Fallback,
    pub(crate) limits: ValueLimits,
    pub(crate) shape: fn() -> ValueShape,
    pub(crate) check: fn(&ValueNode, ValueLimits) -> Result<Json, Vec<ValueFault>>,
}

/// The value if no layer sets the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// A default value, written as TOML.
    Value(&'static str),
    Unset,
    Required,
}

/// Returns every key. Tests use this to check that each key has an effect.
pub fn keys() -> impl Iterator<Item = &'static ConfigKey> {
    let (options, rest) = table::OPTION_KEYS.split_at(end_of_agents());
    let agents = agent_section::agent_sections().iter().flat_map(AgentSection::config_keys);
    let options = options.iter().chain(agents).chain(rest);
    options.chain(table::EVENT_KEYS).chain(preset::keys())
}

/// Returns the sections and their descriptions, in the order of their keys.
pub(crate) fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    let after = table::SECTIONS.iter().position(|(prefix, _)| *prefix == AGENTS);
    let (sections, rest) = table::SECTIONS.split_at(after.map_or(0, |index| index + 1));
    let agents = agent_section::agent_sections().iter();
    let agents = agents.map(|section| (section.prefix, section.doc));
    sections.iter().copied().chain(agents).chain(rest.iter().copied())
}

/// The section of the agents that users define. The sections of adapters follow it.
const AGENTS: &str = "agents.*";

/// Returns how many keys of the table come before those of adapters.
fn end_of_agents() -> usize {
    let last = table::OPTION_KEYS.iter().rposition(|key| key.name.starts_with(AGENTS));
    last.map_or(0, |index| index + 1)
}

impl ConfigKey {
    /// The dotted name. A star matches any name that the user chooses.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The description of the key that users see.
    pub fn description(&self) -> &'static str {
        self.doc.trim()
    }

    /// The type of the key's value, as users see it.
    pub fn takes(&self) -> String {
        (self.shape)().label()
    }

    /// The accepted keywords, or an empty list if the key accepts other values.
    pub fn choices(&self) -> &'static [&'static str] {
        if let ValueShape::Word(words) = (self.shape)() { words } else { &[] }
    }

    /// The environment variable that sets the key, if its value is scalar.
    pub fn variable(&self) -> Option<String> {
        environment::variable_of(self)
    }

    /// The default value, as `config show` prints it.
    pub fn default_value(&self) -> Option<Json> {
        let node = self.default_node()?;
        Some((self.check)(&node, self.limits).expect("defaults are valid"))
    }

    pub(crate) fn default_node(&self) -> Option<ValueNode> {
        match self.fallback {
            Fallback::Value(text) => Some(document::literal(text)),
            Fallback::Unset | Fallback::Required => None,
        }
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &'static str> {
        self.name.split('.')
    }
}

impl std::fmt::Debug for ConfigKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.name)
    }
}

/// Declares sections of keys, each as `field: Type = default in LIMITS;`. A default is a TOML
/// value, `unset` or `required`. A field marked `["*"]` holds one value per name, and `as "name"`
/// renames a field whose key is a Rust keyword. The doc comments become the descriptions.
macro_rules! options {
    ($($(#[doc = $section_doc:literal])+ $prefix:literal => $Section:ident {
        $($(#[doc = $doc:literal])+ $field:ident $(as $named:literal)? $([$star:literal])? : $type:ty = $default:tt $(in $limits:expr)? ;)+
    })+) => {
        $(
            $(#[doc = $section_doc])+
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub struct $Section { $($(#[doc = $doc])+ pub $field: $type,)+ }

            impl $Section {
                pub(crate) fn take(chosen: &crate::value::EffectiveValues, prefix: &str) -> Self {
                    Self { $($field: <$type as crate::value::ConfigField>::take(
                        chosen, &format!("{prefix}.{}", crate::key::field!($field $($named)?)),
                    ),)+ }
                }
            }
        )+

        /// The sections and their descriptions.
        pub(crate) const SECTIONS: &[(&str, &str)] = &[$(($prefix, concat!($($section_doc),+)),)+];

        /// The keys of all sections, in declaration order.
        pub(crate) const OPTION_KEYS: &[crate::key::ConfigKey] = &[$($(crate::key::ConfigKey {
            name: concat!($prefix, ".", crate::key::field!($field $($named)?) $(, ".", $star)?),
            doc: concat!($($doc),+),
            fallback: crate::key::fallback!($default),
            limits: crate::key::limits!($($limits)?),
            shape: <$type as crate::value::ConfigField>::shape,
            check: <$type as crate::value::ConfigField>::check,
        },)+)+];
    };
}

/// Declares events, and a key for the hook of each event.
macro_rules! events {
    ($($(#[doc = $doc:literal])+ $Event:ident = $name:literal;)+) => {
        /// An event that a hook can be bound to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Event { $($(#[doc = $doc])+ $Event,)+ }

        impl Event {
            /// All events, in declaration order.
            pub const ALL: &[Self] = &[$(Self::$Event),+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$Event => $name),+ }
            }

            /// The key that configures the event's hook.
            pub fn key(self) -> &'static str {
                match self { $(Self::$Event => concat!("hooks.", $name)),+ }
            }
        }

        /// The keys that configure hooks.
        pub(crate) const EVENT_KEYS: &[crate::key::ConfigKey] = &[$(crate::key::ConfigKey {
            name: concat!("hooks.", $name),
            doc: concat!("Runs when", $($doc),+),
            fallback: crate::key::Fallback::Unset,
            limits: crate::shape::ValueLimits::NONE,
            shape: <crate::types::Switchable<crate::types::HookSpec> as crate::value::ConfigField>::shape,
            check: <crate::types::Switchable<crate::types::HookSpec> as crate::value::ConfigField>::check,
        },)+];
    };
}

/// Returns the last segment of a key, which is the field's name unless it is renamed.
macro_rules! field {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $named:literal) => {
        $named
    };
}

macro_rules! fallback {
    (unset) => {
        crate::key::Fallback::Unset
    };
    (required) => {
        crate::key::Fallback::Required
    };
    ($value:tt) => {
        crate::key::Fallback::Value(stringify!($value))
    };
}

macro_rules! limits {
    () => {
        crate::shape::ValueLimits::NONE
    };
    ($limits:expr) => {
        $limits
    };
}

pub(crate) use {events, fallback, field, limits, options};
