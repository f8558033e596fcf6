//! Tokens that identify a request of the agent. A token holds the form that its answer needs, so
//! that an answer can be encoded from the token alone, after any restart.

use serde_json::{Value, json};

use super::wire::Id;

/// The kind of a request, and its id on the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Native {
    Command(Id),
    File(Id),
    Questions(Id),
    /// A call of one of Provost's tools.
    Tool(Id),
    /// An approval requested through an MCP server.
    Elicitation(Id),
    /// A form of an MCP server, with the types of the fields that are not text.
    Form(Id, Value),
    /// Additional permissions, as requested.
    Permissions(Id, Value),
    /// A question in a message; it does not block.
    Beside(String),
}

impl Native {
    pub(crate) fn text(&self) -> String {
        let with = |id: &Id, more: &Value| json!([id.text(), more]);
        match self {
            Native::Command(id) => format!("cmd:{}", id.text()),
            Native::File(id) => format!("file:{}", id.text()),
            Native::Questions(id) => format!("ask:{}", id.text()),
            Native::Tool(id) => format!("tool:{}", id.text()),
            Native::Elicitation(id) => format!("mcp:{}", id.text()),
            Native::Form(id, types) => format!("form:{}", with(id, types)),
            Native::Permissions(id, asked) => format!("perm:{}", with(id, asked)),
            Native::Beside(item) => format!("async:{item}"),
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Native> {
        let (kind, rest) = text.split_once(':')?;
        Some(match kind {
            "cmd" => Native::Command(Id::parse(rest)?),
            "file" => Native::File(Id::parse(rest)?),
            "ask" => Native::Questions(Id::parse(rest)?),
            "tool" => Native::Tool(Id::parse(rest)?),
            "mcp" => Native::Elicitation(Id::parse(rest)?),
            "form" => with(rest).map(|(id, types)| Native::Form(id, types))?,
            "perm" => with(rest).map(|(id, asked)| Native::Permissions(id, asked))?,
            "async" => Native::Beside(rest.to_owned()),
            _ => return None,
        })
    }
}

fn with(text: &str) -> Option<(Id, Value)> {
    let (id, more) = serde_json::from_str::<(String, Value)>(text).ok()?;
    Some((Id::parse(&id)?, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_given() {
        let id = || Id::parse("\"a:b\"").unwrap();
        for native in [
            Native::Command(id()),
            Native::File(Id::parse("0").unwrap()),
            Native::Questions(id()),
            Native::Tool(id()),
            Native::Elicitation(id()),
            Native::Form(id(), json!({"n": "integer"})),
            Native::Permissions(id(), json!({"network": {"enabled": true}})),
            Native::Beside("call:1".to_owned()),
        ] {
            assert_eq!(Native::parse(&native.text()), Some(native));
        }
        assert_eq!(Native::parse("q1"), None);
        assert_eq!(Native::parse("cmd:{}"), None);
    }
}
