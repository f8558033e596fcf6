//! The table of keys. To add a key, add a line: its field, its type, its default and its doc
//! comment.
//!
//! A new key must also be implemented: every accepted key has an observable effect.

use std::time::Duration;

use crate::key::{events, options};
use crate::shape::ValueLimits;
use crate::types::{
    Act, ApprovalRule, Approvals, Argv, BranchPrefix, Bytes, CleanUp, Color, CommandSpec,
    CommentAuthors, Driver, Escalation, EvidenceTexts, FilePath, Land, NameLabel, NamePatterns, On,
    PlanMode, Price, Prompt, RelativePattern, ReviewMode, RulesVersion, Sandbox, Switchable,
    TextLine, TokenAmount, Variables, is_safe,
};

const HOUR: u64 = 3_600_000;

/// Short waits; zero is allowed.
const WINDOW: ValueLimits = ValueLimits { min: 0, max: HOUR };

/// Silence timeouts: long enough to be meaningful.
const SILENCE: ValueLimits = ValueLimits { min: 10, max: 7 * 24 * HOUR };

/// Time limits: never zero, which would end everything at once.
pub(crate) const TIME: ValueLimits = ValueLimits { min: 10, max: 365 * 24 * HOUR };

/// Output limits: room for at least one message.
pub(crate) const OUTPUT: ValueLimits = ValueLimits { min: 1 << 10, max: 1 << 40 };

/// Number of automatic retries.
const REPEATS: ValueLimits = ValueLimits { min: 0, max: 100 };

/// Number of agents that work at the same time.
const AGENTS: ValueLimits = ValueLimits { min: 1, max: 256 };

/// Number of tasks that are merged together.
const BATCH: ValueLimits = ValueLimits { min: 1, max: 64 };

/// Number of rounds of a review that repairs.
const CYCLES: ValueLimits = ValueLimits { min: 1, max: 20 };

/// Number of times a reaction runs: never zero, which would disable it.
const TIMES: ValueLimits = ValueLimits { min: 1, max: 1_000 };

/// Number of iterations of a loop.
const ITERATIONS: ValueLimits = ValueLimits { min: 1, max: 1_000 };

/// Number of consecutive iterations without a change.
const PLATEAU: ValueLimits = ValueLimits { min: 1, max: 1_000 };

/// Number of actions of a policy: the last one reports that the list is complete.
const ACTS: ValueLimits = ValueLimits { min: 2, max: 1_000 };

/// Percent.
const PERCENT: ValueLimits = ValueLimits { min: 1, max: 100 };

/// Budgets: never zero, which would let nothing start.
const BUDGET: ValueLimits = ValueLimits { min: 1, max: 1_000_000_000_000 };

/// Number of turns in a budget.
const TURNS: ValueLimits = ValueLimits { min: 1, max: 1_000_000 };

