//! The sections of the configuration that adapters declare: `[agents.NAME]` for each agent that
//! users start by name.
//!
//! A program registers the sections of its adapters once, before it reads any configuration.

use std::sync::OnceLock;

use crate::key::{ConfigKey, Fallback};
use crate::preset;
use crate::resolve::Resolved;
use crate::shape::ValueLimits;
use crate::value::ConfigField;

/// A section that an adapter declares with [`agent_section!`](crate::agent_section).
#[derive(Debug, Clone, Copy)]
pub struct AgentSection {
    /// The name of the agent.
    pub name: &'static str,
    /// The name of the section: `agents.NAME`.
    pub prefix: &'static str,
    pub doc: &'static str,
    pub keys: &'static [SectionKey],
}

/// A key of an agent's section.
#[derive(Debug)]
pub struct SectionKey {
    key: ConfigKey,
    terms: KeyTerms,
}

/// Which layers may set a key of an agent, and how.
#[derive(Debug, Clone, Copy)]
pub struct KeyTerms {
    /// The effect of the key, if a project's value is ignored until the user trusts it.
    effect: Option<&'static str>,
    variable: Option<&'static str>,
    in_presets: bool,
}

/// The value of an agent's key if no layer sets the key.
#[derive(Debug, Clone, Copy)]
pub enum SectionDefault {
    /// A default value, written as TOML.
    Value(&'static str),
    Unset,
}

/// The type of a field of a section. Only types of this crate implement this trait.
#[expect(private_bounds, reason = "only this crate defines types of values")]
pub trait SectionField: ConfigField {}

impl<T: ConfigField> SectionField for T {}

static REGISTERED: OnceLock<RegisteredSections> = OnceLock::new();

struct RegisteredSections {
    sections: Vec<AgentSection>,
    /// The keys of presets, which are derived from the keys that they set.
    presets: Vec<ConfigKey>,
}

/// Registers the sections of all adapters. Only the first call has an effect.
pub fn register_agent_sections(sections: impl IntoIterator<Item = AgentSection>) {
    REGISTERED.get_or_init(|| {
        let sections: Vec<AgentSection> = sections.into_iter().collect();
        let keys = sections.iter().flat_map(|section| section.keys);
        let presets = keys.filter(|key| key.terms.in_presets);
        let presets = presets.map(|key| preset::key_for(&key.key)).collect();
        RegisteredSections { sections, presets }
    });
}

/// Returns the registered sections.
pub fn agent_sections() -> &'static [AgentSection] {
    REGISTERED.get().map_or(&[], |registered| &registered.sections)
}

/// Returns the keys that presets may set in these sections, in their form for presets.
pub(crate) fn preset_keys() -> &'static [ConfigKey] {
    REGISTERED.get().map_or(&[], |registered| &registered.presets)
}

/// Whether an agent has a section of its own, whose keys differ from those of other agents.
pub fn has_section(agent: &str) -> bool {
    agent_sections().iter().any(|section| section.name == agent)
}

/// Returns the effect of a key of an agent's section, if the key needs trust. Returns `Some(None)` if the key needs no
/// trust, and `None` if no section has the key.
pub fn trust_effect(key: &str) -> Option<Option<&'static str>> {
    let found = agent_sections().iter().flat_map(|section| section.keys).find(|known| {
        let name = known.key.name;
        name == key || name.strip_suffix('*').is_some_and(|start| key.starts_with(start))
    });
    found.map(|key| key.terms.effect)
}

/// Returns the short name of the variable that sets a key, if it has one.
pub(crate) fn short_variable(key: &str) -> Option<&'static str> {
    short_variables().find(|(known, _)| *known == key).map(|(_, variable)| variable)
}

/// Returns the keys whose variables have a short name, each with the short name.
pub(crate) fn short_variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    let keys = agent_sections().iter().flat_map(|section| section.keys);
    keys.filter_map(|key| Some((key.key.name, key.terms.variable?)))
}

impl AgentSection {
    pub(crate) fn config_keys(&self) -> impl Iterator<Item = &'static ConfigKey> + use<> {
        self.keys.iter().map(|key| &key.key)
    }
}

impl SectionKey {
    /// Declares a key. The type determines which values the key accepts.
    pub const fn new<T: SectionField>(
        name: &'static str,
        doc: &'static str,
        default: SectionDefault,
        terms: KeyTerms,
    ) -> SectionKey {
        let fallback = match default {
            SectionDefault::Value(text) => Fallback::Value(text),
            SectionDefault::Unset => Fallback::Unset,
        };
        let limits = ValueLimits::NONE;
        let key = ConfigKey {
            name,
            doc,
            fallback,
            limits,
            shape: <T as ConfigField>::shape,
            check: <T as ConfigField>::check,
        };
        SectionKey { key, terms }
    }
}

impl KeyTerms {
    /// The terms of a key that runs nothing, reads no file and widens no permission.
    pub const HARMLESS: KeyTerms = KeyTerms { effect: None, variable: None, in_presets: false };

    /// Returns the terms of a key that needs trust because of its effect.
    pub const fn needs_trust(effect: &'static str) -> KeyTerms {
        KeyTerms { effect: Some(effect), ..KeyTerms::HARMLESS }
    }

    /// Sets the short name of the variable that sets the key.
    #[must_use]
    pub const fn variable(self, variable: &'static str) -> KeyTerms {
        KeyTerms { variable: Some(variable), ..self }
    }

    /// Allows presets to set the key.
    #[must_use]
    pub const fn in_presets(self) -> KeyTerms {
        KeyTerms { in_presets: true, ..self }
    }
}

/// Reads a field of a section.
pub fn section_field<T: SectionField>(config: &Resolved, name: &str) -> T {
    <T as ConfigField>::take(config.agent_values(), name)
}

/// Declares the section of an agent, as fields such as `/// Doc. field: Type = default, TERMS;`. A
/// default is a TOML value or `unset`, and the terms are [`KeyTerms`]. A field marked `["*"]` holds
/// one value per name. The doc comments become the descriptions.
///
/// The struct that is declared has the constant `SECTION` and the function `from_config`.
#[macro_export]
macro_rules! agent_section {
    (
        $(#[doc = $section_doc:literal])+
        $name:literal => $Section:ident {
            $($(#[doc = $doc:literal])+ $field:ident $([$star:literal])? : $type:ty = $default:tt, $terms:expr;)+
        }
    ) => {
        $(#[doc = $section_doc])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $Section { $($(#[doc = $doc])+ pub $field: $type,)+ }

        impl $Section {
            /// The section, to be registered.
            pub const SECTION: $crate::AgentSection = $crate::AgentSection {
                name: $name,
                prefix: concat!("agents.", $name),
                doc: concat!($($section_doc),+),
                keys: &[$($crate::SectionKey::new::<$type>(
                    concat!("agents.", $name, ".", stringify!($field) $(, ".", $star)?),
                    concat!($($doc),+),
                    $crate::section_default!($default),
                    $terms,
                ),)+],
            };

            /// Reads the section from a configuration.
            pub fn from_config(config: &$crate::Resolved) -> Self {
                Self { $($field: $crate::section_field::<$type>(
                    config,
                    concat!("agents.", $name, ".", stringify!($field)),
                ),)+ }
            }
        }
    };
}

/// The default of a field in [`agent_section!`](crate::agent_section).
#[doc(hidden)]
#[macro_export]
macro_rules! section_default {
    (unset) => {
        $crate::SectionDefault::Unset
    };
    ($value:tt) => {
        $crate::SectionDefault::Value(stringify!($value))
    };
}
