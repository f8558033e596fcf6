//! Requests of an MCP server through Codex: forms, filled in or declined, and approvals with fixed answers.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use crate::{
    kit::{Stage, Which},
    requests::{open, told, turn_of},
};

/// An MCP server with one tool. A call asks for a form and returns the response to it.
const SERVER: &str = r#"#!/bin/sh
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
fn stage(which: Which, scenario: &str, annotations: &str) -> Option<Stage> {
    let stage = Stage::with(which, scenario)?;
    let server = stage.root().join("shop");
    fs::write(&server, SERVER.replace("ANNOTATIONS", annotations)).unwrap();
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
    stage.configure_codex(which.model(), &format!("[mcp_servers.shop]\ncommand = {server:?}\n"));
    Some(stage)
}

#[test]
fn a_form_can_be_declined_or_filled_in_with_what_it_offers() {
    let order = r#"{ items = [{ tool = "order", namespace = "mcp__shop", args = {} }] },"#;
    let turn = turn_of(&format!("{order}\n{order}\n{{ items = [{{ message = \"Ordered.\" }}] }},"));
    let Some(stage) = stage(Which::Pinned, &turn, r#""readOnlyHint":true"#) else { return };
    let id = stage.spawn(&["Order."]);
    let first = open(&stage, &id, 1);
    assert_eq!((&first["kind"], &first["title"]), (&json!("dialog"), &json!("Which shirt?")));
    stage.provost(&["deny", first["id"].as_str().unwrap()]).ok();

    let second = open(&stage, &id, 2);
    let refused = stage.provost_with_input(
        &["answer", second["id"].as_str().unwrap(), "--answers", "-"],
        r#"{"answers":{"size":{"answers":["XXL"]},"text":{"answers":["hi"]}}}"#,
    );
    assert!(refused.stderr.contains("one of these: S | L"), "{refused:#?}");
    let answers = r#"{"answers":{"size":{"answers":["L"]},"text":{"answers":["any text"]}}}"#;
    stage.provost_with_input(&["answer", &id, "--answers", "-"], answers).ok();
    assert_eq!(stage.sealed(&id)["state"], "completed");
    assert_eq!(told(&stage, "action:decline"), 1, "{:#?}", stage.model.requests().last());
    assert_eq!(told(&stage, "action:accept"), 1);
    assert_eq!(told(&stage, "size:L"), 1);
    assert_eq!(told(&stage, "text:any text"), 1);
    stage.model.assert_all_as_scripted();
}

/// Newer versions ask for this as an approval, and their questions always accept free text.
#[test]
fn a_question_that_takes_only_its_options_takes_no_other_text() {
    let order = r#"{ items = [{ tool = "mcp__shop__order", args = {} }] },"#;
    let turn = turn_of(&format!("{order}\n{{ items = [{{ message = \"So be it.\" }}] }},"));
    let Some(stage) = stage(Which::Oldest, &turn, r#""destructiveHint":true"#) else { return };
    let id = stage.spawn(&["Order."]);
    let asked = open(&stage, &id, 1);
    assert_eq!(asked["questions"][0]["only_options"], true, "{asked:#}");
    let refused = stage.provost(&["answer", &id, "perhaps"]);
    assert_ne!(refused.code(), Some(0), "{refused:#?}");
    assert!(refused.stderr.contains("one of these: Approve Once |"), "{refused:#?}");
    assert_eq!(stage.status(&id)["requests"][0]["id"], asked["id"], "it is still open");
    stage.provost(&["answer", &id, "Deny"]).ok();
    assert_eq!(stage.sealed(&id)["state"], "completed");
    assert_eq!(
        told(&stage, "user rejected MCP tool call"),
        1,
        "{:#?}",
        stage.model.requests().last()
    );
    stage.model.assert_all_as_scripted();
}
