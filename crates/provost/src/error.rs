//! The errors that commands return.

use std::io;

use provost_api::{ApiError, ErrorCode};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The program that reads the output has closed the pipe, as `head` does.
    #[error("cannot write the output: the reader closed the pipe")]
    PipeClosed,
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

impl Error {
    /// Classifies a failed write to standard output.
    pub(crate) fn from_write_error(why: io::Error) -> Self {
        if why.kind() == io::ErrorKind::BrokenPipe { Error::PipeClosed } else { Error::Output(why) }
    }
}

/// Returns an error for invalid user input.
pub(crate) fn usage(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, message)
}

/// Returns an error for an unknown name. It suggests the closest known name or lists all known names.
pub(crate) fn unknown_name(what: &str, name: &str, known: &[impl AsRef<str>]) -> ApiError {
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    let near = known.iter().map(|one| (strsim::osa_distance(name, one), *one)).min();
    let suggestion = match near {
        Some((distance, one)) if distance <= 2 => format!("did you mean {one:?}?"),
        Some(_) => format!("expected one of {}", known.join(", ")),
        None => "none is configured".to_owned(),
    };
    usage(format!("there is no {what} {name:?}; {suggestion}"))
}

/// Returns an error with a message that describes what failed and includes all causes.
pub(crate) fn chain(code: ErrorCode, what: &str, why: &dyn std::error::Error) -> ApiError {
    let error = from_causes(code, why);
    ApiError { message: format!("{what}: {}", error.message), ..error }
}

/// Returns an error with a message that includes all causes. The outermost cause describes what
/// failed.
pub(crate) fn from_causes(code: ErrorCode, why: &dyn std::error::Error) -> ApiError {
    let mut message = why.to_string();
    let mut source = why.source();
    while let Some(deeper) = source {
        message.push_str(&format!(": {deeper}"));
        source = deeper.source();
    }
    ApiError::new(code, message)
}
