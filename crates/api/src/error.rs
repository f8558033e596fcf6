//! Errors on the wire: a code for programs, a message for users, and the next commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of an error. Each has its exit code, documented in `provost help exit-codes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The requested condition does not hold: failed, disputed, checks failed.
    Failed,
    BadRequest,
    NotFound,
    /// Not possible in this state.
    Refused,
    /// The caller lacks permission: an agent cannot act for its operator.
    Forbidden,
    TimedOut,
    /// The awaited session or run needs input from the user.
    InputNeeded,
    Unreachable,
    /// The ledger is read-only.
    ReadOnly,
    /// The disk is full, or the ledger cannot be written.
    Storage,
    Internal,
}

impl Code {
    pub fn exit_code(self) -> u8 {
        match self {
            Code::Failed => 1,
            Code::BadRequest => 2,
            Code::NotFound => 3,
            Code::Refused | Code::Forbidden | Code::ReadOnly => 4,
            Code::TimedOut => 5,
            Code::InputNeeded => 7,
            Code::Unreachable | Code::Storage | Code::Internal => 6,
        }
    }

    pub fn http_status(self) -> u16 {
        match self {
            Code::Failed => 422,
            Code::BadRequest => 400,
            Code::NotFound => 404,
            Code::Refused | Code::InputNeeded => 409,
            Code::Forbidden => 403,
            Code::TimedOut => 504,
            Code::Unreachable => 502,
            Code::ReadOnly => 423,
            Code::Storage => 507,
            Code::Internal => 500,
        }
    }
}

/// An error with the commands that may resolve it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub code: Code,
    pub message: String,
    /// Commands to try next.
    #[serde(default)]
    pub next: Vec<String>,
}

impl ApiError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        ApiError { code, message: message.into(), next: Vec::new() }
    }

    #[must_use]
    pub fn next(mut self, command: impl Into<String>) -> Self {
        self.next.push(command.into());
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
