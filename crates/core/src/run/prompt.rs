//! The prompts for the agents of a run. A project can override each of them.

use serde::{Deserialize, Serialize};

use super::{
    graph::{TaskPhase, TaskReturn, TaskState},
    landing::{LandStep, ReviewComment},
    session_spec::SessionJob,
    spec::ReviewMode,
    stage::RunStage,
    state::{Run, RunDecision},
};
use crate::{
    plan::{Plan, PlanTask},
    result::Finding,
    text::{quote_lines, quote_name},
    verdict::Receipt,
};

/// A prompt that a project can override.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptTemplate {
    Triage,
    Plan,
    PlanReview,
    /// The agent returned something that is not a valid plan, or not a valid plan review.
    PlanFaults,
    Work,
    /// The next task for an agent that continues a conversation.
    Next,
    /// The work fails checks after it was merged with other tasks.
    Broken,
    Review,
    Repair,
    Resume,
    /// The target branch moved, and merging the work with it caused conflicts in some files.
    Merge,
    /// A pull request received review comments.
    ReviewComments,
}

impl PromptTemplate {
    pub const ALL: [PromptTemplate; 12] = [
        PromptTemplate::Triage,
        PromptTemplate::Plan,
        PromptTemplate::PlanReview,
        PromptTemplate::PlanFaults,
        PromptTemplate::Work,
        PromptTemplate::Next,
        PromptTemplate::Broken,
        PromptTemplate::Review,
        PromptTemplate::Repair,
        PromptTemplate::Resume,
        PromptTemplate::Merge,
        PromptTemplate::ReviewComments,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            PromptTemplate::Triage => "triage",
            PromptTemplate::Plan => "plan",
            PromptTemplate::PlanReview => "plan_review",
            PromptTemplate::PlanFaults => "plan_faults",
            PromptTemplate::Work => "work",
            PromptTemplate::Next => "next",
            PromptTemplate::Broken => "broken",
            PromptTemplate::Review => "review",
            PromptTemplate::Repair => "repair",
            PromptTemplate::Resume => "resume",
            PromptTemplate::Merge => "merge",
            PromptTemplate::ReviewComments => "review_comments",
        }
    }

    fn for_stage(stage: RunStage, mode: ReviewMode) -> PromptTemplate {
        match (stage, mode) {
            (RunStage::Triage, _) => PromptTemplate::Triage,
            (RunStage::Plan, _) => PromptTemplate::Plan,
            (RunStage::PlanReview, _) => PromptTemplate::PlanReview,
            (RunStage::TaskReview | RunStage::FinalReview, ReviewMode::Repair) => {
                PromptTemplate::Repair
            }
            (
                RunStage::TaskReview | RunStage::FinalReview,
                ReviewMode::Off | ReviewMode::Report,
            ) => PromptTemplate::Review,
            (RunStage::Land, _) => PromptTemplate::Merge,
            (RunStage::Intake | RunStage::Tasks | RunStage::Work, _) => PromptTemplate::Work,
        }
    }

    fn default_text(self) -> &'static str {
        let found = DEFAULT_TEMPLATES.iter().find(|(template, _)| *template == self);
        found.map_or("{{task}}", |(_, text)| text)
    }
}

