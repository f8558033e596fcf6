//! An untyped configuration value, with its byte range in the text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeValue};

/// A value and its position in the text.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) item: Item,
}

/// A value, as far as its notation determines it.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Switch(bool),
    Integer(i64),
    /// A number with a decimal point, as written.
    Float(String),
    Text(String),
    List(Vec<Node>),
    Table(Vec<(Name, Node)>),
    /// Text from a variable or a flag, without notation: the key's type decides how to read it.
    Written(String),
    /// A value that no key accepts, with its description for messages.
    Other(&'static str),
}

/// A table's key and its position.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
}

impl Name {
    pub(crate) fn from_toml(key: &Spanned<DeString<'_>>) -> Self {
        Self { text: key.get_ref().to_string(), span: key.span() }
    }
}

impl Node {
    /// Returns a value from plain text, outside any file.
    pub(crate) fn written(text: &str) -> Self {
        Self { span: 0..0, item: Item::Written(text.to_owned()) }
    }

    /// Returns a list from plain texts, outside any file.
    pub(crate) fn written_list<'a>(texts: impl IntoIterator<Item = &'a String>) -> Self {
        let nodes = texts.into_iter().map(|text| Self::written(text)).collect();
        Self { span: 0..0, item: Item::List(nodes) }
    }

    pub(crate) fn from_toml(value: &Spanned<DeValue<'_>>) -> Self {
        Self { span: value.span(), item: item(value.get_ref()) }
    }

    /// Describes the type of the value for messages; never its content, which may be secret.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.item {
            Item::Switch(_) => "a boolean",
            Item::Integer(_) => "an integer",
            Item::Float(_) => "a float",
            Item::Text(_) | Item::Written(_) => "a string",
            Item::List(_) => "an array",
            Item::Table(_) => "a table",
            Item::Other(name) => name,
        }
    }
}

fn item(value: &DeValue<'_>) -> Item {
    match value {
        DeValue::String(text) => Item::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Item::Other("an integer of more than 64 bits"), Item::Integer),
        DeValue::Float(number) => Item::Float(number.as_str().to_owned()),
        DeValue::Boolean(on) => Item::Switch(*on),
        DeValue::Datetime(_) => Item::Other("a date or time"),
        DeValue::Array(values) => Item::List(values.iter().map(Node::from_toml).collect()),
        DeValue::Table(table) => Item::Table(
            table
                .iter()
                .map(|(key, value)| (Name::from_toml(key), Node::from_toml(value)))
                .collect(),
        ),
    }
}
