//! Addresses of the daemon's API, made from what people type.

use provost_api::{ApiError, Client, SessionRow};
use serde::Deserialize;

/// The answer that has one session.
#[derive(Debug, Deserialize)]
pub(crate) struct SessionReply {
    pub(crate) session: SessionRow,
}

/// Gives the address of a session by its id, a part of it or its name.
pub(crate) fn session(id: &str) -> String {
    format!("/v1/sessions/{}", encode(id))
}

/// Gives the address of something that can be done with a session.
pub(crate) fn action(id: &str, action: &str) -> String {
    format!("{}/{action}", session(id))
}

/// Gives an address with a query; parameters without a value are left out.
pub(crate) fn query(path: &str, parameters: &[(&str, Option<String>)]) -> String {
    let given: Vec<String> = parameters
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", encode(value.as_deref()?))))
        .collect();
    if given.is_empty() { path.to_owned() } else { format!("{path}?{}", given.join("&")) }
}

/// Asks for a session.
pub(crate) fn find(client: &Client, id: &str) -> Result<SessionRow, ApiError> {
    client.get::<SessionReply>(&session(id)).map(|reply| reply.session)
}

/// Encodes everything but the characters that mean nothing in an address.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            // A name may be "..", which some would take for the directory above.
            b'.' if text.bytes().any(|byte| byte != b'.') => encoded.push('.'),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_typed_can_change_the_address() {
        assert_eq!(session("a b/../?x=1\r\n"), "/v1/sessions/a%20b%2F..%2F%3Fx%3D1%0D%0A");
        assert_eq!(session(".."), "/v1/sessions/%2E%2E");
        assert_eq!(action("é", "send"), "/v1/sessions/%C3%A9/send");
    }

    #[test]
    fn only_given_parameters_are_sent() {
        let parameters =
            [("role", None), ("state", Some("a&b".to_owned())), ("all", Some("1".to_owned()))];
        assert_eq!(query("/v1/sessions", &parameters), "/v1/sessions?state=a%26b&all=1");
        assert_eq!(query("/v1/sessions", &[("x", None)]), "/v1/sessions");
    }
}