/// The default prompts.
pub const DEFAULT_TEMPLATES: [(PromptTemplate, &str); 12] = [
    (
        PromptTemplate::Triage,
        "Read the task below and the project in this directory, and change nothing. If something that \
         matters for the result is unclear and cannot be found out from the project, ask. End with your \
         understanding of the work, in a few sentences, and whether it is too large for one \
         task.\n\n{{task}}",
    ),
    (
        PromptTemplate::Plan,
        "Read the task below and the project in this directory, and change nothing. Divide it into \
         tasks, each for one agent that works alone in a copy of the project and sees nothing of the \
         others' work until it is merged. For each task, name its dependencies: the tasks whose result \
         it needs, and no others, so that independent tasks run in parallel. Tasks that change the same \
         files should depend on each other. Give each task an instruction that can be followed without \
         this conversation, acceptance criteria for its result, commands that check it if there are any, \
         and the files that it will probably change. If something that matters for the result is unclear \
         and cannot be found out from the project, ask.\n\n{{task}}",
    ),
    (
        PromptTemplate::PlanReview,
        "Review the plan below for the task below, with the project in this directory, and change no \
         file. Look for tasks that are missing, unnecessary, too large or unclear, for missing or \
         unnecessary dependencies, and for parallel tasks that would change the same lines. Accept it, \
         with edits where they improve it, or reject it with the reason if edits cannot fix it.\n\n## \
         Plan\n\n{{plan}}\n\n{{task}}",
    ),
    (
        PromptTemplate::PlanFaults,
        "Your result cannot be accepted:\n\n{{faults}}\n\nReport it again in full, without these \
         faults.\n\n{{task}}",
    ),
    (
        PromptTemplate::Next,
        "That task is done, checked and merged with other agents' work, and this directory contains the \
         result. Now do the next task in the same way: all of it and nothing else.\n\n{{task}}",
    ),
    (
        PromptTemplate::Broken,
        "Your work for the task below passed its checks on its own. Merged with the work of others, it \
         fails them. This directory contains both: fix your work so that everything passes \
         together.\n\n{{failed}}\n\n{{task}}",
    ),
    (
        PromptTemplate::Work,
        "Do the task below in this directory. Do all of it and nothing else. You need not commit: your \
         changes in the directory are committed for you.\n\n{{task}}",
    ),
    (
        PromptTemplate::Review,
        "Review the work that was done for the task below: the changes in this directory since commit \
         {{base}} (`git diff {{base}}`). Change nothing. Report each problem that should be fixed, with \
         file, line and severity; an empty list is a good answer if there are none.\n\n{{task}}",
    ),
    (
        PromptTemplate::Repair,
        "Review the work that was done for the task below: the changes in this directory since commit \
         {{base}} (`git diff {{base}}`). Fix each problem that you find. Report each of them, with file, \
         line and severity, and whether you fixed it; an empty list is a good answer if there are \
         none.\n\n{{task}}",
    ),
    (
        PromptTemplate::Resume,
        "The work was interrupted before it was done: {{ended}}. Look at the current state of the files, \
         and do the rest of the task.\n\n{{task}}",
    ),
    (
        PromptTemplate::Merge,
        "The work for the task below was merged with changes that others made in the meantime, and both \
         changed the same lines. These files have conflict markers:\n\n{{files}}\n\nResolve each \
         conflict so that both changes still serve their purpose and no marker is left. Change nothing \
         else.\n\n{{task}}",
    ),
    (
        PromptTemplate::ReviewComments,
        "The pull request for your work received the feedback below, from programs and from people. Fix \
         the problems that it is right about. If it asks for anything beyond your work, leave that \
         alone and say so.\n\n{{comments}}\n\n{{task}}",
    ),
];

/// Additional instructions for an agent that may start sub-agents.
const SUB_AGENTS: &str = "You may start sub-agents. Use them for parts that are really independent of each other, such as \
    reading different parts of a large project, and give each everything it needs to know, because it cannot see \
    this conversation. They work in the same directory, so no two may change the same files. Wait for all of them \
    before you end your turn. You are responsible for their work, and only you report.";

/// The placeholders that every prompt may contain in double braces.
pub fn placeholders() -> [&'static str; 9] {
    ["task", "goal", "base", "ended", "files", "comments", "plan", "faults", "failed"]
}

/// The values of placeholders that only some prompts use.
#[derive(Default)]
struct PromptValues {
    ended: String,
    files: String,
    comments: String,
    plan: String,
    faults: String,
    failed: String,
}

impl Run {
    /// Builds the instruction for a session.
    pub(super) fn instruction(&self, mode: ReviewMode, job: &SessionJob<'_>) -> String {
        let of_task = job.task.and_then(|plan| {
            let task = self.graph.as_ref()?.task(&plan.id)?;
            (job.stage == RunStage::Work).then(|| self.task_instruction(plan, task))
        });
        let step = if job.stage == RunStage::Land { self.step(job.cycle) } else { None };
        match (of_task, step) {
            (Some(text), _) => text,
            (None, Some(LandStep::Answer { comments })) => self.comments_prompt(None, comments),
            (None, Some(LandStep::Merge { conflicts, .. })) => self.merge_prompt(None, conflicts),
            (None, None) => {
                let plan =
                    self.planned.as_ref().map(|one| plan_to_json(&one.plan)).unwrap_or_default();
                let extras = PromptValues { plan, ..PromptValues::default() };
                let text =
                    self.render(PromptTemplate::for_stage(job.stage, mode), job.task, &extras);
                text + &self.predecessor_faults(job)
            }
        }
    }

