//! The capabilities of a Codex version, and the consequences of missing ones.
//!
//! The handshake reports the version. When the server rejects an unknown method, it lists the
//! methods that it supports.

use std::{collections::BTreeSet, fmt};

/// The oldest supported version.
pub const FLOOR: CodexVersion = CodexVersion(0, 107, 0);

/// The first version that can listen on a Unix socket, so that other clients can attach.
pub const LISTENS: CodexVersion = CodexVersion(0, 140, 0);

/// A version of Codex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodexVersion(pub u32, pub u32, pub u32);

/// A feature that Provost uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    pub name: &'static str,
    pub probe: CapabilityProbe,
    pub if_missing: MissingCapability,
}

/// The method of detecting a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilityProbe {
    /// Released versions have had the capability since this version.
    Since(CodexVersion),
    /// The server lists this method. A server that does not list its methods is assumed to have it.
    Method(&'static str),
    /// The server lists its methods.
    Listed,
}

/// The consequence for a session whose agent lacks a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingCapability {
    /// The session is refused before it starts any work, for this reason.
    Refuse(&'static str),
    /// The session works with this limitation, which is reported once.
    Degrade(&'static str),
}

/// All capabilities that are checked.
pub const CAPABILITIES: &[Capability] = &[
    refuse(
        "version 0.107.0",
        CapabilityProbe::Since(FLOOR),
        "older versions do not report when a request is over",
    ),
    refuse(
        "thread/start",
        CapabilityProbe::Method("thread/start"),
        "conversations cannot be started",
    ),
    refuse(
        "thread/resume",
        CapabilityProbe::Method("thread/resume"),
        "conversations cannot be resumed",
    ),
    refuse(
        "turn/start",
        CapabilityProbe::Method("turn/start"),
        "messages cannot be sent to the agent",
    ),
    refuse(
        "turn/interrupt",
        CapabilityProbe::Method("turn/interrupt"),
        "turns cannot be interrupted",
    ),
    degrade(
        "cleaning of background terminals",
        CapabilityProbe::Method("thread/backgroundTerminals/clean"),
        "a command that a turn or an interrupt leaves running ends only with the process",
    ),
    degrade(
        "requests of MCP servers",
        CapabilityProbe::Since(CodexVersion(0, 111, 0)),
        "an MCP server cannot ask the user",
    ),
    degrade(
        "resuming without history",
        CapabilityProbe::Since(CodexVersion(0, 125, 0)),
        "the history of a resumed conversation is sent again",
    ),
    degrade(
        "unix socket",
        CapabilityProbe::Since(LISTENS),
        "no client can attach to the conversation",
    ),
    degrade(
        "keyed messages",
        CapabilityProbe::Since(CodexVersion(0, 136, 0)),
        "the conversation does not show whether an unconfirmed message reached it",
    ),
    degrade(
        "list of methods",
        CapabilityProbe::Listed,
        "Provost infers missing features from the version",
    ),
];

const fn refuse(name: &'static str, found: CapabilityProbe, why: &'static str) -> Capability {
    Capability { name, probe: found, if_missing: MissingCapability::Refuse(why) }
}

const fn degrade(name: &'static str, found: CapabilityProbe, then: &'static str) -> Capability {
    Capability { name, probe: found, if_missing: MissingCapability::Degrade(then) }
}

/// The capabilities of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerCapabilities {
    pub(crate) version: CodexVersion,
    /// The methods, or `None` if the server does not list them.
    pub(crate) methods: Option<BTreeSet<String>>,
}

/// The verdict on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fitness {
    Full,
    Degraded(String),
    Unusable(String),
}

impl CodexVersion {
    /// Parses a version as printed by the program: `0.166.0`, or `0.166.0-alpha.1`.
    pub fn parse(text: &str) -> Option<CodexVersion> {
        let mut parts = text.splitn(3, '.').map(leading_number);
        Some(CodexVersion(parts.next()??, parts.next()??, parts.next()??))
    }

    /// Parses the version in a server's user agent: `NAME/VERSION (…)`.
    pub(crate) fn from_user_agent(text: &str) -> Option<CodexVersion> {
        let name = text.split_whitespace().next()?;
        let (_, version) = name.rsplit_once('/')?;
        CodexVersion::parse(version)
    }
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

impl fmt::Display for CodexVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl ServerCapabilities {
    pub(crate) fn has_method(&self, method: &str) -> bool {
        self.methods.as_ref().is_none_or(|methods| methods.contains(method))
    }

    fn has(&self, capability: &Capability) -> bool {
        match capability.probe {
            CapabilityProbe::Since(version) => self.version >= version,
            CapabilityProbe::Method(method) => self.has_method(method),
            CapabilityProbe::Listed => self.methods.is_some(),
        }
    }

