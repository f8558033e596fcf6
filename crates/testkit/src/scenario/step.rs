//! The types of a scenario: steps, actions and their parameters.

use std::time::Duration;

use base64::Engine as _;
use serde::Deserialize;
use serde::de::Error as _;

/// The default time limit of `wait_file`. `within_ms` overrides it.
const WAIT_FILE_MS: u64 = 60_000;
/// The default life of a grandchild. `seconds` overrides it.
const GRANDCHILD_SECONDS: u64 = 60;
/// The default width of a flood's lines, including the newline. `line` overrides it.
const FLOOD_LINE: usize = 80;

/// A scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentScenario {
    pub description: String,
    pub steps: Vec<ScenarioStep>,
}

/// One step: an action, optionally limited to one launch of the attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioStep {
    /// The launch in which the step runs, from 1. `None` means every launch.
    pub if_launch: Option<u32>,
    pub action: StepAction,
}

/// The action of a step. The variant's name in snake case is the key in the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepAction {
    Say(String),
    Err(String),
    Raw(RawBytes),
    Emit(serde_json::Map<String, serde_json::Value>),
    Forge(Forgery),
    Flood(Flood),
    OneLine(OneLine),
    CloseStdout(EnabledFlag),
    Report(ReportStep),
    ReportAfterExit(LateReport),
    Write(FileText),
    Append(FileText),
    Delete(String),
    Mkdir(String),
    Touch(String),
    EnvDump(String),
    GitCommit(String),
    Run(RunCommandStep),
    SleepMs(u64),
    WaitFile(WaitFile),
    WaitInput(WaitInput),
    ReadLine(ReadLine),
    Record(RolloutStep),
    Hook(serde_json::Map<String, serde_json::Value>),
    ReadKeys(EnabledFlag),
    Spawn(SpawnStep),
    IgnoreTerm(EnabledFlag),
    Hang(EnabledFlag),
    Exit(u8),
    Die(i32),
    /// A repetition. It is parsed separately, because its steps are numbered within it.
    #[serde(skip)]
    Repeat(RepeatStep),
}

/// The keys that name actions.
pub(super) const ACTIONS: &[&str] = &[
    "say",
    "err",
    "raw",
    "emit",
    "forge",
    "flood",
    "one_line",
    "close_stdout",
    "report",
    "report_after_exit",
    "write",
    "append",
    "delete",
    "mkdir",
    "touch",
    "env_dump",
    "git_commit",
    "run",
    "sleep_ms",
    "wait_file",
    "wait_input",
    "read_line",
    "record",
    "hook",
    "read_keys",
    "spawn",
    "ignore_term",
    "hang",
    "exit",
    "die",
    "repeat",
];

/// The actions with additional keys. The value of the action's own key is passed as `value`.
pub(super) const WITH_OPTIONS: &[&str] = &["report", "run", "wait_file", "wait_input", "read_line"];

/// Bytes written as text: `\xHH`, `\n`, `\r`, `\t`, `\e`, `\0`, `\\`, or `base64:…` for the whole
/// text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawBytes(pub Vec<u8>);

/// A flag that can only be `true`, because `false` would be a step without an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnabledFlag;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum OutputChannel {
    #[default]
    Stdout,
    Stderr,
}

/// Output that looks like an ending but is only text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forgery {
    #[serde(alias = "tokens used")]
    TokensUsed,
    Markers,
    ForeignJson,
    Osc,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flood {
    /// The exact total number of bytes.
    pub bytes: u64,
    /// The width of a line, including the newline.
    #[serde(default = "flood_line")]
    pub line: usize,
    #[serde(default)]
    pub channel: OutputChannel,
}

/// One line of `bytes` bytes, followed by a newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneLine {
    pub bytes: u64,
    #[serde(default)]
    pub channel: OutputChannel,
}

/// A call of `provost report` by the agent itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportStep {
    /// The claim, or any other word to make a malformed report.
    #[serde(rename = "value")]
    pub claim: String,
    pub message: Option<String>,
    /// Additional arguments, passed as they are.
    #[serde(default)]
    pub args: Vec<String>,
    /// The file for the output of `provost report`.
    pub reply_to: Option<String>,
    #[serde(default)]
    pub expect_exit: ExpectedExit,
}

