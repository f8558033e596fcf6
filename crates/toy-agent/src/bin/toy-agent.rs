//! The program of the toy agent. `serve` speaks its protocol, and `screen` draws on a terminal and
//! writes a transcript.

use std::{
    fs::OpenOptions,
    io::{self, BufRead as _, Read as _, Write as _},
    path::PathBuf,
};

use provost_toy_agent::{HOME_VARIABLE, TRANSCRIPT_END};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// The only conversation of each home.
const THREAD: &str = "toy-1";

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("screen") { screen() } else { serve() }
}

/// Asks for a color, and reports that the work is done.
fn serve() -> io::Result<()> {
    let mut lines = io::stdin().lock().lines();
    say(&format!("hello {THREAD}"))?;
    while let Some(line) = lines.next().transpose()? {
        match line.split_once(' ') {
            Some(("do", work)) => {
                say("begin 1")?;
                say(&format!("said I was told to {work}"))?;
                say("ask q1 Which color?")?;
            }
            Some(("reply", answer)) => {
                let color = answer.strip_prefix("q1 ").unwrap_or(answer);
                say(&format!("done painted in {color}"))?;
                say(&format!("end 1 painted in {color}"))?;
            }
            _ => say(&format!("ignored {line}"))?,
        }
    }
    Ok(())
}

/// Asks on the screen before a turn, and ends the turn when the key `y` is pressed.
fn screen() -> io::Result<()> {
    read_single_keys()?;
    record(&format!("hello {THREAD}"))?;
    record("begin 1")?;
    print("May I paint the wall? [y/n]")?;
    let mut key = [0];
    while key != *b"y" {
        io::stdin().read_exact(&mut key)?;
    }
    print("\r\npainted\r\ntoy> ")?;
    record("end 1 painted the wall")?;
    // Wait until the terminal is closed.
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}

/// Makes the terminal pass on each key at once, instead of whole lines.
fn read_single_keys() -> io::Result<()> {
    let mut modes = tcgetattr(io::stdin())?;
    modes.make_raw();
    Ok(tcsetattr(io::stdin(), OptionalActions::Now, &modes)?)
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Appends a line to the transcript.
#[expect(clippy::disallowed_methods, reason = "Provost passes the home in a variable")]
fn record(line: &str) -> io::Result<()> {
    let home = std::env::var_os(HOME_VARIABLE).map(PathBuf::from);
    let home = home.ok_or_else(|| io::Error::other("the toy agent has no home"))?;
    let path = home.join(format!("{THREAD}{TRANSCRIPT_END}"));
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{line}")
}
