//! How a command ends that does not end well.

use std::io;

use provost_api::{ApiError, Code};

/// Why a command ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Whoever read the output has enough of it, as `head` does.
    #[error("write the output: its reader left")]
    PipeClosed,
    #[error("write the output")]
    Output(#[source] io::Error),
}

impl Error {
    /// Sorts a failure to write to standard output.
    pub(crate) fn output(why: io::Error) -> Self {
        match why.kind() == io::ErrorKind::BrokenPipe {
            true => Error::PipeClosed,
            false => Error::Output(why),
        }
    }
}

/// An error of the one who typed the command.
pub(crate) fn usage(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::BadRequest, message)
}

/// An error of the one who named something that there is not: the nearest of what there is, or all of it.
pub(crate) fn unknown(what: &str, name: &str, known: &[impl AsRef<str>]) -> ApiError {
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    let near = known.iter().map(|one| (strsim::osa_distance(name, one), *one)).min();
    let meant = match near {
        Some((distance, one)) if distance <= 2 => format!("did you mean {one:?}?"),
        Some(_) => format!("expected one of {}", known.join(", ")),
        None => "none is configured".to_owned(),
    };
    usage(format!("there is no {what} {name:?}; {meant}"))
}

/// An error with everything that caused it.
pub(crate) fn chain(code: Code, what: &str, why: &dyn std::error::Error) -> ApiError {
    let mut message = format!("{what}: {why}");
    let mut source = why.source();
    while let Some(deeper) = source {
        message.push_str(&format!(": {deeper}"));
        source = deeper.source();
    }
    ApiError::new(code, message)
}