    /// Checks all capabilities. Returns the first missing one that prevents a session, otherwise
    /// one warning about all missing ones.
    pub(crate) fn fitness(&self) -> Fitness {
        let lacks: Vec<&Capability> = CAPABILITIES.iter().filter(|c| !self.has(c)).collect();
        let refused = lacks.iter().find_map(|lack| match lack.if_missing {
            MissingCapability::Refuse(why) => {
                Some(format!("Provost requires {}: {why}", lack.name))
            }
            MissingCapability::Degrade(_) => None,
        });
        match (refused, lacks.as_slice()) {
            (Some(why), _) => {
                Fitness::Unusable(format!("codex {} cannot be used: {why}", self.version))
            }
            (None, []) => Fitness::Full,
            (None, lacks) => Fitness::Degraded(warning(self.version, lacks)),
        }
    }
}

fn warning(version: CodexVersion, lacks: &[&Capability]) -> String {
    let described = lacks.iter().filter_map(|lack| match lack.if_missing {
        MissingCapability::Degrade(then) => Some(format!("{} ({then})", lack.name)),
        MissingCapability::Refuse(_) => None,
    });
    format!("codex {version} lacks: {}", described.collect::<Vec<_>>().join("; "))
}

/// Parses the list of methods from the rejection of an unknown method. The list consists of all
/// names in backquotes after the rejected name.
pub(crate) fn parse_methods(refusal: &str) -> Option<BTreeSet<String>> {
    let (_, list) = refusal.split_once("expected one of")?;
    let quoted = list.split('`').skip(1).step_by(2).map(str::to_owned);
    Some(quoted.collect::<BTreeSet<String>>()).filter(|methods| !methods.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "Invalid request: unknown variant `x`, expected one of `thread/start`, \
                        `thread/resume`, `turn/start`, `turn/interrupt`";

    fn record(version: CodexVersion, list: &str) -> ServerCapabilities {
        ServerCapabilities { version, methods: parse_methods(list) }
    }

    #[test]
    fn version_is_parsed_from_user_agent() {
        let version = |text| CodexVersion::from_user_agent(text);
        assert_eq!(version("provost/0.166.0 (Debian; x) xterm"), Some(CodexVersion(0, 166, 0)));
        assert_eq!(version("a/b/1.2.3-alpha.4 (x)"), Some(CodexVersion(1, 2, 3)));
        for unread in ["", "provost", "provost/", "provost/1.2", "provost/x.y.z"] {
            assert_eq!(version(unread), None, "{unread}");
        }
    }

    #[test]
    fn r20_old_version_degrades_with_one_warning() {
        let Fitness::Degraded(warning) = record(FLOOR, LIST).fitness() else { panic!() };
        for named in ["background terminals", "MCP servers", "keyed messages", "0.107.0"] {
            assert!(warning.contains(named), "{warning}");
        }
        assert!(!warning.contains('\n'));
    }

    #[test]
    fn r20_version_without_required_method_is_refused() {
        let unfit = |record: ServerCapabilities| matches!(record.fitness(), Fitness::Unusable(_));
        assert!(unfit(record(CodexVersion(0, 106, 9), LIST)));
        assert!(unfit(record(FLOOR, &LIST.replace("`turn/start`, ", ""))));
    }

    #[test]
    fn server_without_method_list_uses_version() {
        let Fitness::Degraded(warning) = record(CodexVersion(0, 166, 0), "no").fitness() else {
            panic!()
        };
        assert!(warning.contains("list of methods"), "{warning}");
    }

    #[test]
    fn r20_documented_table_matches_code() {
        let document = include_str!("../../../../docs/codex.md");
        let section = document.split("\n## ").find(|part| part.starts_with("Features by version"));
        let written: Vec<&str> = section.unwrap().lines().filter(|l| l.starts_with('|')).collect();
        let rows: Vec<String> = CAPABILITIES.iter().map(row).collect();
        assert_eq!(written[2..], rows, "docs/codex.md");
    }

    fn row(capability: &Capability) -> String {
        let known = match capability.probe {
            CapabilityProbe::Since(version) => format!("since {version}"),
            CapabilityProbe::Method(_) => "the list of methods".to_owned(),
            CapabilityProbe::Listed => "the list itself".to_owned(),
        };
        let then = match capability.if_missing {
            MissingCapability::Refuse(why) => format!("refused: {why}"),
            MissingCapability::Degrade(then) => then.to_owned(),
        };
        format!("| {} | {known} | {then} |", capability.name)
    }
}
