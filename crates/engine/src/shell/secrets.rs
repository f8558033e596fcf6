//! Holds secret answers while they are delivered to an agent and afterwards. Secret answers are kept only in memory. If
//! the daemon dies, they are lost, and questions whose answers were not delivered are asked again.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use provost_core::{ids::SessionId, request::RequestReply, session::ReportBody};

/// The maximum number of bytes to mask. Beyond that, the secrets of the oldest session are forgotten.
const MAX_MASK_BYTES: usize = 1 << 20;

/// The secrets that are waiting to be delivered, and those to mask. Cheap to clone.
#[derive(Clone, Default)]
pub struct Secrets {
    state: Arc<Mutex<SecretState>>,
}

#[derive(Default)]
struct SecretState {
    waiting: BTreeMap<(SessionId, String), RequestReply>,
    /// All forms in which an agent might repeat a secret.
    hidden: BTreeMap<SessionId, Vec<Vec<u8>>>,
}

/// Does not show any values.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Keeps an answer until it is delivered, and masks the answer from now on.
    pub(crate) fn keep(
        &self,
        session: SessionId,
        message: &str,
        reply: &RequestReply,
        masks: Vec<Vec<u8>>,
    ) {
        let mut state = self.lock();
        state.waiting.insert((session, message.to_owned()), reply.clone());
        let hidden = state.hidden.entry(session).or_default();
        hidden.extend(masks);
        hidden.sort();
        hidden.dedup();
        while size(&state.hidden) > MAX_MASK_BYTES {
            state.hidden.pop_first();
        }
    }

    pub(crate) fn get(&self, session: SessionId, message: &str) -> Option<RequestReply> {
        self.lock().waiting.get(&(session, message.to_owned())).cloned()
    }

    pub(crate) fn forget(&self, session: SessionId, message: &str) {
        self.lock().waiting.remove(&(session, message.to_owned()));
    }

    /// Returns the forms that the session's holders must mask.
    pub(crate) fn masks(&self, session: SessionId) -> Vec<Vec<u8>> {
        self.lock().hidden.get(&session).cloned().unwrap_or_default()
    }

    /// Masks secrets in a report about a session.
    pub(crate) fn mask_testimony(&self, session: SessionId, report: &ReportBody) -> ReportBody {
        let forms = self.masks(session);
        match report {
            ReportBody::Claim { kind, text } => ReportBody::Claim {
                kind: *kind,
                text: text.as_ref().map(|text| mask_text(text, &forms)),
            },
            ReportBody::Fact { kind, value } => {
                ReportBody::Fact { kind: *kind, value: mask_text(value, &forms) }
            }
            ReportBody::Progress(progress) => ReportBody::Progress(*progress),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SecretState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(hidden: &BTreeMap<SessionId, Vec<Vec<u8>>>) -> usize {
    hidden.values().flatten().map(Vec::len).sum()
}

/// Masks secrets in a text. The secrets are stored in their JSON form, so the text is compared in
/// that form. If the result is not valid JSON, the entire text is masked.
fn mask_text(text: &str, forms: &[Vec<u8>]) -> String {
    let line = serde_json::Value::from(text).to_string();
    let masked = forms.iter().fold(line.clone(), |line, form| {
        let form = String::from_utf8_lossy(form);
        line.replace(form.as_ref(), &"*".repeat(form.len()))
    });
    if masked == line {
        text.to_owned()
    } else {
        serde_json::from_str(&masked).unwrap_or_else(|_| "*".repeat(text.len()))
    }
}

#[cfg(test)]
mod tests {
    use provost_core::lifecycle::ClaimKind;

    use super::*;

    fn id(no: u8) -> SessionId {
        format!("{no:08x}-0000-7000-8000-000000000000").parse().unwrap()
    }

    fn masked(secrets: &Secrets, session: SessionId, text: &str) -> String {
        let claim = ReportBody::Claim { kind: ClaimKind::Working, text: Some(text.to_owned()) };
        let ReportBody::Claim { text: Some(text), .. } = secrets.mask_testimony(session, &claim)
        else {
            panic!()
        };
        text
    }

    #[test]
    fn delivered_secret_stays_masked_in_its_session() {
        let secrets = Secrets::default();
        let masks = vec![br#"s3cr\"t\\token"#.to_vec()];
        secrets.keep(id(1), "m", &RequestReply::Text("s3cr\"t\\token".to_owned()), masks);
        secrets.forget(id(1), "m");
        let text = "a \"b\"\n s3cr\"t\\token é";
        assert_eq!(masked(&secrets, id(1), text), "a \"b\"\n ************** é");
        assert_eq!(masked(&secrets, id(2), text), text);
    }

    #[test]
    fn masks_are_bounded() {
        let secrets = Secrets::default();
        for no in 0..100 {
            let masks = (0..50).map(|at| format!("{at}{no:0>500}").into_bytes()).collect();
            secrets.keep(id(no), "m", &RequestReply::Deny, masks);
        }
        assert!(size(&secrets.lock().hidden) <= MAX_MASK_BYTES);
        assert!(!secrets.masks(id(99)).is_empty());
    }
}
