//! Errors on the wire: a code for programs, a message for users, and commands to try next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Hint;

/// The kind of an error. Each kind has its own exit code, documented in `provost help exit-codes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The requested condition does not hold: something failed, is disputed, or did not pass its
    /// checks.
    Failed,
    BadRequest,
    NotFound,
    /// The request is valid, but not possible in the current state.
    Refused,
    /// The caller lacks permission. For example, an agent cannot act for its operator.
    Forbidden,
    TimedOut,
    /// The session or run that the caller waits for needs input from the user.
    InputNeeded,
    Unreachable,
    /// The ledger is read-only.
    ReadOnly,
    /// The disk is full, or the ledger cannot be written.
    Storage,
    Internal,
}

impl ErrorCode {
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorCode::Failed => 1,
            ErrorCode::BadRequest => 2,
            ErrorCode::NotFound => 3,
            ErrorCode::Refused | ErrorCode::Forbidden | ErrorCode::ReadOnly => 4,
            ErrorCode::TimedOut => 5,
            ErrorCode::InputNeeded => 7,
            ErrorCode::Unreachable | ErrorCode::Storage | ErrorCode::Internal => 6,
        }
    }

    pub fn http_status(self) -> u16 {
        match self {
            ErrorCode::Failed => 422,
            ErrorCode::BadRequest => 400,
            ErrorCode::NotFound => 404,
            ErrorCode::Refused | ErrorCode::InputNeeded => 409,
            ErrorCode::Forbidden => 403,
            ErrorCode::TimedOut => 504,
            ErrorCode::Unreachable => 502,
            ErrorCode::ReadOnly => 423,
            ErrorCode::Storage => 507,
            ErrorCode::Internal => 500,
        }
    }
}

/// An error, and commands that may resolve it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub code: ErrorCode,
    pub message: String,
    /// Commands to try next.
    #[serde(default)]
    pub next: Vec<Hint>,
    /// The ID or name that matches several things. Set only if the error is an ambiguous ID or
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ambiguous: Option<Box<AmbiguousId>>,
}

/// A text that matches several things, and their IDs in the form that lists show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AmbiguousId {
    pub text: String,
    pub ids: Vec<String>,
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        ApiError { code, message: message.into(), next: Vec::new(), ambiguous: None }
    }

    #[must_use]
    pub fn next(mut self, command: impl Into<Hint>) -> Self {
        self.next.push(command.into());
        self
    }

    /// Adds several commands to try next.
    #[must_use]
    pub fn next_all<H: Into<Hint>>(mut self, commands: impl IntoIterator<Item = H>) -> Self {
        self.next.extend(commands.into_iter().map(H::into));
        self
    }
}

/// The body of every error reply.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    pub ok: bool,
    pub error: ApiError,
}

impl From<ApiError> for ErrorBody {
    fn from(error: ApiError) -> Self {
        ErrorBody { ok: false, error }
    }
}
