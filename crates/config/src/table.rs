//! The table of keys. To add a key, add a line with its field, its type and its default, and a doc
//! comment that describes it.
//!
//! A new key must also be implemented, because every accepted key must have an observable effect.

use std::time::Duration;

use crate::key::{events, options};
use crate::shape::ValueLimits;
use crate::types::{
    Act, Adapter, ApprovalRule, Argv, BranchPrefix, Bytes, CleanUp, Color, CommandSpec,
    CommentAuthors, DirectoryName, Escalation, EvidenceTexts, FilePath, Land, NameLabel,
    NamePatterns, On, PlanMode, Price, Prompt, RelativePattern, ReviewMode, RulesVersion,
    Switchable, TextLine, TokenAmount, Variables, is_safe,
};

const HOUR: u64 = 3_600_000;

/// Short waits; zero is allowed.
const WINDOW: ValueLimits = ValueLimits { min: 0, max: HOUR };

/// Silence timeouts: long enough to be useful.
const SILENCE: ValueLimits = ValueLimits { min: 10, max: 7 * 24 * HOUR };

/// Time limits: never zero, because everything would time out immediately.
pub(crate) const TIME: ValueLimits = ValueLimits { min: 10, max: 365 * 24 * HOUR };

/// Output limits: large enough for at least one message.
pub(crate) const OUTPUT: ValueLimits = ValueLimits { min: 1 << 10, max: 1 << 40 };

/// Number of automatic retries.
const REPEATS: ValueLimits = ValueLimits { min: 0, max: 100 };

/// Number of agents working at the same time.
const AGENTS: ValueLimits = ValueLimits { min: 1, max: 256 };

/// Number of tasks merged together.
const BATCH: ValueLimits = ValueLimits { min: 1, max: 64 };

/// Number of review-and-fix rounds.
const CYCLES: ValueLimits = ValueLimits { min: 1, max: 20 };

/// Number of times a reaction runs: never zero, because that would disable it.
const TIMES: ValueLimits = ValueLimits { min: 1, max: 1_000 };

/// Number of iterations of a loop.
const ITERATIONS: ValueLimits = ValueLimits { min: 1, max: 1_000 };

/// Number of consecutive iterations that change nothing.
const PLATEAU: ValueLimits = ValueLimits { min: 1, max: 1_000 };

/// Number of actions of a policy: at least two, because the last one only reports that there are none left.
const ACTS: ValueLimits = ValueLimits { min: 2, max: 1_000 };

/// Percent.
const PERCENT: ValueLimits = ValueLimits { min: 1, max: 100 };

/// Budgets: never zero, because then nothing could start.
const BUDGET: ValueLimits = ValueLimits { min: 1, max: 1_000_000_000_000 };

/// Number of turns in a budget.
const TURNS: ValueLimits = ValueLimits { min: 1, max: 1_000_000 };