    /// Lists the faults in the plan or review of the previous agent.
    fn predecessor_faults(&self, job: &SessionJob<'_>) -> String {
        let planning = matches!(job.stage, RunStage::Plan | RunStage::PlanReview);
        match self.plan_faults.last() {
            Some((_, faults)) if planning && job.cycle > 1 => {
                let faults = faults.iter().map(|fault| format!("- {fault}\n")).collect();
                format!(
                    "\n\n{}",
                    list("Another agent's result was refused for these faults", faults)
                )
            }
            Some(_) | None => String::new(),
        }
    }

    /// Builds the instruction for a task, depending on whether it is for the first session, a
    /// successor, a retry, or a task that the merge queue returned.
    pub(super) fn task_instruction(&self, plan: &PlanTask, task: &TaskState) -> String {
        let some = Some(plan);
        match (&task.returned, &task.interrupted) {
            (Some(TaskReturn::Conflict(met)), _) => self.merge_prompt(some, &met.files),
            (Some(TaskReturn::Breaks { failed, .. }), _) => {
                let failed = failed.iter().map(describe_failed_check).collect();
                self.render(
                    PromptTemplate::Broken,
                    some,
                    &PromptValues { failed, ..PromptValues::default() },
                )
            }
            (None, Some(why)) => self.resume_prompt(some, why),
            (None, None) if matches!(task.phase, TaskPhase::PreparingWorktree(_)) => {
                self.render(PromptTemplate::Next, some, &PromptValues::default())
            }
            (None, None) => self.render(PromptTemplate::Work, some, &PromptValues::default()),
        }
    }

    fn merge_prompt(&self, task: Option<&PlanTask>, files: &[String]) -> String {
        let files = files.iter().map(|file| format!("- {file}\n")).collect();
        self.render(PromptTemplate::Merge, task, &PromptValues { files, ..PromptValues::default() })
    }

    /// Builds the prompt with which an invalid plan or review is returned to its agent.
    pub(super) fn faults_prompt(&self, faults: &[String]) -> String {
        let faults = faults.iter().map(|fault| format!("- {fault}\n")).collect();
        self.render(
            PromptTemplate::PlanFaults,
            None,
            &PromptValues { faults, ..PromptValues::default() },
        )
    }

    /// Builds the prompt about review comments. Their text is quoted, because it is untrusted.
    pub(super) fn comments_prompt(
        &self,
        task: Option<&PlanTask>,
        comments: &[ReviewComment],
    ) -> String {
        let comment = |one: &ReviewComment| {
            format!("{}:\n{}\n\n", quote_name(&one.by), quote_lines(&one.text))
        };
        let comments = comments.iter().map(comment).collect();
        self.render(
            PromptTemplate::ReviewComments,
            task,
            &PromptValues { comments, ..PromptValues::default() },
        )
    }

    /// Builds the instruction that resumes interrupted work.
    pub(super) fn resume_prompt(&self, task: Option<&PlanTask>, ended: &str) -> String {
        let extras = PromptValues { ended: ended.to_owned(), ..PromptValues::default() };
        self.render(PromptTemplate::Resume, task, &extras)
    }

    fn render(
        &self,
        template: PromptTemplate,
        plan: Option<&PlanTask>,
        extras: &PromptValues,
    ) -> String {
        let own = self.spec.templates.get(&template).map(String::as_str);
        let task = self.task_context(plan);
        let began = plan.and_then(|plan| self.graph.as_ref()?.task(&plan.id)?.base.as_ref());
        let base = began.unwrap_or(&self.spec.target.base).commit.0.as_str();
        substitute(own.unwrap_or(template.default_text()), &|name| match name {
            "task" => Some(task.as_str()),
            "goal" => Some(self.spec.goal.as_str()),
            "base" => Some(base),
            "ended" => Some(extras.ended.as_str()),
            "files" => Some(extras.files.trim_end()),
            "comments" => Some(extras.comments.trim_end()),
            "plan" => Some(extras.plan.as_str()),
            "faults" => Some(extras.faults.trim_end()),
            "failed" => Some(extras.failed.trim_end()),
            _ => None,
        })
    }

