//! The messages and fields that Provost depends on, to compare with the schema of an installed
//! version.

use super::capabilities::Version;

/// One message, with the fields that Provost reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    pub place: Place,
    /// The method, or an item's type.
    pub name: &'static str,
    /// Fields, with dots between a field and its own fields; `[]` after one is each of its elements.
    pub fields: &'static [&'static str],
    /// The version that introduced it, if later than the floor: before that, Provost works without
    /// it.
    pub since: Option<Version>,
}

/// Where in the protocol a message occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    ClientRequest,
    ServerRequest,
    ServerNotification,
    /// An item, inside `item/started` and `item/completed`.
    Item,
}

/// All dependencies.
pub const NEEDS: &[Need] = &[
    asks(
        "initialize",
        &[
            "clientInfo.name",
            "clientInfo.version",
            "capabilities.experimentalApi",
            "capabilities.optOutNotificationMethods",
        ],
    ),
    asks(
        "thread/start",
        &[
            "cwd",
            "sandbox",
            "approvalPolicy",
            "model",
            "config",
            "developerInstructions",
            "dynamicTools",
        ],
    ),
    asks(
        "thread/resume",
        &[
            "threadId",
            "cwd",
            "sandbox",
            "approvalPolicy",
            "model",
            "config",
            "developerInstructions",
        ],
    ),
    since(Version(0, 125, 0), asks("thread/resume", &["excludeTurns"])),
    asks("turn/start", &["threadId", "input", "outputSchema"]),
    since(Version(0, 136, 0), asks("turn/start", &["clientUserMessageId"])),
    asks("turn/interrupt", &["threadId", "turnId"]),
    asks("thread/compact/start", &["threadId"]),
    asks("thread/backgroundTerminals/clean", &["threadId"]),
    tells("turn/started", &["threadId", "turn.id"]),
    tells("turn/completed", &["threadId", "turn.id", "turn.status", "turn.error.codexErrorInfo"]),
    tells("item/started", &["threadId", "turnId", "item"]),
    tells("item/completed", &["threadId", "turnId", "item"]),
    tells(
        "thread/tokenUsage/updated",
        &[
            "threadId",
            "tokenUsage.total.inputTokens",
            "tokenUsage.total.outputTokens",
            "tokenUsage.last.inputTokens",
            "tokenUsage.last.outputTokens",
            "tokenUsage.last.totalTokens",
            "tokenUsage.modelContextWindow",
        ],
    ),
    tells(
        "account/rateLimits/updated",
        &[
            "rateLimits.limitId",
            "rateLimits.primary.usedPercent",
            "rateLimits.primary.resetsAt",
            "rateLimits.secondary.resetsAt",
        ],
    ),
    tells("error", &["threadId", "willRetry", "error.message", "error.additionalDetails"]),
    tells("serverRequest/resolved", &["requestId"]),
    since(
        Version(0, 140, 0),
        tells(
            "thread/settings/updated",
            &[
                "threadId",
                "threadSettings.model",
                "threadSettings.effort",
                "threadSettings.approvalPolicy",
                "threadSettings.sandboxPolicy",
            ],
        ),
    ),
    wants(
        "item/commandExecution/requestApproval",
        &[
            "threadId",
            "turnId",
            "itemId",
            "command",
            "cwd",
            "reason",
            "networkApprovalContext.host",
            "additionalPermissions.fileSystem",
            "additionalPermissions.network",
        ],
    ),
    wants(
        "item/fileChange/requestApproval",
        &["threadId", "turnId", "itemId", "reason", "grantRoot"],
    ),
    wants(
        "item/tool/requestUserInput",
        &[
            "threadId",
            "turnId",
            "itemId",
            "questions[].id",
            "questions[].header",
            "questions[].question",
            "questions[].isSecret",
            "questions[].options[].label",
            "questions[].options[].description",
        ],
    ),
    wants("item/tool/call", &["threadId", "turnId", "callId", "tool", "arguments"]),
    since(Version(0, 111, 0), wants("mcpServer/elicitation/request", &["threadId", "serverName"])),
    since(
        Version(0, 115, 0),
        wants(
            "item/permissions/requestApproval",
            &[
                "threadId",
                "itemId",
                "cwd",
                "reason",
                "permissions.fileSystem.read[]",
                "permissions.fileSystem.write[]",
                "permissions.network",
            ],
        ),
    ),
    item("agentMessage", &["id", "text", "phase"]),
    since(Version(0, 160, 0), item("agentMessage", &["delivery", "questions[].title"])),
    item("commandExecution", &["id", "command", "cwd", "status", "exitCode"]),
    item("fileChange", &["id", "changes[].path", "changes[].kind", "changes[].diff", "status"]),
    item("contextCompaction", &["id"]),
];

const fn asks(name: &'static str, fields: &'static [&'static str]) -> Need {
    Need { place: Place::ClientRequest, name, fields, since: None }
}

const fn tells(name: &'static str, fields: &'static [&'static str]) -> Need {
    Need { place: Place::ServerNotification, name, fields, since: None }
}

const fn wants(name: &'static str, fields: &'static [&'static str]) -> Need {
    Need { place: Place::ServerRequest, name, fields, since: None }
}

const fn item(name: &'static str, fields: &'static [&'static str]) -> Need {
    Need { place: Place::Item, name, fields, since: None }
}

const fn since(version: Version, need: Need) -> Need {
    Need { since: Some(version), ..need }
}