options! {
    /// Supervision of sessions.
    "session" => Session {
        /// How long an attempt stays open after its end was observed, so that late claims still count.
        settle: Duration = "2s" in WINDOW;
        /// How long an open turn may be silent before its session is shown as stalled.
        stale_after: Duration = "5m" in SILENCE;
        /// How long to wait for the remaining output of a process that has exited.
        drain: Duration = "2s" in WINDOW;
        /// How long a process may take to exit after SIGTERM before it is killed.
        stop_grace: Duration = "10s" in WINDOW;
        /// Time limit of one attempt; unset or off means none.
        time_limit: Switchable<Duration> = unset in TIME;
        /// Maximum output kept per launch. At the limit, the agent is paused; nothing is dropped.
        output_limit: Bytes = "1GiB" in OUTPUT;
        /// Period over which the sessions of an account are resumed once its limit has been lifted.
        limit_jitter: Duration = "30s" in WINDOW;
        /// Minimum interval between resuming two sessions of one account once its limit has been lifted.
        limit_spacing: Duration = "10s" in WINDOW;
        /// How many times work that failed its checks is sent back to the agent.
        rework: u32 = 3 in REPEATS;
        /// Whether exit status 0 counts as a claim that the work is done.
        exit_zero_completes: bool = false;
        /// Whether work without any changes can pass its checks.
        allow_empty_diff: bool = false;
    }

    /// Verification of work.
    "verify" => Verify {
        /// The commands that must succeed. They run in a clean checkout of the committed tree.
        checks: Vec<CommandSpec> = [];
        /// Time limit of one check.
        time_limit: Duration = "30m" in TIME;
        /// Maximum output kept of one check.
        output_limit: Bytes = "64MiB" in OUTPUT;
        /// Names of untracked directories that stay in a checkout from one check to the next, at any
        /// depth.
        keep: Vec<DirectoryName> = ["target", "node_modules"];
        /// Files that the checks depend on. Checks use the base's version of these files, and
        /// changes to them are reported and need your approval before they are merged.
        protected: Vec<RelativePattern> = [];
    }

    /// How a run gets from its goal to an outcome.
    "run" => Run {
        /// What happens to verified work: it stays on its own branch, is merged, or becomes a pull request.
        land: Land = "branch";
        /// Whether an agent first reads the goal and the project, and asks about unclear points.
        triage: bool = true;
        /// Whether the goal is split into tasks: automatically (if triage decides that one task is
        /// not enough), always, or never.
        plan: PlanMode = "auto";
        /// Whether the user has to approve a plan before its tasks start.
        approve_plan: bool = false;
        /// Maximum number of agents of one run that work at the same time. If unset or off, it is the
        /// number of processors, but at least two and at most eight.
        parallel: Switchable<u32> = unset in AGENTS;
        /// Maximum number of agents of all runs that work at the same time. If unset or off, it is twice
        /// the limit for one run.
        machine_parallel: Switchable<u32> = unset in AGENTS;
        /// Maximum number of finished tasks that are merged and checked together.
        batch: u32 = 8 in BATCH;
        /// How many times a task is restarted after its agent failed.
        retries: u32 = 1 in REPEATS;
        /// Whether the agents may ask the user questions.
        questions: bool = true;
        /// How often a pull request is polled.
        pull_every: Duration = "30s" in TIME;
        /// How long to wait for a pull request's checks to appear before assuming that it has none.
        pull_checks: Duration = "1m" in WINDOW;
        /// Whose comments on a pull request are sent to the agents: those of users with write
        /// access, or of everyone. A project's file cannot widen this.
        comments_from: CommentAuthors = "write";
    }

    /// The reviews of a run, and what happens with their findings.
    "review" => Review {
        /// The review of a plan. It either only reports findings or also edits the plan.
        plan: ReviewMode = "repair";
        /// The review of each task's work.
        task: ReviewMode = "report";
        /// The review of the complete work before it lands.
        whole as "final": ReviewMode = "off";
        /// Maximum number of review-and-fix rounds.
        cycles: u32 = 2 in CYCLES;
    }

    /// Token prices, used to show the cost of a run. No cost is shown unless both prices are set.
    "prices" => Prices {
        /// The currency of the prices.
        currency: NameLabel = "USD";
        /// The price of a million input tokens.
        input: Switchable<Price> = unset;
        /// The price of a million output tokens.
        output: Switchable<Price> = unset;
    }

    /// Project-specific prompts for the agents of a run. If unset or off, Provost's own prompts are used.
    "prompts" => Prompts {
        /// The prompt for understanding the goal and asking about unclear points.
        triage: Switchable<Prompt> = unset;
        /// The prompt for splitting the goal into tasks.
        plan: Switchable<Prompt> = unset;
        /// The prompt for reviewing a plan.
        plan_review: Switchable<Prompt> = unset;
        /// The prompt for correcting an invalid plan, or an invalid review of a plan.
        plan_faults: Switchable<Prompt> = unset;
        /// The prompt for the work itself.
        work: Switchable<Prompt> = unset;
        /// The prompt for continuing with the next task in the same conversation.
        next: Switchable<Prompt> = unset;
        /// The prompt for fixing work that fails its checks after it was merged with other work.
        broken: Switchable<Prompt> = unset;
        /// The prompt for reviewing the work without changing anything.
        review: Switchable<Prompt> = unset;
        /// The prompt for reviewing the work and fixing the findings.
        repair: Switchable<Prompt> = unset;
        /// The prompt for continuing work that was interrupted before it was done.
        resume: Switchable<Prompt> = unset;
        /// The prompt for resolving merge conflicts.
        merge: Switchable<Prompt> = unset;
        /// The prompt for addressing the review comments of a pull request.
        review_comments: Switchable<Prompt> = unset;
    }

    /// Where agents work.
    "worktree" => Worktree {
        /// Whether each session gets its own worktree and branch. If unset, it depends on the command.
        enabled: Option<bool> = unset;
        /// The prefix of branch names, before a slash.
        branch_prefix: BranchPrefix = "provost";
        /// Ignored files that are copied into a new worktree.
        copy: Vec<RelativePattern> = [];
        /// A command that prepares a new worktree.
        setup: Switchable<CommandSpec> = unset;
    }

    /// Programs that Provost's git may run. Allowed only in the user's own file.
    "git" => GitPrograms {
        /// Filters that you trust, such as "lfs". Provost runs their commands as configured in your own git
        /// configuration (`git config --global`). Repositories that need any other filter are refused.
        filters: Vec<NameLabel> = [];
    }

    /// The terminals of agents that run in one.
    "terminal" => Terminal {
        /// Whether each terminal is also shown as a window in Provost's own tmux.
        tmux: bool = false;
    }

    /// How much a session, or a run with all its sessions, may use before it is stopped. `provost
    /// limit` raises these limits.
    "budget" => Budget {
        /// Maximum number of tokens, input and output combined; unset or off means no limit.
        tokens: Switchable<TokenAmount> = unset in BUDGET;
        /// Maximum number of turns; unset or off means no limit.
        turns: Switchable<u32> = unset in TURNS;
    }

    /// Rules that decide approvals automatically. Deny overrides ask, and ask overrides allow. If
    /// no rule matches, you are asked.
    "approvals" => ApprovalRules {
        /// The version of the rule format.
        version: RulesVersion = 1;
        /// Approve without asking, if every part of the request matches a rule in this list.
        allow: Vec<ApprovalRule> = [];
        /// Always ask, even if a rule allows it.
        ask: Vec<ApprovalRule> = [];
        /// Deny without asking. The lists of all layers are combined, so a project cannot remove
        /// what the user denies.
        deny: Vec<ApprovalRule> = [];
        /// How long an approval request may wait for the user before it is denied; unset or off means indefinitely.
        expire_after: Switchable<Duration> = unset in TIME;
    }

    /// Skills in addition to those that an agent finds by itself.
    "skills" => Skills {
        /// Directories that contain additional skills, in order of precedence.
        roots: Vec<FilePath> = [];
    }

    /// Commands that run when an event occurs. They receive the event as JSON on standard input.
    "hooks" => HookDefaults {
        /// Default time limit for hooks.
        time_limit: Duration = "30s" in TIME;
        /// Default maximum output kept per hook.
        output_limit: Bytes = "1MiB" in OUTPUT;
    }

    /// Automatic reactions when a session is quiet, stalled, needs input, or reaches a limit. Each
    /// reaction also runs the hook `session.reaction`.
    "reactions.*" => Reaction {
        /// The condition that triggers the reaction.
        on: On = required;
        /// How long the condition must last before the reaction, and the interval between repeated
        /// reactions; unset or off means none. For "resume_later": how long to wait if the agent
        /// reports no reset time.
        after: Switchable<Duration> = unset in SILENCE;
        /// How full the context must be for the condition "context", in percent; unset or off means 85.
        at: Switchable<u32> = unset in PERCENT;
        /// The action of the reaction.
        act as "do": Act = required;
        /// The message to the agent. For "nudge" and "interrupt", it replaces Provost's own
        /// message; for "hand_over", it is added to it.
        text: Option<TextLine> = unset;
        /// The agent that takes over. Only the action "hand_over" uses this key.
        agent: Option<TextLine> = unset;
        /// Maximum number of reactions each time the condition occurs.
        times: u32 = 1 in TIMES;
        /// Maximum number of reactions in one attempt.
        total: u32 = 10 in TIMES;
    }

    /// The agents that `--agent NAME` can start.
    "agents.*" => Agent {
        /// How Provost communicates with the program: as a plain command, or with JSON lines.
        adapter: Adapter = "command";
        /// The program and its arguments.
        command: Argv = required;
        /// An environment variable for the agent. `$NAME` is replaced by that variable of the daemon's environment.
        env["*"]: Variables = unset;
        /// Variables that are passed on from the daemon's environment to the agent. A trailing star
        /// matches any suffix.
        pass_env: NamePatterns = [];
    }

    /// How `provost monitor` watches.
    "monitor" => Monitor {
        /// How long a session may be silent before the monitor reports it as stuck. This does not
        /// change the state of the session.
        stale_after: Duration = "5m" in SILENCE;
    }

    /// Verifiers for `provost monitor --workflow`. In every text, `{key}`, `{epic}` and `{story}`
    /// are replaced by the corresponding parts of the key.
    "verifiers.*" => Verifier {
        /// A command that must exit with status 0. It runs in the agent's working directory.
        command: Switchable<CommandSpec> = unset;
        /// Time limit of the command.
        time_limit: Duration = "1m" in TIME;
        /// Maximum output of the command. If it prints more, it is killed.
        output_limit: Bytes = "1MiB" in OUTPUT;
        /// A file below the agent's working directory. The name may contain one star, which matches
        /// any text, but exactly one file must match.
        file: Option<TextLine> = unset;
        /// A pattern that must match a whole line of the file.
        matches: Option<TextLine> = unset;
        /// A field of the file (YAML, JSON, TOML, or the front matter of Markdown), with names separated by dots.
        field: Option<TextLine> = unset;
        /// The text that the field must equal.
        equals: Option<TextLine> = unset;
    }

    /// Workflows for `provost monitor --workflow NAME`.
    "workflows.*" => Workflow {
        /// The verifier that decides whether the work is complete.
        verifier: NameLabel = required;
        /// How many retries are advised.
        retries: u32 = 2 in REPEATS;
        /// What happens when no retries are left: the user must decide, or the work may be deferred.
        escalate: Escalation = "critical";
        /// Whether a retry with the same result as the previous one is deferred.
        defer_on_plateau: bool = true;
        /// Agents to advise for every second retry, in turn.
        fallback: Vec<NameLabel> = [];
    }

    /// The project's loops, for `provost team start --loop NAME`. If a loop has the name of a
    /// built-in one, it overrides individual keys of the built-in loop.
    "loops.*" => LoopTemplate {
        /// The built-in loop to start from; unset means the one with the same name, if it exists.
        from: Option<TextLine> = unset;
        /// Maximum number of iterations; unset or off means the value of the loop it starts from, or 10.
        max: Switchable<u32> = unset in ITERATIONS;
        /// What happens to the worker's conversation before each new iteration; unset or off means
        /// the value of the loop it starts from, or to keep the conversation.
        clean_up: Switchable<CleanUp> = unset;
        /// The number of consecutive iterations without a change after which the loop stops; unset
        /// means the value of the loop it starts from, or 3; off means never.
        plateau: Switchable<u32> = unset in PLATEAU;
        /// Maximum number of tokens that all its workers may use; unset or off means no limit.
        tokens: Switchable<TokenAmount> = unset in BUDGET;
        /// Tools to suggest to its members.
        tools: Vec<NameLabel> = [];
        /// The evidence that each iteration requires, by name: `"verified:COMMAND"`, `"verified"`
        /// for the project's own checks, `"asserted"`, `"challenge"`, `"artifact:FIELD,FIELD"` or
        /// `"pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]"`; off removes evidence that the
        /// loop it starts from requires.
        evidence["*"]: EvidenceTexts = unset;
    }

    /// Rule-based managers, for `provost team start --manager policy:NAME`.
    "policies.*" => ManagerPolicy {
        /// Maximum number of actions in one team. The last one notifies the operator that there are no more.
        actions: u32 = 50 in ACTS;
        /// Whether to run the open checks when the workers report that they are done.
        check: bool = true;
        /// How many times work is sent back because a check failed or evidence is missing. After
        /// that, the operator is notified.
        rework: u32 = 3 in REPEATS;
        /// The message to the worker, followed by the output of the checks. It replaces Provost's own message.
        rework_text: Option<TextLine> = unset;
        /// Whether to accept criteria that members propose. If not, the operator is notified.
        accept: bool = false;
        /// How long a worker may be idle without reporting before it is nudged; unset or off means indefinitely.
        nudge_after: Switchable<Duration> = unset in SILENCE;
        /// How many times workers are nudged. After that, the operator is notified.
        nudges: u32 = 3 in REPEATS;
        /// The message to an idle worker. It replaces Provost's own message.
        nudge_text: Option<TextLine> = unset;
        /// Whether to start the next iteration of a loop when the current one has all its evidence
        /// but something is still open.
        continue_loop: bool = true;
        /// Whether to finish the team when nothing is open and a check has verified the work. If
        /// not, the operator is notified.
        finish: bool = true;
    }

    /// The environment of every child process.
    "environment" => Environment {
        /// Variables that child processes get in addition to the safe ones. A trailing star matches any suffix.
        allow: NamePatterns = [];
    }

    /// The appearance of terminal output.
    "ui" => Ui {
        /// When output is colored. With "auto", `CLICOLOR_FORCE` also colors output that is not a
        /// terminal, and `NO_COLOR` turns colors off unless `PROVOST_UI_COLOR` is set.
        color: Color = "auto";
    }
}

