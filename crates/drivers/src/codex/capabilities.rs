//! The capabilities of a Codex version, and the consequences of missing ones.
//!
//! The handshake reports the version. The server itself lists its methods in its answer to an
//! unknown one.

use std::{collections::BTreeSet, fmt};

/// The oldest supported version.
pub const FLOOR: Version = Version(0, 107, 0);

/// The first version that listens on a Unix socket, so that other clients can attach.
pub const LISTENS: Version = Version(0, 140, 0);

/// A version of Codex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// A feature that Provost uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    pub name: &'static str,
    pub found: Found,
    pub without: Without,
}

/// How a capability is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// By version, as observed in released versions.
    Since(Version),
    /// By the server's own list of methods; a server without a list is assumed to have it.
    Method(&'static str),
    /// By whether the server sends that list.
    Listed,
}

/// The consequence for a session whose agent lacks a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// The session is refused before any work, for this reason.
    Refuse(&'static str),
    /// The session works with this limitation, reported once.
    Degrade(&'static str),
}

/// Every capability that is checked.
pub const CAPABILITIES: &[Capability] = &[
    refuse(
        "version 0.107.0",
        Found::Since(FLOOR),
        "older versions do not report when a request is over",
    ),
    refuse("thread/start", Found::Method("thread/start"), "conversations cannot be started"),
    refuse("thread/resume", Found::Method("thread/resume"), "conversations cannot be resumed"),
    refuse("turn/start", Found::Method("turn/start"), "messages cannot be sent to the agent"),
    refuse("turn/interrupt", Found::Method("turn/interrupt"), "turns cannot be interrupted"),
    degrade(
        "cleaning of background terminals",
        Found::Method("thread/backgroundTerminals/clean"),
        "a command that a turn or an interrupt leaves running ends only with the process",
    ),
    degrade(
        "requests of MCP servers",
        Found::Since(Version(0, 111, 0)),
        "an MCP server cannot ask the user",
    ),
    degrade(
        "resuming without history",
        Found::Since(Version(0, 125, 0)),
        "the history of a resumed conversation is sent again",
    ),
    degrade("unix socket", Found::Since(LISTENS), "no client can attach to the conversation"),
    degrade(
        "keyed messages",
        Found::Since(Version(0, 136, 0)),
        "the conversation does not show whether an unconfirmed message reached it",
    ),
    degrade(
        "list of methods",
        Found::Listed,
        "other missing features are inferred from its version",
    ),
];

const fn refuse(name: &'static str, found: Found, why: &'static str) -> Capability {
    Capability { name, found, without: Without::Refuse(why) }
}

const fn degrade(name: &'static str, found: Found, then: &'static str) -> Capability {
    Capability { name, found, without: Without::Degrade(then) }
}

/// The capabilities of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) version: Version,
    /// None if the server did not list them.
    pub(crate) methods: Option<BTreeSet<String>>,
}

/// The verdict on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fitness {
    Whole,
    Less(String),
    Unfit(String),
}

impl Version {
    /// Parses a version as printed by the program: `0.166.0`, or `0.166.0-alpha.1`.
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.splitn(3, '.').map(leading_number);
        Some(Version(parts.next()??, parts.next()??, parts.next()??))
    }

    /// Parses the version in a server's user agent: `NAME/VERSION (…)`.
    pub(crate) fn of_user_agent(text: &str) -> Option<Version> {
        let name = text.split_whitespace().next()?;
        let (_, version) = name.rsplit_once('/')?;
        Version::parse(version)
    }
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Record {
    pub(crate) fn has_method(&self, method: &str) -> bool {
        self.methods.as_ref().is_none_or(|methods| methods.contains(method))
    }

    fn has(&self, capability: &Capability) -> bool {
        match capability.found {
            Found::Since(version) => self.version >= version,
            Found::Method(method) => self.has_method(method),
            Found::Listed => self.methods.is_some(),
        }
    }

    /// Evaluates the table: the first missing capability that refuses, else one warning for all
    /// missing ones.
    pub(crate) fn fitness(&self) -> Fitness {
        let lacks: Vec<&Capability> = CAPABILITIES.iter().filter(|c| !self.has(c)).collect();
        let refused = lacks.iter().find_map(|lack| match lack.without {
            Without::Refuse(why) => Some(format!("it requires {}: {why}", lack.name)),
            Without::Degrade(_) => None,
        });
        match (refused, lacks.as_slice()) {
            (Some(why), _) => {
                Fitness::Unfit(format!("codex {} cannot be used: {why}", self.version))
            }
            (None, []) => Fitness::Whole,
            (None, lacks) => Fitness::Less(warning(self.version, lacks)),
        }
    }
}

