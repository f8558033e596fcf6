//! Describes the events of a run.

use provost_api::EventRow;
use serde_json::Value;

use super::{
    Paint, Tone, short,
    text::{clean, clip},
};

/// The maximum width of a text on one line.
const LINE_WIDTH: usize = 120;

/// Describes an event of a run for a watching user. `None` if it is not worth showing.
pub(crate) fn run_event(paint: Paint, event: &EventRow) -> Option<String> {
    let tone = match event.kind.as_str() {
        "run.stage_entered" => Tone::Bold,
        "run.question_seen" => Tone::Warn,
        "run.stopped" | "run.land_failed" | "run.head_failed" | "run.task_failed" => Tone::Bad,
        "run.plan_faulty" | "run.task_returned" | "run.task_retried" => Tone::Warn,
        "run.errand_owed" | "run.errand_done" | "run.prefix_proved" | "run.task_queued" => {
            return None;
        }
        "run.session_opened" | "run.session_ended" | "run.hook_finished" => Tone::Dim,
        "run.opened" | "run.card_written" | "run.pull_seen" => return None,
        _ => Tone::Plain,
    };
    let words = run_words(&event.kind, &event.data)?;
    Some(paint.paint(tone, &clip(&clean(&words), LINE_WIDTH * 3)))
}

/// Lists the findings of a review, one per line, if the event has any.
pub(crate) fn run_findings(event: &EventRow) -> Vec<String> {
    let found = event.data["end"]["result"]["review"]["findings"].as_array();
    found.into_iter().flatten().map(found_words).collect()
}

fn found_words(finding: &Value) -> String {
    let text = |name: &str| finding[name].as_str().unwrap_or_default();
    let place = match (text("file"), finding["line"].as_u64()) {
        ("", _) => String::new(),
        (file, Some(line)) => format!(" ({file}:{line})"),
        (file, None) => format!(" ({file})"),
    };
    let fixed = if finding["repaired"] == true { ", fixed" } else { "" };
    let words = format!("{}{fixed}: {}{place}", text("severity"), text("title"));
    format!("  {}", clip(&clean(&words), LINE_WIDTH))
}

/// Describes an event of a run from its JSON, because a newer daemon may record events unknown to
/// this program.
pub(crate) fn run_words(kind: &str, data: &Value) -> Option<String> {
    let text = |name: &str| data[name].as_str().unwrap_or_default();
    let session = || short(text("session"));
    Some(match kind {
        "run.opened" => format!("run opened {}: {}", spec(data, "name"), spec(data, "goal")),
        "run.stage_entered" => format!("stage {}", words(text("stage"))),
        "run.session_opened" => session_opened(&session(), data),
        "run.session_ended" => session_ended(&session(), &data["end"]),
        "run.question_seen" => format!("{} needs an answer", short_request(text("request"))),
        "run.decision_made" => decided(&data["decision"]),
        _ if kind.starts_with("run.plan_") => plan_words(kind, data)?,
        _ if TASK_EVENTS.contains(&kind) => task_words(kind, data)?,
        "run.head_taken" => {
            format!("work of session {} committed: {}", session(), commit(&data["head"]))
        }
        "run.head_failed" => {
            format!("cannot commit the work of session {}: {}", session(), text("reason"))
        }
        "run.land_step_taken" => step(&data["step"]),
        "run.pull_seen" => {
            let seen = |name: &str| words(data["state"][name].as_str().unwrap_or("unknown"));
            format!("the pull request is {}, its checks: {}", seen("standing"), seen("checks"))
        }
        "run.remarks_left" => {
            format!("{} review comments of the pull request were dropped", length(&data["remarks"]))
        }
        "run.land_over" => "landing aborted".to_owned(),
        "run.pull_requested" => format!("pull request {}: {}", data["number"], text("url")),
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
        "run.land_failed" => format!("landing failed: {}", text("reason")),
        "run.cancelled" => format!("cancelled: {}", text("because")),
        "run.stopped" => format!("stopped by Provost ({}): {}", text("cause"), text("detail")),
        "run.sealed" => format!("sealed as {}", data["outcome"]["ending"].as_str()?),
        "run.resumed" => {
            format!("resumed in stage {}, run attempt {}", words(text("stage")), data["leg"])
        }
        "run.taken_over" => "taken over from the home it was imported from".to_owned(),
        "run.budget_raised" => raised(data),
        "run.hook_finished" => {
            format!("hook {} ended: {}", data["key"]["event"].as_str()?, data["end"])
        }
        "run.record_forged" => {
            format!("forged record of {} moved aside; the effect ran", data["effect"])
        }
        "run.card_written" => match data["failure"].as_str() {
            None => "report card written".to_owned(),
            Some(why) => format!("cannot write the report card: {why}"),
        },
        _ => return None,
    })
}

