//! An untyped configuration value and its byte range in the text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeValue};

/// A value and its position in the text.
#[derive(Debug, Clone)]
pub(crate) struct ValueNode {
    pub(crate) span: Range<usize>,
    pub(crate) item: NodeValue,
}

/// A value that is not validated yet, so only its TOML notation determines its type.
#[derive(Debug, Clone)]
pub(crate) enum NodeValue {
    Switch(bool),
    Integer(i64),
    /// A number with a decimal point, as written.
    Float(String),
    Text(String),
    List(Vec<ValueNode>),
    Table(Vec<(KeyName, ValueNode)>),
    /// Text from a variable or a flag, which has no notation. The key's type determines how it is parsed.
    Plain(String),
    /// A value that no key accepts, with a description for messages.
    Other(&'static str),
}

/// A key in a table, and its position.
#[derive(Debug, Clone)]
pub(crate) struct KeyName {
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
}

impl KeyName {
    pub(crate) fn from_toml(key: &Spanned<DeString<'_>>) -> Self {
        Self { text: key.get_ref().to_string(), span: key.span() }
    }
}

impl ValueNode {
    /// Creates a value from plain text that does not come from a file.
    pub(crate) fn written(text: &str) -> Self {
        Self { span: 0..0, item: NodeValue::Plain(text.to_owned()) }
    }

    /// Creates a list from plain texts that do not come from a file.
    pub(crate) fn written_list<'a>(texts: impl IntoIterator<Item = &'a String>) -> Self {
        let nodes = texts.into_iter().map(|text| Self::written(text)).collect();
        Self { span: 0..0, item: NodeValue::List(nodes) }
    }

    pub(crate) fn from_toml(value: &Spanned<DeValue<'_>>) -> Self {
        Self { span: value.span(), item: item(value.get_ref()) }
    }

    /// Describes the type of the value for messages. The content is omitted, because it may be secret.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.item {
            NodeValue::Switch(_) => "a boolean",
            NodeValue::Integer(_) => "an integer",
            NodeValue::Float(_) => "a float",
            NodeValue::Text(_) | NodeValue::Plain(_) => "a string",
            NodeValue::List(_) => "an array",
            NodeValue::Table(_) => "a table",
            NodeValue::Other(name) => name,
        }
    }
}

fn item(value: &DeValue<'_>) -> NodeValue {
    match value {
        DeValue::String(text) => NodeValue::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(NodeValue::Other("an integer of more than 64 bits"), NodeValue::Integer),
        DeValue::Float(number) => NodeValue::Float(number.as_str().to_owned()),
        DeValue::Boolean(on) => NodeValue::Switch(*on),
        DeValue::Datetime(_) => NodeValue::Other("a date or time"),
        DeValue::Array(values) => {
            NodeValue::List(values.iter().map(ValueNode::from_toml).collect())
        }
        DeValue::Table(table) => NodeValue::Table(
            table
                .iter()
                .map(|(key, value)| (KeyName::from_toml(key), ValueNode::from_toml(value)))
                .collect(),
        ),
    }
}
