//! The types of keys, for messages, the schema and the reference.

use crate::types::{bytes, duration, price, tokens};

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueShape {
    Switch,
    Duration,
    Size,
    Count,
    Tokens,
    Price,
    Word(&'static [&'static str]),
    Text(TextLabel),
    Command,
    Argv,
    Hook,
    List(Box<ValueShape>),
    /// Either this type or an explicit off.
    OrOff(Box<ValueShape>),
}

/// The singular and plural names of a plain text type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextLabel {
    pub(crate) one: &'static str,
    pub(crate) many: &'static str,
}

/// The minimum and maximum of a number, a duration (in milliseconds) or a size (in bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValueLimits {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl ValueLimits {
    /// No limits, for values that are not amounts.
    pub(crate) const NONE: Self = Self { min: 0, max: u64::MAX };

    pub(crate) fn contains(self, amount: u64) -> bool {
        (self.min..=self.max).contains(&amount)
    }
}

impl ValueShape {
    /// The name of the type in the reference.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Switch => "boolean".into(),
            Self::Duration => "duration".into(),
            Self::Size => "size".into(),
            Self::Count => "integer".into(),
            Self::Tokens => "number of tokens".into(),
            Self::Price => "price".into(),
            Self::Word(words) => {
                words.iter().map(|word| format!("`{word:?}`")).collect::<Vec<_>>().join(", ")
            }
            Self::Text(wording) => wording.one.into(),
            Self::Command => "command".into(),
            Self::Argv => "program and arguments".into(),
            Self::Hook => "hook".into(),
            Self::List(inner) => format!("list of {}", inner.plural()),
            Self::OrOff(inner) => format!("{} or off", inner.label()),
        }
    }

    /// The expected value, phrased for the middle of a sentence.
    pub(crate) fn expected(&self) -> String {
        match self {
            Self::Switch => "true or false".into(),
            Self::Duration => {
                r#"a duration such as "250ms", "2s" or "1h30m", or whole seconds"#.into()
            }
            Self::Size => r#"a size such as "64MiB" or "1GB", or whole bytes"#.into(),
            Self::Count => "a whole number".into(),
            Self::Tokens => r#"a number of tokens such as "2M" or "500k""#.into(),
            Self::Price => "a price such as 2 or 1.25".into(),
            Self::Word(words) => one_of(words),
            Self::Text(wording) => format!("a string ({})", wording.one),
            Self::Command => "a command: a string for the shell or an array of strings".into(),
            Self::Argv => "an array of strings: the program and its arguments".into(),
            Self::Hook => "a command, or a table with command, time_limit and output_limit".into(),
            Self::List(inner) => format!("an array of {}", inner.plural()),
            Self::OrOff(inner) => format!(r#"{}, or "off""#, inner.expected()),
        }
    }

    /// Whether the value can be written as a single text, as in an environment variable.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Switch | Self::Duration | Self::Size | Self::Count | Self::Tokens => true,
            Self::Price | Self::Word(_) | Self::Text(_) | Self::Command | Self::Hook => true,
            Self::Argv | Self::List(_) => false,
            Self::OrOff(inner) => inner.is_scalar(),
        }
    }

    /// Formats an amount in the notation of this type.
    pub(crate) fn amount(&self, amount: u64) -> String {
        match self {
            Self::Duration => duration::format(std::time::Duration::from_millis(amount)),
            Self::Size => bytes::format(amount),
            Self::Tokens => tokens::format(amount),
            Self::OrOff(inner) => inner.amount(amount),
            Self::Switch | Self::Count | Self::Word(_) | Self::Text(_) => amount.to_string(),
            Self::Price => price::format(amount),
            Self::Command | Self::Argv | Self::Hook | Self::List(_) => amount.to_string(),
        }
    }

    fn plural(&self) -> String {
        match self {
            Self::Text(wording) => wording.many.into(),
            Self::Switch | Self::Duration | Self::Size | Self::Count | Self::Price => {
                format!("{}s", self.label())
            }
            Self::Word(_) | Self::Command | Self::Argv | Self::Hook => format!("{}s", self.label()),
            Self::Tokens => "numbers of tokens".into(),
            Self::List(_) | Self::OrOff(_) => self.label(),
        }
    }
}

/// Lists the words, phrased for the middle of a sentence.
pub(crate) fn one_of(words: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{:?}", word.as_ref())).collect();
    match quoted.as_slice() {
        [] => "nothing".into(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
