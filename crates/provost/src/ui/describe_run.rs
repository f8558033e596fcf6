//! Describes the events of a run.

use provost_api::EventRow;
use serde_json::Value;

use super::{
    Paint, Tone, short_id,
    text::{clip, escape_line, join_lines},
};

/// The maximum width of a text on one line.
const LINE_WIDTH: usize = 120;

/// Describes an event for a user who is following the run. Returns `None` for events that are not shown.
pub(crate) fn run_event_line(paint: Paint, event: &EventRow) -> Option<String> {
    let tone = match event.kind.as_str() {
        "run.stage_entered" => Tone::Bold,
        "run.request_observed" => Tone::Warn,
        "run.stopped" | "run.landing_failed" | "run.commit_failed" | "run.task_failed" => Tone::Bad,
        "run.plan_invalid" | "run.task_returned" | "run.task_retried" => Tone::Warn,
        "run.worktree_move_requested"
        | "run.worktree_moved"
        | "run.batch_verified"
        | "run.task_queued" => {
            return None;
        }
        "run.session_opened"
        | "run.session_ended"
        | "run.verification_requested"
        | "run.verification_done"
        | "run.hook_finished" => Tone::Dim,
        "run.opened" | "run.report_written" | "run.pull_request_observed" => return None,
        _ => Tone::Plain,
    };
    let words = describe_run_event(&event.kind, &event.data)?;
    Some(paint.paint(tone, &clip(&join_lines(&words), LINE_WIDTH * 3)))
}

/// Returns the findings of a review, one per line, if the event contains any.
pub(crate) fn review_finding_lines(event: &EventRow) -> Vec<String> {
    let found = event.data["end"]["result"]["review"]["findings"].as_array();
    found.into_iter().flatten().map(describe_finding).collect()
}

fn describe_finding(finding: &Value) -> String {
    let text = |name: &str| finding[name].as_str().unwrap_or_default();
    let place = match (text("file"), finding["line"].as_u64()) {
        ("", _) => String::new(),
        (file, Some(line)) => format!(" ({file}:{line})"),
        (file, None) => format!(" ({file})"),
    };
    let fixed = if finding["repaired"] == true { ", fixed" } else { "" };
    let words = format!("{}{fixed}: {}{place}", text("severity"), text("title"));
    format!("  {}", clip(&escape_line(&words), LINE_WIDTH))
}