events! {
    /// a session was opened.
    SessionOpened = "session.opened";
    /// a session's agent was started.
    SessionStarted = "session.started";
    /// a session is waiting for the user.
    SessionNeedsInput = "session.needs_input";
    /// a session's turn has been open and silent for too long.
    SessionStalled = "session.stalled";
    /// a session can no longer be observed.
    SessionLost = "session.lost";
    /// a session's work was sent back after failed checks.
    SessionRework = "session.rework";
    /// a session's work was claimed to be done, and no check was configured.
    SessionCompleted = "session.completed";
    /// a session's work was claimed to be done and passed its checks.
    SessionSucceeded = "session.succeeded";
    /// a session's work failed.
    SessionFailed = "session.failed";
    /// a session exited cleanly without claiming that its work was done.
    SessionEndedUnclaimed = "session.exited_without_claim";
    /// the user stopped a session that had made no final claim, or its team ended.
    SessionStopped = "session.stopped";
    /// facts about a session contradict each other.
    SessionDisputed = "session.disputed";
    /// a session was cancelled.
    SessionCancelled = "session.cancelled";
    /// the user accepted a session's work.
    SessionAccepted = "session.accepted";
    /// a newer attempt replaced an unfinished one.
    SessionSuperseded = "session.superseded";
    /// a claim arrived after the outcome was sealed.
    SessionLateClaim = "session.late_claim";
    /// a reaction was applied to a session.
    SessionReaction = "session.reaction";
    /// a run was opened.
    RunOpened = "run.opened";
    /// an agent of a run is waiting for the user.
    RunQuestion = "run.question";
    /// a review of a run found something.
    RunFindings = "run.findings";
    /// a run has a plan.
    RunPlanned = "run.planned";
    /// a run's work passed every check and landed.
    RunSucceeded = "run.succeeded";
    /// a run's work is done and landed, and no check was configured.
    RunCompleted = "run.completed";
    /// a run failed.
    RunFailed = "run.failed";
    /// a run was cancelled.
    RunCancelled = "run.cancelled";
}

impl Environment {
    /// Whether a variable of the daemon's environment is passed on to child processes.
    pub fn passes(&self, name: &str) -> bool {
        is_safe(name) || self.allow.matches(name)
    }
}
