//! Requests of an MCP server through Codex: forms, filled in or declined, and approvals with fixed answers.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use crate::{
    approvals::{count_outputs, turn_with_result, wait_request},
    codex_env::{CodexEnv, TestedCodex},
};

/// An MCP server with one tool. A call asks for a form and returns the response to it.
const SHOP_SERVER: &str = r#"#!/bin/sh
say() { printf '%s\n' "$1"; }
while read -r line; do
    id=$(printf '%s' "$line" | sed -E 's/.*"id":([0-9]+|"[^"]*").*/\1/')
    case $line in
    *'"method":"initialize"'*)
        say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shop","version":"1"}}}' ;;
    *'"method":"tools/list"'*)
        say '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"order","description":"Orders a shirt","inputSchema":{"type":"object","properties":{}},"annotations":{ANNOTATIONS}}]}}' ;;
    *'"method":"tools/call"'*)
        call=$id
        say '{"jsonrpc":"2.0","id":"form-1","method":"elicitation/create","params":{"message":"Which shirt?","requestedSchema":{"type":"object","properties":{"size":{"type":"string","enum":["S","L"]},"text":{"type":"string"}},"required":["size"]}}}' ;;
    *'"id":"form-1"'*)
        what=$(printf '%s' "$line" | sed 's/["\\]//g')
        say '{"jsonrpc":"2.0","id":'$call',"result":{"content":[{"type":"text","text":"the form: '"$what"'"}]}}' ;;
    esac
done
"#;

/// An environment whose user has configured that server.
fn shop_env(which: TestedCodex, scenario: &str, annotations: &str) -> Option<CodexEnv> {
    let stage = CodexEnv::with_version(which, scenario)?;
    let server = stage.root().join("shop");
    fs::write(&server, SHOP_SERVER.replace("ANNOTATIONS", annotations)).unwrap();
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
    stage.configure_codex(which.model(), &format!("[mcp_servers.shop]\ncommand = {server:?}\n"));
    Some(stage)
}

#[test]
fn mcp_form_can_be_declined_or_filled_in() {
    let order = r#"{ items = [{ tool = "order", namespace = "mcp__shop", args = {} }] },"#;
    let turn = turn_with_result(&format!(
        "{order}\n{order}\n{{ items = [{{ message = \"Ordered.\" }}] }},"
    ));
    let Some(stage) = shop_env(TestedCodex::Pinned, &turn, r#""readOnlyHint":true"#) else {
        return;
    };
    let id = stage.spawn(&["Order."]);
    let first = wait_request(&stage, &id, 1);
    assert_eq!((&first["kind"], &first["title"]), (&json!("dialog"), &json!("Which shirt?")));
    stage.provost(&["deny", first["id"].as_str().unwrap()]).ok();

    let second = wait_request(&stage, &id, 2);
    let refused = stage.provost_with_input(
        &["answer", second["id"].as_str().unwrap(), "--answers", "-"],
        r#"{"answers":{"size":{"answers":["XXL"]},"text":{"answers":["hi"]}}}"#,
    );
    assert!(refused.stderr.contains("one of these: S | L"), "{refused:#?}");
    let answers = r#"{"answers":{"size":{"answers":["L"]},"text":{"answers":["any text"]}}}"#;
    stage.provost_with_input(&["answer", &id, "--answers", "-"], answers).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert_eq!(count_outputs(&stage, "action:decline"), 1, "{:#?}", stage.model.requests().last());
    assert_eq!(count_outputs(&stage, "action:accept"), 1);
    assert_eq!(count_outputs(&stage, "size:L"), 1);
    assert_eq!(count_outputs(&stage, "text:any text"), 1);
    stage.model.assert_all_as_scripted();
}

/// Newer versions send this form as an approval, and their questions always accept free text.
#[test]
fn question_with_fixed_options_rejects_other_text() {
    let order = r#"{ items = [{ tool = "mcp__shop__order", args = {} }] },"#;
    let turn =
        turn_with_result(&format!("{order}\n{{ items = [{{ message = \"So be it.\" }}] }},"));
    let Some(stage) = shop_env(TestedCodex::Oldest, &turn, r#""destructiveHint":true"#) else {
        return;
    };
    let id = stage.spawn(&["Order."]);
    let asked = wait_request(&stage, &id, 1);
    assert_eq!(asked["questions"][0]["only_options"], true, "{asked:#}");
    let refused = stage.provost(&["answer", &id, "perhaps"]);
    assert_ne!(refused.code(), Some(0), "{refused:#?}");
    assert!(refused.stderr.contains("one of these: Approve Once |"), "{refused:#?}");
    assert_eq!(stage.status(&id)["requests"][0]["id"], asked["id"], "it is still open");
    stage.provost(&["answer", &id, "Deny"]).ok();
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert_eq!(
        count_outputs(&stage, "user rejected MCP tool call"),
        1,
        "{:#?}",
        stage.model.requests().last()
    );
    stage.model.assert_all_as_scripted();
}