/// Describes a run's event based on its JSON, because a newer daemon may record events that this
/// program does not know.
pub(crate) fn describe_run_event(kind: &str, data: &Value) -> Option<String> {
    let text = |name: &str| data[name].as_str().unwrap_or_default();
    let session = || short_id(text("session"));
    Some(match kind {
        "run.opened" => {
            format!("run opened {}: {}", spec_field(data, "name"), spec_field(data, "goal"))
        }
        "run.stage_entered" => format!("stage {}", spaced(text("stage"))),
        "run.session_opened" => describe_session_opened(&session(), data),
        "run.session_ended" => describe_session_ended(&session(), &data["end"]),
        "run.verification_requested" => describe_verification_request(data),
        "run.verification_done" => describe_verification_result(data),
        "run.request_observed" => format!("{} needs an answer", short_request_id(text("request"))),
        "run.decision_made" => describe_decision(&data["decision"]),
        _ if kind.starts_with("run.plan_") => describe_plan_event(kind, data)?,
        _ if TASK_EVENTS.contains(&kind) => describe_task_event(kind, data)?,
        "run.commit_recorded" => {
            format!("work of session {} committed: {}", session(), short_commit(&data["head"]))
        }
        "run.commit_failed" => {
            format!(
                "cannot commit the work of session {}: {}",
                session(),
                join_lines(text("reason"))
            )
        }
        "run.land_step_added" => describe_land_step(&data["step"]),
        "run.pull_request_observed" => {
            let seen = |name: &str| spaced(data["state"][name].as_str().unwrap_or("unknown"));
            format!("the pull request is {}, its checks: {}", seen("status"), seen("checks"))
        }
        "run.review_comments_dropped" => match array_len(&data["comments"]) {
            1 => "1 review comment of the pull request was dropped".to_owned(),
            many => format!("{many} review comments of the pull request were dropped"),
        },
        "run.landing_aborted" => "landing aborted".to_owned(),
        "run.pull_request_opened" => format!("pull request {}: {}", data["number"], text("url")),
        "run.landing_held" => {
            let files = data["held"]["files"].as_array()?.iter().filter_map(Value::as_str);
            let files = files.collect::<Vec<_>>().join(", ");
            format!(
                "needs your approval: the work changes files that control checks or agents: {files}"
            )
        }
        "run.landing_approved" => {
            format!("approved to land: {}", text("commit").get(..12).unwrap_or(text("commit")))
        }
        "run.landed" if data["merged"] == true => format!("landed: merged into {}", text("branch")),
        "run.landed" => format!("landed on branch {}", text("branch")),
        "run.landing_failed" => format!("landing failed: {}", join_lines(text("reason"))),
        "run.cancelled" => format!("cancelled: {}", text("because")),
        "run.stopped" => {
            format!("stopped by Provost ({}): {}", text("cause"), join_lines(text("detail")))
        }
        "run.sealed" => format!("sealed as {}", data["outcome"]["ending"].as_str()?),
        "run.resumed" => {
            format!("resumed in stage {}, run attempt {}", spaced(text("stage")), data["attempt"])
        }
        "run.taken_over" => "taken over from the home that exported it".to_owned(),
        "run.budget_raised" => describe_budget(data),
        "run.hook_finished" => {
            format!("hook {} ended: {}", data["key"]["event"].as_str()?, data["end"])
        }
        "run.record_forged" => {
            format!(
                "forged record of effect {} moved aside; the effect was carried out",
                data["effect"]
            )
        }
        "run.report_written" => match data["failure"].as_str() {
            None => "summary written".to_owned(),
            Some(why) => format!("cannot write the summary: {why}"),
        },
        _ => return None,
    })
}

/// Events that concern tasks and the merge queue.
const TASK_EVENTS: [&str; 10] = [
    "run.worktree_move_requested",
    "run.worktree_moved",
    "run.handed_over",
    "run.task_retried",
    "run.task_queued",
    "run.task_returned",
    "run.task_failed",
    "run.batch_merged",
    "run.batch_verified",
    "run.integrated",
];

fn describe_plan_event(kind: &str, data: &Value) -> Option<String> {
    let tasks = |value: &Value| match array_len(&value["tasks"]) {
        1 => "1 task".to_owned(),
        many => format!("{many} tasks"),
    };
    Some(match kind {
        "run.plan_made" => format!("planned: {}", tasks(&data["plan"])),
        "run.plan_invalid" => {
            let faults = data["faults"].as_array()?.iter().filter_map(Value::as_str);
            format!("invalid plan: {}", faults.collect::<Vec<_>>().join("; "))
        }
        "run.plan_reviewed" => match data["edits"].as_u64()? {
            0 => format!("the plan is reviewed: {}", tasks(&data["plan"])),
            1 => format!("the plan is reviewed, with 1 edit: {}", tasks(&data["plan"])),
            edits => format!("the plan is reviewed, with {edits} edits: {}", tasks(&data["plan"])),
        },
        "run.plan_approved" => match array_len(&data["commands"]) {
            0 => "the plan was approved".to_owned(),
            1 => "the plan was approved, with 1 command that an agent wrote".to_owned(),
            many => format!("the plan was approved, with {many} commands that an agent wrote"),
        },
        _ => return None,
    })
}

