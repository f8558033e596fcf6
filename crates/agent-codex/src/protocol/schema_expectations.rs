//! The messages and fields on which Provost depends, for comparison with the schema of an installed
//! version.

use super::capabilities::CodexVersion;

/// One message, with the fields that Provost reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaExpectation {
    pub location: SchemaLocation,
    /// The method, or the type of the item.
    pub name: &'static str,
    /// The fields. A dot separates a field from its subfields, and `[]` after a field refers to its
    /// elements.
    pub fields: &'static [&'static str],
    /// The version that introduced the message, if it is newer than the oldest supported version.
    /// With older versions, Provost works without the message.
    pub since: Option<CodexVersion>,
}

/// The part of the protocol in which a message occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaLocation {
    ClientRequest,
    ServerRequest,
    ServerNotification,
    /// An item, which occurs in `item/started` and `item/completed`.
    Item,
}

/// All messages on which Provost depends.
pub const SCHEMA_EXPECTATIONS: &[SchemaExpectation] = &[
    client_request(
        "initialize",
        &[
            "clientInfo.name",
            "clientInfo.version",
            "capabilities.experimentalApi",
            "capabilities.optOutNotificationMethods",
        ],
    ),
    client_request(
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
    client_request(
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
    since(CodexVersion(0, 125, 0), client_request("thread/resume", &["excludeTurns"])),
    client_request("turn/start", &["threadId", "input", "outputSchema"]),
    since(CodexVersion(0, 136, 0), client_request("turn/start", &["clientUserMessageId"])),
    client_request("turn/interrupt", &["threadId", "turnId"]),
    client_request("thread/compact/start", &["threadId"]),
    client_request("thread/backgroundTerminals/clean", &["threadId"]),
    notification("turn/started", &["threadId", "turn.id"]),
    notification(
        "turn/completed",
        &["threadId", "turn.id", "turn.status", "turn.error.codexErrorInfo"],
    ),
    notification("item/started", &["threadId", "turnId", "item"]),
    notification("item/completed", &["threadId", "turnId", "item"]),
    notification(
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
    notification(
        "account/rateLimits/updated",
        &[
            "rateLimits.limitId",
            "rateLimits.primary.usedPercent",
            "rateLimits.primary.resetsAt",
            "rateLimits.secondary.resetsAt",
        ],
    ),
    notification("error", &["threadId", "willRetry", "error.message", "error.additionalDetails"]),
    notification("serverRequest/resolved", &["requestId"]),
    since(
        CodexVersion(0, 140, 0),
        notification(
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
    server_request(
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
    server_request(
        "item/fileChange/requestApproval",
        &["threadId", "turnId", "itemId", "reason", "grantRoot"],
    ),
    server_request(
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
    server_request("item/tool/call", &["threadId", "turnId", "callId", "tool", "arguments"]),
    since(
        CodexVersion(0, 111, 0),
        server_request("mcpServer/elicitation/request", &["threadId", "serverName"]),
    ),
    since(
        CodexVersion(0, 115, 0),
        server_request(
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
    since(CodexVersion(0, 160, 0), item("agentMessage", &["delivery", "questions[].title"])),
    item("commandExecution", &["id", "command", "cwd", "status", "exitCode"]),
    item("fileChange", &["id", "changes[].path", "changes[].kind", "changes[].diff", "status"]),
    item("contextCompaction", &["id"]),
];

const fn client_request(name: &'static str, fields: &'static [&'static str]) -> SchemaExpectation {
    SchemaExpectation { location: SchemaLocation::ClientRequest, name, fields, since: None }
}

const fn notification(name: &'static str, fields: &'static [&'static str]) -> SchemaExpectation {
    SchemaExpectation { location: SchemaLocation::ServerNotification, name, fields, since: None }
}

const fn server_request(name: &'static str, fields: &'static [&'static str]) -> SchemaExpectation {
    SchemaExpectation { location: SchemaLocation::ServerRequest, name, fields, since: None }
}

const fn item(name: &'static str, fields: &'static [&'static str]) -> SchemaExpectation {
    SchemaExpectation { location: SchemaLocation::Item, name, fields, since: None }
}

const fn since(version: CodexVersion, need: SchemaExpectation) -> SchemaExpectation {
    SchemaExpectation { since: Some(version), ..need }
}