/// Events of tasks and of the merge queue.
const TASK_EVENTS: [&str; 10] = [
    "run.errand_owed",
    "run.errand_done",
    "run.handed_over",
    "run.task_retried",
    "run.task_queued",
    "run.task_returned",
    "run.task_failed",
    "run.batch_merged",
    "run.prefix_proved",
    "run.integrated",
];

fn plan_words(kind: &str, data: &Value) -> Option<String> {
    let tasks = |value: &Value| match length(&value["tasks"]) {
        1 => "1 task".to_owned(),
        many => format!("{many} tasks"),
    };
    Some(match kind {
        "run.plan_made" => format!("planned: {}", tasks(&data["plan"])),
        "run.plan_faulty" => {
            let faults = data["faults"].as_array()?.iter().filter_map(Value::as_str);
            format!("invalid plan: {}", faults.collect::<Vec<_>>().join("; "))
        }
        "run.plan_reviewed" => match data["edits"].as_u64()? {
            0 => format!("the plan is reviewed: {}", tasks(&data["plan"])),
            1 => format!("the plan is reviewed, with 1 edit: {}", tasks(&data["plan"])),
            edits => format!("the plan is reviewed, with {edits} edits: {}", tasks(&data["plan"])),
        },
        "run.plan_approved" => match length(&data["commands"]) {
            0 => "the plan was approved".to_owned(),
            1 => "the plan was approved, with 1 command that an agent wrote".to_owned(),
            many => format!("the plan was approved, with {many} commands that an agent wrote"),
        },
        _ => return None,
    })
}

fn task_words(kind: &str, data: &Value) -> Option<String> {
    let text = |name: &str| data[name].as_str().unwrap_or_default();
    let task = words(text("task"));
    Some(match kind {
        "run.errand_owed" => {
            format!("{task}: continues in session {}", short(text("session")))
        }
        "run.errand_done" => format!("{task}: worktree moved to its base"),
        "run.handed_over" => {
            format!("{task}: handed over from {}: {}", short(text("from")), text("reason"))
        }
        "run.task_retried" => format!("{task}: retried: {}", text("detail")),
        "run.task_queued" => format!("{task}: done, queued for merging"),
        "run.task_returned" => format!("{task}: returned: {}", given_back(&data["why"])),
        "run.task_failed" => format!("{task}: failed: {}", text("detail")),
        "run.batch_merged" => merged(data),
        "run.prefix_proved" => format!("{} merged tasks need no check", data["len"]),
        "run.integrated" => {
            format!(
                "the branch has {} of batch {}: {}",
                data["len"],
                data["batch"],
                commit(&data["head"])
            )
        }
        _ => return None,
    })
}

fn given_back(why: &Value) -> String {
    let strings = |list: &Value, name: &str| -> String {
        let all = list.as_array().into_iter().flatten();
        let names =
            all.filter_map(|one| if name.is_empty() { one.as_str() } else { one[name].as_str() });
        names.collect::<Vec<_>>().join(", ")
    };
    if why["conflict"].is_object() {
        format!("conflicts in {}", strings(&why["conflict"]["files"], ""))
    } else {
        format!("after the merge it fails {}", strings(&why["breaks"]["failed"], "command"))
    }
}

