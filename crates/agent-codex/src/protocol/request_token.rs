//! Tokens that identify a request from the agent. A token also determines the format of the answer,
//! so that an answer can be encoded from the token alone, even after a restart.

use serde_json::{Value, json};

use super::wire::RpcId;

/// The kind of request, and its id on the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RequestToken {
    Command(RpcId),
    File(RpcId),
    Questions(RpcId),
    /// A call to one of Provost's tools.
    Tool(RpcId),
    /// An approval requested through an MCP server.
    Elicitation(RpcId),
    /// A form from an MCP server, with the types of the fields that are not text.
    Form(RpcId, Value),
    /// A request for additional permissions, with the permissions as requested.
    Permissions(RpcId, Value),
    /// A question in a message. The agent does not wait for the answer.
    MessageQuestion(String),
}

impl RequestToken {
    pub(crate) fn encode(&self) -> String {
        let with = |id: &RpcId, more: &Value| json!([id.to_json(), more]);
        match self {
            RequestToken::Command(id) => format!("cmd:{}", id.to_json()),
            RequestToken::File(id) => format!("file:{}", id.to_json()),
            RequestToken::Questions(id) => format!("ask:{}", id.to_json()),
            RequestToken::Tool(id) => format!("tool:{}", id.to_json()),
            RequestToken::Elicitation(id) => format!("mcp:{}", id.to_json()),
            RequestToken::Form(id, types) => format!("form:{}", with(id, types)),
            RequestToken::Permissions(id, asked) => format!("perm:{}", with(id, asked)),
            RequestToken::MessageQuestion(item) => format!("async:{item}"),
        }
    }

    pub(crate) fn parse(text: &str) -> Option<RequestToken> {
        let (kind, rest) = text.split_once(':')?;
        Some(match kind {
            "cmd" => RequestToken::Command(RpcId::parse(rest)?),
            "file" => RequestToken::File(RpcId::parse(rest)?),
            "ask" => RequestToken::Questions(RpcId::parse(rest)?),
            "tool" => RequestToken::Tool(RpcId::parse(rest)?),
            "mcp" => RequestToken::Elicitation(RpcId::parse(rest)?),
            "form" => parse_pair(rest).map(|(id, types)| RequestToken::Form(id, types))?,
            "perm" => parse_pair(rest).map(|(id, asked)| RequestToken::Permissions(id, asked))?,
            "async" => RequestToken::MessageQuestion(rest.to_owned()),
            _ => return None,
        })
    }
}

fn parse_pair(text: &str) -> Option<(RpcId, Value)> {
    let (id, more) = serde_json::from_str::<(String, Value)>(text).ok()?;
    Some((RpcId::parse(&id)?, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_token_round_trips() {
        let id = || RpcId::parse("\"a:b\"").unwrap();
        for native in [
            RequestToken::Command(id()),
            RequestToken::File(RpcId::parse("0").unwrap()),
            RequestToken::Questions(id()),
            RequestToken::Tool(id()),
            RequestToken::Elicitation(id()),
            RequestToken::Form(id(), json!({"n": "integer"})),
            RequestToken::Permissions(id(), json!({"network": {"enabled": true}})),
            RequestToken::MessageQuestion("call:1".to_owned()),
        ] {
            assert_eq!(RequestToken::parse(&native.encode()), Some(native));
        }
        assert_eq!(RequestToken::parse("q1"), None);
        assert_eq!(RequestToken::parse("cmd:{}"), None);
    }
}