    /// Builds the context that every stage receives: goal, spec, understanding, decisions, checks
    /// and findings.
    fn task_context(&self, plan: Option<&PlanTask>) -> String {
        let understood = self.triage.as_ref().map(|triage| triage.understanding.as_str());
        let checks = plan.map_or_else(|| self.all_checks(), |plan| self.task_checks(plan));
        let checks = checks.iter().map(|check| format!("- `{check}`\n"));
        let words =
            self.latest_reviews().filter(|one| one.task.as_ref() == plan.map(|plan| &plan.id));
        let found: String =
            words.flat_map(|one| one.review.unrepaired()).map(describe_finding).collect();
        let whole = if plan.is_some() { "The goal that your task is part of" } else { "Task" };
        let parts = [
            (whole, Some(self.spec.goal.as_str())),
            ("Specification", self.spec.spec.as_deref()),
            ("Understanding of the goal", understood),
        ];
        let mut text: String =
            parts.into_iter().filter_map(|(title, text)| Some(section(title, text?))).collect();
        if let Some(plan) = plan {
            text += &section("Your task", &describe_task(plan));
            text += &self.predecessor_report(plan);
        }
        text += &list("Decisions", self.decisions.iter().map(describe_decision).collect());
        text += &list("Checks that will be run on the result", checks.collect());
        text += &list("Open findings of earlier reviews", found);
        let multi_agent = self.spec.agent.settings.multi_agent.as_ref();
        if multi_agent.is_some_and(|multi_agent| multi_agent.on) {
            text += &section("Sub-agents", SUB_AGENTS);
        }
        text.trim_end().to_owned()
    }

    /// Quotes the previous agent's report if its conversation could not be resumed.
    fn predecessor_report(&self, plan: &PlanTask) -> String {
        let task = self.graph.as_ref().and_then(|graph| graph.task(&plan.id));
        let from = task.and_then(|task| task.handed_over.as_ref());
        let before = from.and_then(|(from, _)| self.session(*from)?.end.as_ref());
        match before.and_then(|end| end.said.as_deref()) {
            Some(report) => section("Report of the previous agent", report),
            None => String::new(),
        }
    }
}

fn describe_task(plan: &PlanTask) -> String {
    let lines = |title: &str, items: &[String]| {
        if items.is_empty() {
            return String::new();
        }
        let items: String = items.iter().map(|item| format!("- {item}\n")).collect();
        format!("\n\n{title}:\n{}", items.trim_end())
    };
    let fulfils = lines("Acceptance criteria", &plan.criteria);
    let scope = lines("Probable scope", &plan.scope);
    format!("{}: {}\n\n{}{fulfils}{scope}", plan.id, plan.title, plan.instruction)
}

fn plan_to_json(plan: &Plan) -> String {
    serde_json::to_string_pretty(plan).expect("a plan has string keys only")
}

/// Describes a failed check and quotes the end of its output, which is untrusted.
fn describe_failed_check(receipt: &Receipt) -> String {
    let tail: String = receipt.tail.lines().map(|line| format!("> {line}\n")).collect();
    format!("The check `{}` failed:\n{tail}\n", receipt.command)
}

fn section(title: &str, text: &str) -> String {
    format!("## {title}\n\n{}\n\n", text.trim_end())
}

fn list(title: &str, items: String) -> String {
    if items.is_empty() { String::new() } else { section(title, &items) }
}

/// Describes a decision that was made while the agent was working.
pub(super) fn describe_new_decision(decision: &RunDecision) -> String {
    let decided = describe_decision(decision);
    format!(
        "Decided in the meantime, for all agents of this run:\n\n{decided}\nContinue your task."
    )
}

fn describe_decision(decision: &RunDecision) -> String {
    let answer = decision.answer.as_ref().map(|answers| answers.join("; "));
    let answer = answer.unwrap_or_else(|| "given, and kept secret".to_owned());
    format!("- {}\n  Decided: {answer}\n", decision.question)
}

fn describe_finding(finding: &Finding) -> String {
    let place = match (&finding.file, finding.line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        (Some(file), None) => format!(" ({file})"),
        (None, _) => String::new(),
    };
    format!("- {}{place}: {}\n  {}\n", finding.severity.as_str(), finding.title, finding.detail)
}

/// Substitutes the placeholders in one pass, so that substituted text is never interpreted as a template.
fn substitute<'a>(template: &'a str, value: &dyn Fn(&str) -> Option<&'a str>) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        filled += before;
        let Some((name, behind)) = after.split_once("}}") else {
            filled += "{{";
            rest = after;
            continue;
        };
        match value(name.trim()) {
            Some(text) => filled += text,
            None => filled += &format!("{{{{{name}}}}}"),
        }
        rest = behind;
    }
    filled + rest
}