fn merged(data: &Value) -> String {
    let links = data["links"].as_array().into_iter().flatten();
    let names: Vec<&str> = links.filter_map(|link| link["task"].as_str()).collect();
    let conflicts = match length(&data["conflicts"]) {
        0 => String::new(),
        1 => ", 1 in conflict".to_owned(),
        many => format!(", {many} in conflict"),
    };
    let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    format!("batch {}: merged {names}{conflicts}", data["no"])
}

fn session_opened(session: &str, data: &Value) -> String {
    let stage = words(data["stage"].as_str().unwrap_or_default());
    match data["task"].as_str() {
        Some(task) => format!("session {session} starts {stage} of {}", words(task)),
        None if stage == "tasks" => format!("session {session} checks the merge"),
        None => format!("session {session} starts {stage}"),
    }
}

fn step(step: &Value) -> String {
    let conflicts = length(&step["merge"]["conflicts"]);
    match (step["merge"].is_object(), conflicts) {
        (true, 0) => "the branch has moved: merged with it, to be checked again".to_owned(),
        (true, 1) => "merged with the branch, 1 file in conflict".to_owned(),
        (true, files) => format!("merged with the branch, {files} files in conflict"),
        (false, _) => {
            let remarks = length(&step["answer"]["remarks"]);
            format!("{remarks} review comments of the pull request go back to the agent")
        }
    }
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

fn spec<'a>(data: &'a Value, name: &str) -> &'a str {
    data["spec"][name].as_str().unwrap_or_default()
}

fn session_ended(session: &str, end: &Value) -> String {
    let state = words(end["state"].as_str().unwrap_or("ended"));
    let cause = end["cause"].as_str().map(|cause| format!(" ({})", words(cause)));
    let said = end["said"].as_str().map(|said| format!(": {said}"));
    let found = end["result"]["review"]["findings"].as_array();
    let found = found.map(|all| match all.len() {
        0 => ", nothing found".to_owned(),
        1 => ", 1 finding".to_owned(),
        several => format!(", {several} findings"),
    });
    let parts = [cause, found, said].into_iter().flatten().collect::<String>();
    format!("session {session} ended as {state}{parts}")
}

fn decided(decision: &Value) -> String {
    let question = decision["question"].as_str().unwrap_or_default();
    let answers = decision["answer"]
        .as_array()
        .map(|all| all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "));
    format!("decided: {question} → {}", answers.unwrap_or_else(|| "a secret".to_owned()))
}

fn raised(data: &Value) -> String {
    let part = |name: &str| data[name].as_u64().map(|to| format!("{to} {name}"));
    let parts: Vec<String> = ["tokens", "turns"].into_iter().filter_map(part).collect();
    format!("budget raised to {}", parts.join(", "))
}

fn commit(head: &Value) -> &str {
    let commit = head["commit"].as_str().unwrap_or_default();
    commit.get(..12).unwrap_or(commit)
}

/// Returns a request's id with the short form of its session.
fn short_request(request: &str) -> String {
    let (session, no) = request.split_once('.').unwrap_or((request, ""));
    format!("{}.{no}", short(session))
}

fn words(word: &str) -> String {
    clean(&word.replace('_', " "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_happens_is_told_in_words() {
        let told = |kind: &str, data: Value| run_words(kind, &data).unwrap_or_default();
        let session = "0199aa11-0000-7000-8000-0000deadbef0";
        let found = json!({"session": session, "end": {"state": "completed", "cause": null, "said": "s",
            "result": {"review": {"findings": [{"title": "t", "severity": "low", "file": null}]}}}});
        assert_eq!(
            told("run.session_ended", found),
            "session deadbef0 ended as completed, 1 finding: s"
        );
        let question = json!({"request": format!("{session}.q2"), "revision": 1});
        assert_eq!(told("run.question_seen", question), "deadbef0.q2 needs an answer");
        let secret = json!({"decision": {"question": "Which token?", "answer": null}});
        assert_eq!(told("run.decision_made", secret), "decided: Which token? → a secret");
        assert_eq!(run_words("run.something_newer", &json!({})), None);
    }
}