options! {
    /// Supervision of sessions.
    "session" => Session {
        /// How long an attempt stays open after its end was observed, so that a late claim still
        /// counts.
        settle: Duration = "2s" in WINDOW;
        /// How long an open turn may be silent before its session is shown as stalled.
        stale_after: Duration = "300s" in SILENCE;
        /// How long to wait for output of a process that exited.
        drain: Duration = "2s" in WINDOW;
        /// How long a process may take to end after SIGTERM before it is killed.
        stop_grace: Duration = "10s" in WINDOW;
        /// Time limit of one attempt; unset or off means none.
        time_limit: Switchable<Duration> = unset in TIME;
        /// Maximum output kept of one launch; at the limit the agent is paused, and nothing is
        /// dropped.
        output_limit: Bytes = "1GiB" in OUTPUT;
        /// Period over which sessions resume after a limit of the account has passed.
        limit_jitter: Duration = "30s" in WINDOW;
        /// Minimum interval between resumed sessions of one account after its limit has passed.
        limit_spacing: Duration = "10s" in WINDOW;
        /// How many times work that failed its checks is sent back to the agent.
        rework: u32 = 3 in REPEATS;
        /// Whether exit status 0 counts as a claim that the work is done.
        exit0_is_done: bool = false;
        /// Whether work without any changes can pass its checks.
        no_change_ok: bool = false;
    }

    /// Verification of work.
    "verify" => Verify {
        /// The commands that must succeed, run in a clean checkout of the committed tree.
        checks: Vec<CommandSpec> = [];
        /// Time limit of one check.
        time_limit: Duration = "30m" in TIME;
        /// Maximum output kept of one check.
        output_limit: Bytes = "64MiB" in OUTPUT;
        /// Files that stay in a checkout from one check to the next.
        keep: Vec<RelativePattern> = ["target", "node_modules"];
        /// Files that the checks depend on: the checks use the base's version, and a change of them
        /// is reported and waits for your approval before it is merged.
        protected: Vec<RelativePattern> = [];
    }

    /// How a run turns its goal into an outcome.
    "run" => Run {
        /// What happens to verified work: it stays on its own branch, is merged, or becomes a pull
        /// request.
        land: Land = "branch";
        /// Whether an agent first reads the goal and the project, and asks about unclear points.
        triage: bool = true;
        /// Whether the goal is split into tasks: if triage finds one task insufficient, always, or
        /// never.
        plan: PlanMode = "auto";
        /// Whether the user has to approve a plan before its tasks start.
        approve_plan: bool = false;
        /// Maximum number of agents of one run that work at the same time; unset or off means the
        /// number of processors, from two to eight.
        parallel: Switchable<u32> = unset in AGENTS;
        /// Maximum number of agents of all runs that work at the same time; unset or off means
        /// twice the number for one run.
        machine_parallel: Switchable<u32> = unset in AGENTS;
        /// Maximum number of finished tasks that are merged and checked together.
        batch: u32 = 8 in BATCH;
        /// How many times a task whose agent failed is started again.
        retries: u32 = 1 in REPEATS;
        /// Whether the agents may ask the user questions.
        questions: bool = true;
        /// How often a pull request is polled.
        pull_every: Duration = "30s" in TIME;
        /// How long to wait for a pull request's checks to appear before assuming that there are
        /// none.
        pull_checks: Duration = "60s" in WINDOW;
        /// Whose comments on a pull request go back to the agents: those of users with write
        /// access, or of everyone. A project's file cannot widen it.
        comments_from: CommentAuthors = "write";
    }

    /// The reviews of a run, and what they do about their findings.
    "review" => Review {
        /// The review of a plan: it reports findings, or also edits the plan.
        plan: ReviewMode = "repair";
        /// The review of the work.
        task: ReviewMode = "report";
        /// The review of the whole, before it lands.
        whole as "final": ReviewMode = "off";
        /// Maximum review-and-fix rounds.
        cycles: u32 = 2 in CYCLES;
    }

    /// Token prices, to show the cost of a run; without both prices no cost is shown.
    "prices" => Prices {
        /// The currency of the prices.
        currency: NameLabel = "USD";
        /// The price of a million input tokens.
        input: Switchable<Price> = unset;
        /// The price of a million output tokens.
        output: Switchable<Price> = unset;
    }

    /// Project-specific prompts for the agents of a run; unset or off means Provost's own.
    "prompts" => Prompts {
        /// To understand the goal, and to ask about unclear points.
        triage: Switchable<Prompt> = unset;
        /// To split the goal into tasks.
        plan: Switchable<Prompt> = unset;
        /// To review a plan.
        plan_review: Switchable<Prompt> = unset;
        /// To correct an invalid plan, or an invalid review of one.
        plan_faults: Switchable<Prompt> = unset;
        /// To do the work.
        work: Switchable<Prompt> = unset;
        /// To continue with the next task in the same conversation.
        next: Switchable<Prompt> = unset;
        /// To fix work that fails checks after it was merged with other work.
        broken: Switchable<Prompt> = unset;
        /// To review the work and change nothing.
        review: Switchable<Prompt> = unset;
        /// To review the work and fix the findings.
        repair: Switchable<Prompt> = unset;
        /// To continue work that was ended before it was done.
        resume: Switchable<Prompt> = unset;
        /// To resolve files with merge conflicts.
        merge: Switchable<Prompt> = unset;
        /// To address the review comments of a pull request.
        review_comments: Switchable<Prompt> = unset;
    }

    /// Where agents work.
    "worktree" => Worktree {
        /// Whether each session gets its own worktree and branch; unset leaves it to the command.
        enabled: Option<bool> = unset;
        /// The prefix of branch names, before a slash.
        branch_prefix: BranchPrefix = "provost";
        /// Ignored files that are copied into a new worktree.
        copy: Vec<RelativePattern> = [];
        /// A command that prepares a new worktree.
        setup: Switchable<CommandSpec> = unset;
    }

    /// Programs that Provost's git may run. Allowed in the user's own file only.
    "git" => GitPrograms {
        /// Filters that you trust, such as "lfs": Provost runs their commands as in your own git
        /// configuration (`git config --global`). A repository that needs another filter is
        /// refused.
        filters: Vec<NameLabel> = [];
    }

    /// Terminals of agents that have one.
    "terminal" => Terminal {
        /// Whether each of them also gets a window in Provost's own tmux.
        tmux: bool = false;
    }

    /// How much a session, or a run with all its sessions, may use before it stops; `provost limit`
    /// raises it.
    "budget" => Budget {
        /// Maximum number of tokens, input and output together; unset or off means no limit.
        tokens: Switchable<TokenAmount> = unset in BUDGET;
        /// Maximum number of turns; unset or off means no limit.
        turns: Switchable<u32> = unset in TURNS;
    }

    /// Approvals that need no user: deny overrides ask, ask overrides allow, and anything without a
    /// rule is asked.
    "approvals" => ApprovalRules {
        /// The version of the rule format.
        version: RulesVersion = 1;
        /// Approved without asking, if everything that the agent requests is listed here.
        allow: Vec<ApprovalRule> = [];
        /// Always asked, even if allowed.
        ask: Vec<ApprovalRule> = [];
        /// Denied without asking. The lists of all layers add up: a project cannot remove what the
        /// user denies.
        deny: Vec<ApprovalRule> = [];
        /// How long an approval may wait for the user before it is denied; unset or off means for
        /// ever.
        expire_after: Switchable<Duration> = unset in TIME;
    }

    /// Skills besides those that an agent finds itself.
    "skills" => Skills {
        /// Directories with further skills, in order of precedence.
        roots: Vec<FilePath> = [];
    }

    /// Commands that run on an event, with the event as JSON on standard input.
    "hooks" => HookDefaults {
        /// Default time limit of a hook.
        time_limit: Duration = "30s" in TIME;
        /// Default maximum output kept of a hook.
        output_limit: Bytes = "1MiB" in OUTPUT;
    }

    /// Automatic reactions when a session is quiet or stalled, asks, or reaches a limit; each also
    /// runs the hook `session.reaction`.
    "reactions.*" => Reaction {
        /// The occasion.
        on: On = required;
        /// How long the occasion has to last first, and the interval between reactions to it; unset
        /// or off means none. For "resume_later": how long to wait if the agent reports no reset
        /// time.
        after: Switchable<Duration> = unset in SILENCE;
        /// For the occasion "context": the fill level in percent; unset or off means 85.
        at: Switchable<u32> = unset in PERCENT;
        /// The action.
        act as "do": Act = required;
        /// The message to the agent for "nudge" and "interrupt", instead of Provost's own, and an
        /// addition to it for "hand_over".
        text: Option<TextLine> = unset;
        /// For "hand_over": the agent that takes over.
        agent: Option<TextLine> = unset;
        /// Maximum number of reactions to one occasion.
        times: u32 = 1 in TIMES;
        /// Maximum number of reactions in one attempt.
        total: u32 = 10 in TIMES;
    }

    /// The agents that `--agent NAME` can start.
    "agents.*" => Agent {
        /// The protocol of the agent.
        driver: Driver = "command";
        /// The program and its arguments.
        command: Argv = required;
        /// A variable of the agent's environment; `$NAME` takes the value from the daemon's
        /// environment.
        env["*"]: Variables = unset;
        /// Variables that the agent gets from the daemon's environment; a star at the end matches
        /// any rest.
        pass_env: NamePatterns = [];
    }

    /// The built-in agent: `--agent codex` needs no configuration.
    "agents.codex" => Codex {
        /// The program; unset or off means the newest usable one on `PATH` and in known locations.
        path: Switchable<FilePath> = unset;
        /// The model; unset or off leaves it to Codex and its own configuration.
        model: Switchable<NameLabel> = unset;
        /// The reasoning effort, such as low, medium or high; unset or off leaves it to Codex.
        effort: Switchable<NameLabel> = unset;
        /// What commands may do to the machine.
        sandbox: Sandbox = "workspace-write";
        /// Whether commands in the sandbox have network access.
        network: bool = false;
        /// When Codex asks for approval.
        approvals: Approvals = "on-request";
        /// Whether Codex may ask the user questions.
        questions: bool = true;
        /// Whether Codex may use sub-agents; unset leaves it to Codex, and runs ask for it.
        multi_agent: Option<bool> = unset;
        /// The user's Codex home, from which each session's home is derived; unset means
        /// `$CODEX_HOME`, else `~/.codex`; off means none.
        home: Switchable<FilePath> = unset;
        /// A variable of Codex's environment; `$NAME` takes the value from the daemon's environment.
        env["*"]: Variables = unset;
        /// Variables that Codex gets from the daemon's environment; a star at the end matches any
        /// rest.
        pass_env: NamePatterns = [];
    }

    /// How `provost monitor` watches.
    "monitor" => Monitor {
        /// How long a session may be silent before the monitor reports it as stuck; its state does
        /// not change.
        stale_after: Duration = "300s" in SILENCE;
    }

    /// Verifiers for `provost monitor --workflow`; in every text, `{key}`, `{epic}` and `{story}`
    /// are replaced by parts of the key.
    "verifiers.*" => Verifier {
        /// A command that has to exit with status 0, run where the agent worked.
        command: Switchable<CommandSpec> = unset;
        /// Time limit of the command.
        time_limit: Duration = "60s" in TIME;
        /// Maximum output of the command before it is killed.
        output_limit: Bytes = "1MiB" in OUTPUT;
        /// A file below the agent's working directory; one star in its name matches any text, and
        /// exactly one file has to match.
        file: Option<TextLine> = unset;
        /// A pattern that a whole line of the file has to match.
        matches: Option<TextLine> = unset;
        /// A field of the file (YAML, JSON, TOML, or the front matter of Markdown), with dots between names.
        field: Option<TextLine> = unset;
        /// The text that the field has to equal.
        equals: Option<TextLine> = unset;
    }

    /// Workflows for `provost monitor --workflow NAME`.
    "workflows.*" => Workflow {
        /// The verifier that decides whether the work is complete.
        verifier: NameLabel = required;
        /// How many retries are advised.
        retries: u32 = 2 in REPEATS;
        /// What happens when no retries are left: the user has to decide, or the work can be
        /// deferred.
        escalate: Escalation = "critical";
        /// Whether a retry with the same result as the previous one is deferred.
        defer_on_plateau: bool = true;
        /// Agents that are advised for every second retry, in turn.
        fallback: Vec<NameLabel> = [];
    }

    /// The project's loops, for `provost team start --loop NAME`; one with the name of a built-in loop
    /// changes it key by key.
    "loops.*" => LoopTemplate {
        /// The built-in loop to start from; unset means the one with the same name, if there is
        /// one.
        from: Option<TextLine> = unset;
        /// Maximum number of iterations; unset or off means that of the loop it starts from, else
        /// 10.
        max: Switchable<u32> = unset in ITERATIONS;
        /// What happens to the worker's conversation before each further iteration; unset or off
        /// means that of the loop it starts from, else it is kept.
        clean_up: Switchable<CleanUp> = unset;
        /// The number of consecutive iterations without a change after which the loop stops; unset
        /// means that of the loop it starts from, else 3; off means never.
        plateau: Switchable<u32> = unset in PLATEAU;
        /// Maximum number of tokens that its workers may use in all; unset or off means no limit.
        tokens: Switchable<TokenAmount> = unset in BUDGET;
        /// Tools that are suggested to its members.
        tools: Vec<NameLabel> = [];
        /// The evidence that each iteration requires, by name: `"verified:COMMAND"`, `"verified"`
        /// for the project's own checks, `"asserted"`, `"challenge"`, `"artifact:FIELD,FIELD"` or
        /// `"pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]"`; off removes evidence of the loop
        /// it starts from.
        evidence["*"]: EvidenceTexts = unset;
    }

    /// Rule-based managers, for `provost team start --manager policy:NAME`.
    "policies.*" => ManagerPolicy {
        /// Maximum number of actions in one team; the last one notifies the operator that there are
        /// no more.
        actions: u32 = 50 in ACTS;
        /// Whether the open checks are run when the workers report that they are done.
        check: bool = true;
        /// How many times work is sent back because a check failed or evidence is missing; then the
        /// operator is notified.
        rework: u32 = 3 in REPEATS;
        /// The message to the worker before the output of the checks, instead of Provost's own.
        rework_text: Option<TextLine> = unset;
        /// Whether criteria that members propose are accepted; otherwise the operator is notified.
        accept: bool = false;
        /// How long a worker may be idle without a report before it is nudged; unset or off means
        /// for ever.
        nudge_after: Switchable<Duration> = unset in SILENCE;
        /// How many times workers are nudged; then the operator is notified.
        nudges: u32 = 3 in REPEATS;
        /// The message to an idle worker, instead of Provost's own.
        nudge_text: Option<TextLine> = unset;
        /// Whether the next iteration of a loop is started when the current one has its evidence
        /// and something is still open.
        continue_loop: bool = true;
        /// Whether the team is finished when nothing is open and a check verified the work;
        /// otherwise the operator is notified.
        finish: bool = true;
    }

    /// The environment of every child process.
    "environment" => Environment {
        /// Variables that children get besides the safe ones; a star at the end matches any rest.
        allow: NamePatterns = [];
    }

    /// The appearance of terminal output.
    "ui" => Ui {
        /// When output is coloured.
        color: Color = "auto";
    }
}

events! {
    /// a session was opened.
    SessionOpened = "session.opened";
    /// a session's agent was started.
    SessionStarted = "session.started";
    /// a session waits for the user.
    SessionNeedsInput = "session.needs_input";
    /// a session's turn is open and silent for too long.
    SessionStalled = "session.stalled";
    /// a session cannot be observed any longer.
    SessionLost = "session.lost";
    /// a session's work was sent back after failed checks.
    SessionRework = "session.rework";
    /// a session's work was claimed to be done, and no check was configured.
    SessionCompleted = "session.completed";
    /// a session's work was claimed to be done and passed its checks.
    SessionSucceeded = "session.succeeded";
    /// a session's work failed.
    SessionFailed = "session.failed";
    /// a session ended cleanly without a claim that its work was done.
    SessionEndedUnclaimed = "session.exited_without_claim";
    /// the user stopped a session that had claimed no end, or its team ended.
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
    /// an agent of a run waits for the user.
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
    /// Whether a child gets a variable of the daemon's environment.
    pub fn passes(&self, name: &str) -> bool {
        is_safe(name) || self.allow.matches(name)
    }
}
