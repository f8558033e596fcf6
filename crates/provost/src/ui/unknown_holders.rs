//! Shows running processes that are not in the ledger.

use provost_api::UnknownHolder;

use super::{
    Paint, Tone,
    text::{clip, escape_line},
};

/// The maximum width of a command.
const COMMAND_WIDTH: usize = 60;

/// Lists the holders that are not in the ledger, below a title.
pub(crate) fn unknown_lines(paint: Paint, holders: &[UnknownHolder]) -> Vec<String> {
    if holders.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![paint.paint(Tone::Warn, "not in the ledger")];
    lines.extend(holders.iter().map(|holder| {
        let process = match (holder.alive, holder.pid) {
            (true, Some(pid)) => format!("running, pid {pid}"),
            (true, None) => "running".to_owned(),
            (false, _) => "ended".to_owned(),
        };
        let command = clip(&escape_line(&holder.command), COMMAND_WIDTH);
        format!("  {}  {process}  {command}", escape_line(&holder.key))
    }));
    lines
}