fn warning(version: Version, lacks: &[&Capability]) -> String {
    let told = lacks.iter().filter_map(|lack| match lack.without {
        Without::Degrade(then) => Some(format!("{} ({then})", lack.name)),
        Without::Refuse(_) => None,
    });
    format!("codex {version} lacks: {}", told.collect::<Vec<_>>().join("; "))
}

/// Parses the methods in the rejection of an unknown one: everything in back quotes after the
/// rejected name.
pub(crate) fn methods_in(refusal: &str) -> Option<BTreeSet<String>> {
    let (_, list) = refusal.split_once("expected one of")?;
    let quoted = list.split('`').skip(1).step_by(2).map(str::to_owned);
    Some(quoted.collect::<BTreeSet<String>>()).filter(|methods| !methods.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "Invalid request: unknown variant `x`, expected one of `thread/start`, \
                        `thread/resume`, `turn/start`, `turn/interrupt`";

    fn record(version: Version, list: &str) -> Record {
        Record { version, methods: methods_in(list) }
    }

    #[test]
    fn a_version_is_read_from_what_the_server_calls_itself() {
        let version = |text| Version::of_user_agent(text);
        assert_eq!(version("provost/0.166.0 (Debian; x) xterm"), Some(Version(0, 166, 0)));
        assert_eq!(version("a/b/1.2.3-alpha.4 (x)"), Some(Version(1, 2, 3)));
        for unread in ["", "provost", "provost/", "provost/1.2", "provost/x.y.z"] {
            assert_eq!(version(unread), None, "{unread}");
        }
    }

    #[test]
    fn r20_an_old_version_degrades_with_one_warning_that_names_everything() {
        let Fitness::Less(warning) = record(FLOOR, LIST).fitness() else { panic!() };
        for named in ["background terminals", "MCP servers", "keyed messages", "0.107.0"] {
            assert!(warning.contains(named), "{warning}");
        }
        assert!(!warning.contains('\n'));
    }

    #[test]
    fn r20_a_version_without_what_is_needed_is_refused() {
        let unfit = |record: Record| matches!(record.fitness(), Fitness::Unfit(_));
        assert!(unfit(record(Version(0, 106, 9), LIST)));
        assert!(unfit(record(FLOOR, &LIST.replace("`turn/start`, ", ""))));
    }

    #[test]
    fn a_server_that_lists_nothing_is_known_by_its_version() {
        let Fitness::Less(warning) = record(Version(0, 166, 0), "no").fitness() else { panic!() };
        assert!(warning.contains("list of methods"), "{warning}");
    }

    #[test]
    fn r20_the_documented_table_is_this_one() {
        let told = include_str!("../../../../docs/codex.md");
        let section = told.split("\n## ").find(|part| part.starts_with("What a version can do"));
        let written: Vec<&str> = section.unwrap().lines().filter(|l| l.starts_with('|')).collect();
        let rows: Vec<String> = CAPABILITIES.iter().map(row).collect();
        assert_eq!(written[2..], rows, "docs/codex.md");
    }

    fn row(capability: &Capability) -> String {
        let known = match capability.found {
            Found::Since(version) => format!("since {version}"),
            Found::Method(_) => "its list of methods".to_owned(),
            Found::Listed => "the list itself".to_owned(),
        };
        let then = match capability.without {
            Without::Refuse(why) => format!("refused: {why}"),
            Without::Degrade(then) => then.to_owned(),
        };
        format!("| {} | {known} | {then} |", capability.name)
    }
}