/// A call of `provost report` by a grandchild after this process has exited.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateReport {
    pub claim: String,
    pub message: Option<String>,
    #[serde(default)]
    pub after_ms: u64,
    /// The file for the output of `provost report`.
    pub reply_to: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileText {
    pub path: String,
    pub content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunCommandStep {
    #[serde(rename = "value")]
    pub argv: Vec<String>,
    #[serde(default)]
    pub expect_exit: ExpectedExit,
}

/// The expected exit code of a command. Any other code fails the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedExit {
    Code(i32),
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitFile {
    #[serde(rename = "value")]
    pub path: String,
    #[serde(default = "wait_file_ms")]
    pub within_ms: u64,
}

/// Waits for the next line on stdin that is a JSON object of this type.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitInput {
    #[serde(rename = "value")]
    pub wanted: InputType,
    #[serde(default)]
    pub on_eof: OnEof,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputType {
    #[serde(rename = "type")]
    pub kind: String,
}

/// Waits for the next line on stdin, with any content.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadLine {
    #[serde(rename = "value")]
    pub on: EnabledFlag,
    #[serde(default)]
    pub on_eof: OnEof,
}

/// A line of a Codex rollout.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RolloutStep {
    /// The conversation, if it is not the agent's own.
    pub thread: Option<String>,
    #[serde(rename = "type")]
    pub kind: String,
    pub payload: serde_json::Map<String, serde_json::Value>,
}

/// The reaction of a step that reads stdin to the end of stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnEof {
    Exit(u8),
    Continue,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnStep {
    #[serde(default = "one")]
    pub count: u32,
    pub kind: GrandchildKind,
    #[serde(default = "grandchild_seconds")]
    pub seconds: u64,
    /// The file to which the grandchildren's pids are appended, one per line.
    pub pids: Option<String>,
}

/// The behavior of a grandchild.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrandchildKind {
    Sleep,
    Setsid,
    DoubleFork,
    IgnoreTerm,
    HoldStdout,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RepeatStep {
    pub times: u32,
    pub steps: Vec<ScenarioStep>,
}

impl SpawnStep {
    /// Returns the lifetime of each grandchild.
    pub fn life(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

impl Default for ExpectedExit {
    fn default() -> Self {
        Self::Code(0)
    }
}

impl Default for OnEof {
    fn default() -> Self {
        Self::Exit(0)
    }
}

impl<'de> Deserialize<'de> for EnabledFlag {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if bool::deserialize(from)? {
            Ok(Self)
        } else {
            Err(D::Error::custom("only `true` is allowed here; omit the step instead"))
        }
    }
}

impl<'de> Deserialize<'de> for ExpectedExit {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match NumberOrWord::deserialize(from)? {
            NumberOrWord::Number(code) => {
                i32::try_from(code).map(Self::Code).map_err(D::Error::custom)
            }
            NumberOrWord::Word(word) if word == "any" => Ok(Self::Any),
            NumberOrWord::Word(word) => {
                Err(D::Error::custom(format!("expected an exit code or \"any\", not \"{word}\"")))
            }
        }
    }
}

impl<'de> Deserialize<'de> for OnEof {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match NumberOrWord::deserialize(from)? {
            NumberOrWord::Number(code) => {
                u8::try_from(code).map(Self::Exit).map_err(D::Error::custom)
            }
            NumberOrWord::Word(word) if word == "continue" => Ok(Self::Continue),
            NumberOrWord::Word(word) => Err(D::Error::custom(format!(
                "expected an exit code or \"continue\", not \"{word}\""
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for RawBytes {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.strip_prefix("base64:") {
            Some(encoded) => base64::engine::general_purpose::STANDARD
                .decode(encoded)
                .map(Self)
                .map_err(D::Error::custom),
            None => unescape(&text).map(Self).map_err(D::Error::custom),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrWord {
    Number(i64),
    Word(String),
}

fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '\\' {
            bytes.push(escaped_byte(&mut rest)?);
        } else {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(bytes)
}

fn escaped_byte(rest: &mut std::str::Chars<'_>) -> Result<u8, String> {
    match rest.next() {
        Some('x') => {
            let digits: String = rest.take(2).collect();
            let valid = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            let byte = valid.then(|| u8::from_str_radix(&digits, 16).ok()).flatten();
            byte.ok_or_else(|| format!("`\\x{digits}` needs two hexadecimal digits"))
        }
        Some('n') => Ok(b'\n'),
        Some('r') => Ok(b'\r'),
        Some('t') => Ok(b'\t'),
        Some('e') => Ok(0x1b),
        Some('0') => Ok(0),
        Some('\\') => Ok(b'\\'),
        Some(other) => Err(format!("unknown escape `\\{other}`")),
        None => Err("a lone `\\` at the end".to_owned()),
    }
}

fn one() -> u32 {
    1
}

fn flood_line() -> usize {
    FLOOD_LINE
}

fn grandchild_seconds() -> u64 {
    GRANDCHILD_SECONDS
}

fn wait_file_ms() -> u64 {
    WAIT_FILE_MS
}