fn describe_task_event(kind: &str, data: &Value) -> Option<String> {
    let text = |name: &str| data[name].as_str().unwrap_or_default();
    let task = spaced(text("task"));
    Some(match kind {
        "run.worktree_move_requested" => {
            format!("{task}: continues in session {}", short_id(text("session")))
        }
        "run.worktree_moved" => format!("{task}: worktree moved to its base"),
        "run.handed_over" => {
            format!(
                "{task}: handed over from {}: {}",
                short_id(text("from")),
                join_lines(text("reason"))
            )
        }
        "run.task_retried" => format!("{task}: retried: {}", join_lines(text("detail"))),
        "run.task_queued" => format!("{task}: done, queued for merging"),
        "run.task_returned" => format!("{task}: returned: {}", describe_return(&data["why"])),
        "run.task_failed" => format!("{task}: failed: {}", join_lines(text("detail"))),
        "run.batch_merged" => describe_batch(data),
        "run.batch_verified" => match data["len"].as_u64()? {
            1 => "1 merged task needs no check".to_owned(),
            many => format!("{many} merged tasks need no check"),
        },
        "run.integrated" => {
            let tasks = match data["len"].as_u64()? {
                1 => "1 task".to_owned(),
                many => format!("{many} tasks"),
            };
            format!(
                "{tasks} of batch {} moved onto the branch: {}",
                data["batch"],
                short_commit(&data["head"])
            )
        }
        _ => return None,
    })
}

fn describe_return(why: &Value) -> String {
    let strings = |list: &Value, name: &str| -> String {
        let all = list.as_array().into_iter().flatten();
        let names =
            all.filter_map(|one| if name.is_empty() { one.as_str() } else { one[name].as_str() });
        names.collect::<Vec<_>>().join(", ")
    };
    if why["conflict"].is_object() {
        format!("conflicts in {}", strings(&why["conflict"]["files"], ""))
    } else {
        format!("the merged work fails {}", strings(&why["breaks"]["failed"], "command"))
    }
}

fn describe_batch(data: &Value) -> String {
    let links = data["links"].as_array().into_iter().flatten();
    let names: Vec<&str> = links.filter_map(|link| link["task"].as_str()).collect();
    let conflicts = match array_len(&data["conflicts"]) {
        0 => String::new(),
        1 => ", 1 in conflict".to_owned(),
        many => format!(", {many} in conflict"),
    };
    let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    format!("batch {}: merged {names}{conflicts}", data["no"])
}

fn describe_session_opened(session: &str, data: &Value) -> String {
    let stage = spaced(data["stage"].as_str().unwrap_or_default());
    match data["task"].as_str() {
        Some(task) => format!("session {session} starts {stage} of {}", spaced(task)),
        None => format!("session {session} starts {stage}"),
    }
}

fn describe_verification_request(data: &Value) -> String {
    let subject = &data["subject"];
    let merged = match (&subject["batch"]["batch"], &subject["landing"]["step"]) {
        (Value::Number(batch), _) => format!("batch {batch}"),
        (_, Value::Number(step)) => format!("landing step {step}"),
        _ => "merged work".to_owned(),
    };
    let checks = data["checks"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let checks = checks.map(join_lines).collect::<Vec<_>>().join(", ");
    format!("merge check {} of {merged}: {checks}", data["no"])
}

/// Describes the result of a merge check. If a command did not pass, its receipt is the last one.
fn describe_verification_result(data: &Value) -> String {
    let last = data["receipts"].as_array().and_then(|receipts| receipts.last());
    let no = &data["no"];
    match last {
        Some(last) if last["end"]["exit"] == 0 => format!("merge check {no} passed"),
        Some(last) => {
            let command = join_lines(last["command"].as_str().unwrap_or_default());
            format!(
                "merge check {no} did not pass: {command}: {}",
                describe_check_end(&last["end"])
            )
        }
        None => format!("merge check {no} did not run"),
    }
}

fn describe_check_end(end: &Value) -> String {
    match (&end["exit"], &end["signal"], end["unfinished"].as_str(), end.as_str()) {
        (Value::Number(code), ..) => format!("exit {code}"),
        (_, Value::Number(signal), ..) => format!("signal {signal}"),
        (.., Some(reason), _) => join_lines(reason),
        (.., Some(limit)) => spaced(limit),
        _ => "unknown".to_owned(),
    }
}

fn describe_land_step(step: &Value) -> String {
    let conflicts = array_len(&step["merge"]["conflicts"]);
    match (step["merge"].is_object(), conflicts) {
        (true, 0) => {
            "the branch has moved; the work was merged with it and will be checked again".to_owned()
        }
        (true, 1) => "merged with the branch, 1 file in conflict".to_owned(),
        (true, files) => format!("merged with the branch, {files} files in conflict"),
        (false, _) => match array_len(&step["answer"]["comments"]) {
            1 => "1 review comment of the pull request goes back to the agent".to_owned(),
            many => format!("{many} review comments of the pull request go back to the agent"),
        },
    }
}

fn array_len(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

fn spec_field<'a>(data: &'a Value, name: &str) -> &'a str {
    data["spec"][name].as_str().unwrap_or_default()
}

fn describe_session_ended(session: &str, end: &Value) -> String {
    let state = spaced(end["state"].as_str().unwrap_or("ended"));
    let cause = end["cause"].as_str().map(|cause| format!(" ({})", spaced(cause)));
    let report = end["said"].as_str().map(|report| format!(": {report}"));
    let found = end["result"]["review"]["findings"].as_array();
    let found = found.map(|all| match all.len() {
        0 => ", nothing found".to_owned(),
        1 => ", 1 finding".to_owned(),
        several => format!(", {several} findings"),
    });
    let parts = [cause, found, report].into_iter().flatten().collect::<String>();
    format!("session {session} ended as {state}{parts}")
}

fn describe_decision(decision: &Value) -> String {
    let question = decision["question"].as_str().unwrap_or_default();
    let answers = decision["answer"]
        .as_array()
        .map(|all| all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "));
    format!("decided: {question} → {}", answers.unwrap_or_else(|| "a secret".to_owned()))
}

fn describe_budget(data: &Value) -> String {
    let part = |name: &str| data[name].as_u64().map(|to| format!("{to} {name}"));
    let parts: Vec<String> = ["tokens", "turns"].into_iter().filter_map(part).collect();
    format!("budget set to {}", parts.join(", "))
}

fn short_commit(head: &Value) -> &str {
    let commit = head["commit"].as_str().unwrap_or_default();
    commit.get(..12).unwrap_or(commit)
}

/// Shortens the session in the id of a request.
fn short_request_id(request: &str) -> String {
    let (session, no) = request.split_once('.').unwrap_or((request, ""));
    format!("{}.{no}", short_id(session))
}

fn spaced(word: &str) -> String {
    escape_line(&word.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn run_events_are_described() {
        let describe =
            |kind: &str, data: Value| describe_run_event(kind, &data).unwrap_or_default();
        let session = "0199aa11-0000-7000-8000-0000deadbef0";
        let found = json!({"session": session, "end": {"state": "completed", "cause": null, "said": "s",
            "result": {"review": {"findings": [{"title": "t", "severity": "low", "file": null}]}}}});
        assert_eq!(
            describe("run.session_ended", found),
            "session deadbef0 ended as completed, 1 finding: s"
        );
        let question = json!({"request": format!("{session}.q2"), "revision": 1});
        assert_eq!(describe("run.request_observed", question), "deadbef0.q2 needs an answer");
        let secret = json!({"decision": {"question": "Which token?", "answer": null}});
        assert_eq!(describe("run.decision_made", secret), "decided: Which token? → a secret");
        assert_eq!(describe_run_event("run.something_newer", &json!({})), None);
    }

    #[test]
    fn merge_checks_are_described() {
        let describe =
            |kind: &str, data: Value| describe_run_event(kind, &data).unwrap_or_default();
        let batch =
            json!({"no": 3, "subject": {"batch": {"batch": 2, "len": 1}}, "checks": ["make"]});
        assert_eq!(describe("run.verification_requested", batch), "merge check 3 of batch 2: make");
        let landing = json!({"no": 4, "subject": {"landing": {"step": 1}}, "checks": ["a", "b"]});
        assert_eq!(
            describe("run.verification_requested", landing),
            "merge check 4 of landing step 1: a, b"
        );
        let done = |end: Value| {
            let receipts = json!([{"command": "make", "end": end}]);
            describe("run.verification_done", json!({"no": 3, "receipts": receipts}))
        };
        assert_eq!(done(json!({"exit": 0})), "merge check 3 passed");
        assert_eq!(done(json!({"exit": 1})), "merge check 3 did not pass: make: exit 1");
        assert_eq!(done(json!("time_limit")), "merge check 3 did not pass: make: time limit");
    }
}
