//! The table of keys. To add a key, add a line: its field, its type, its default and its doc comment.
//!
//! Whoever adds a key also makes it do something: every accepted key has an observable effect.

use std::time::Duration;

use crate::key::{events, options};
use crate::shape::Limits;
use crate::types::{
    Act, ApprovalRule, Approvals, Argv, BranchPrefix, Bytes, Choice, CleanUp, Color, Command,
    CommentAuthors, Driver, Escalation, FilePath, Label, Land, Line, NamePatterns, On, PlanMode,
    Price, Prompt, Proofs, RelativePattern, ReviewMode, RulesVersion, Sandbox, Tokens, Variables,
    is_safe,
};

const HOUR: u64 = 3_600_000;

/// Short waits: none at all is allowed.
const WINDOW: Limits = Limits { min: 0, max: HOUR };

/// Watches over silence: at least long enough to mean something.
const SILENCE: Limits = Limits { min: 10, max: 7 * 24 * HOUR };

/// Limits of time: never zero, which would end everything at once.
pub(crate) const TIME: Limits = Limits { min: 10, max: 365 * 24 * HOUR };

/// Limits of output: room for at least a message.
pub(crate) const OUTPUT: Limits = Limits { min: 1 << 10, max: 1 << 40 };

/// How often something is tried again by itself.
const REPEATS: Limits = Limits { min: 0, max: 100 };

/// How many agents may work at the same time.
const AGENTS: Limits = Limits { min: 1, max: 256 };

/// How many tasks may be merged together.
const BATCH: Limits = Limits { min: 1, max: 64 };

/// How often a review that repairs may look again.
const CYCLES: Limits = Limits { min: 1, max: 20 };

/// How often a reaction happens: never zero, which would be none.
const TIMES: Limits = Limits { min: 1, max: 1_000 };

/// How many iterations a loop may have.
const ITERATIONS: Limits = Limits { min: 1, max: 1_000 };

/// How many iterations in a row may change nothing.
const PLATEAU: Limits = Limits { min: 1, max: 1_000 };

/// How many things a policy may do: one of them says that there are no more.
const ACTS: Limits = Limits { min: 2, max: 1_000 };

/// Hundredths of a whole.
const PERCENT: Limits = Limits { min: 1, max: 100 };

/// Budgets: never zero, which would let nothing begin.
const BUDGET: Limits = Limits { min: 1, max: 1_000_000_000_000 };

/// How many turns a budget can hold.
const TURNS: Limits = Limits { min: 1, max: 1_000_000 };

options! {
    /// How sessions are supervised.
    "session" => Session {
        /// How long an attempt stays open after its end was seen, so that a late claim still counts.
        settle: Duration = "2s" in WINDOW;
        /// How long an open turn may be silent before its session is shown as stalled.
        stale_after: Duration = "300s" in SILENCE;
        /// How long output of a process that exited is still waited for.
        drain: Duration = "2s" in WINDOW;
        /// How long a process may take to end after TERM before it is killed.
        stop_grace: Duration = "10s" in WINDOW;
        /// How long one attempt may take; unset or off means as long as it needs.
        time_limit: Choice<Duration> = unset in TIME;
        /// How much output of one launch is kept; at the limit the agent is held, and nothing is dropped.
        output_limit: Bytes = "1GiB" in OUTPUT;
        /// Over how much time sessions are spread that go on after a limit of the account has passed.
        limit_jitter: Duration = "30s" in WINDOW;
        /// How far apart the sessions of one account go on after its limit has passed.
        limit_spacing: Duration = "10s" in WINDOW;
        /// How often work that failed its checks is sent back to the agent.
        rework: u32 = 3 in REPEATS;
        /// Whether exit status 0 counts as the claim that the work is done.
        exit0_is_done: bool = false;
        /// Whether work that changed nothing can pass its checks.
        no_change_ok: bool = false;
    }

    /// How work is checked.
    "verify" => Verify {
        /// The commands that must succeed, run in a clean checkout of the committed tree.
        checks: Vec<Command> = [];
        /// How long one check may take.
        time_limit: Duration = "30m" in TIME;
        /// How much output of one check is kept.
        output_limit: Bytes = "64MiB" in OUTPUT;
        /// What stays in a checkout from one check to the next.
        keep: Vec<RelativePattern> = ["target", "node_modules"];
        /// Files that the checks rest on: the checks use the base's version, and a change of them is reported and waits for you before it is merged.
        protected: Vec<RelativePattern> = [];
    }

    /// How a run goes from its goal to its outcome.
    "run" => Run {
        /// What becomes of work that was proved: it stays on a branch of its own, is merged, or becomes a pull request.
        land: Land = "branch";
        /// Whether an agent first reads the goal and the project, and asks what is unclear.
        triage: bool = true;
        /// Whether the goal is divided into tasks: if triage says that one is too little, always, or never.
        plan: PlanMode = "auto";
        /// Whether a person has to approve of a plan before its tasks are worked on.
        approve_plan: bool = false;
        /// How many agents of one run work at the same time; unset or off means as many as the machine has processors, from two to eight.
        parallel: Choice<u32> = unset in AGENTS;
        /// How many agents of all runs work at the same time; unset or off means twice as many as of one run.
        machine_parallel: Choice<u32> = unset in AGENTS;
        /// How many finished tasks are merged and checked together.
        batch: u32 = 8 in BATCH;
        /// How often a task whose agent failed is begun again.
        retries: u32 = 1 in REPEATS;
        /// Whether people may be asked at all.
        questions: bool = true;
        /// How often a pull request is looked at.
        pull_every: Duration = "30s" in TIME;
        /// How long checks of a pull request are waited for before there are none.
        pull_checks: Duration = "60s" in WINDOW;
        /// Whose comments on a pull request go back to the agents: of people with write access, or of everyone. A project's file cannot widen it.
        comments_from: CommentAuthors = "write";
    }

    /// Which reviews a run has, and what they do about what they find.
    "review" => Review {
        /// The review of a plan: it tells what it thinks, or edits the plan too.
        plan: ReviewMode = "repair";
        /// The review of the work.
        task: ReviewMode = "report";
        /// The review of the whole, before it lands.
        whole as "final": ReviewMode = "off";
        /// How many times a review that repairs may look.
        cycles: u32 = 2 in CYCLES;
    }

    /// What tokens cost, to be shown with what a run used; without both prices no cost is shown.
    "prices" => Prices {
        /// The currency of the prices.
        currency: Label = "USD";
        /// What a million tokens of input cost.
        input: Choice<Price> = unset;
        /// What a million tokens of output cost.
        output: Choice<Price> = unset;
    }

    /// What the agents of a run are told, in the project's own words; unset or off leaves it to Provost.
    "prompts" => Prompts {
        /// To understand the goal, and to ask what is unclear.
        triage: Choice<Prompt> = unset;
        /// To divide the goal into tasks.
        plan: Choice<Prompt> = unset;
        /// To review a plan.
        plan_review: Choice<Prompt> = unset;
        /// To tell a plan, or a review of one, once more without its faults.
        plan_faults: Choice<Prompt> = unset;
        /// To do the work.
        work: Choice<Prompt> = unset;
        /// To go on with the next task in the same conversation.
        next: Choice<Prompt> = unset;
        /// To mend work that fails checks once it is merged with what others did.
        broken: Choice<Prompt> = unset;
        /// To review the work and change nothing.
        review: Choice<Prompt> = unset;
        /// To review the work and mend what is found.
        repair: Choice<Prompt> = unset;
        /// To go on with work that was ended before it was done.
        resume: Choice<Prompt> = unset;
        /// To mend files in which both sides of a merge stand.
        merge: Choice<Prompt> = unset;
        /// To take up what a pull request was told.
        remarks: Choice<Prompt> = unset;
    }

    /// Where agents work.
    "worktree" => Worktree {
        /// Whether each session gets a worktree and a branch of its own; unset leaves it to the command.
        enabled: Option<bool> = unset;
        /// What the names of branches begin with, before a slash.
        branch_prefix: BranchPrefix = "provost";
        /// Ignored files that are copied into a new worktree.
        copy: Vec<RelativePattern> = [];
        /// A command that prepares a new worktree.
        setup: Choice<Command> = unset;
    }

    /// What Provost's git runs besides git. Counts in the user's own file only.
    "git" => GitPrograms {
        /// Filters that you trust, such as "lfs": Provost runs their commands as your own git configuration (`git config --global`) has them. A repository that needs another filter is refused.
        filters: Vec<Label> = [];
    }

    /// The terminals of agents that have one.
    "terminal" => Terminal {
        /// Whether each of them also gets a window in Provost's own tmux.
        tmux: bool = false;
    }

    /// How much a session, or a run with all its sessions, may use before it stops; `provost limit` raises it.
    "budget" => Budget {
        /// How many tokens, input and output together; unset or off means as many as it needs.
        tokens: Choice<Tokens> = unset in BUDGET;
        /// How many turns; unset or off means as many as it needs.
        turns: Choice<u32> = unset in TURNS;
    }

    /// Which approvals need no person: deny beats ask, ask beats allow, and what no rule names is asked.
    "approvals" => ApprovalRules {
        /// The version of the rules' form.
        version: RulesVersion = 1;
        /// What is approved without asking, if all of what the agent wants is named here.
        allow: Vec<ApprovalRule> = [];
        /// What is always asked, although it is allowed.
        ask: Vec<ApprovalRule> = [];
        /// What is denied without asking. The lists of all layers add up: a project takes away nothing that the user denies.
        deny: Vec<ApprovalRule> = [];
        /// How long an approval may wait for a person before it is denied; unset or off means for ever.
        expire_after: Choice<Duration> = unset in TIME;
    }

    /// Skills besides those that an agent finds by itself.
    "skills" => Skills {
        /// Directories with further skills, in the order of their precedence.
        roots: Vec<FilePath> = [];
    }

    /// Commands that run when something happens, with the event as JSON on standard input.
    "hooks" => HookDefaults {
        /// How long a hook may take, unless it says so itself.
        time_limit: Duration = "30s" in TIME;
        /// How much output of a hook is kept, unless it says so itself.
        output_limit: Bytes = "1MiB" in OUTPUT;
    }

    /// What is done by itself when a session is quiet or stalled, asks, or comes to a limit; every one runs the hook `session.reaction`.
    "reactions.*" => Reaction {
        /// The occasion.
        on: On = required;
        /// How long it has to hold first, and how far apart the answers to one occasion are; unset or off means none. For "resume_later": how long to wait if the agent does not say until when.
        after: Choice<Duration> = unset in SILENCE;
        /// For the occasion "context": how full it has to be, in percent; unset or off means 85.
        at: Choice<u32> = unset in PERCENT;
        /// What is done.
        act as "do": Act = required;
        /// What the agent is told by "nudge" and "interrupt", instead of Provost's words, and by "hand_over" besides them.
        text: Option<Line> = unset;
        /// For "hand_over": the agent that goes on.
        agent: Option<Line> = unset;
        /// How often one occasion is answered.
        times: u32 = 1 in TIMES;
        /// How often this happens in one attempt.
        total: u32 = 10 in TIMES;
    }

    /// The agents that `--agent NAME` can start.
    "agents.*" => Agent {
        /// How Provost talks to the agent.
        driver: Driver = "command";
        /// The program and its arguments.
        command: Argv = required;
        /// A variable of the agent's environment; `$NAME` takes the value from the daemon's environment.
        env["*"]: Variables = unset;
        /// Variables that the agent gets from the daemon's environment; a star at the end stands for any rest.
        pass_env: NamePatterns = [];
    }

    /// The built-in agent: `--agent codex` needs no configuration.
    "agents.codex" => Codex {
        /// The program; unset or off means the newest usable one on `PATH` and in known places.
        path: Choice<FilePath> = unset;
        /// The model; unset or off leaves it to Codex and its own configuration.
        model: Choice<Label> = unset;
        /// How hard the model thinks, as in low, medium or high; unset or off leaves it to Codex.
        effort: Choice<Label> = unset;
        /// What commands may do to the machine.
        sandbox: Sandbox = "workspace-write";
        /// Whether commands in the sandbox reach the network.
        network: bool = false;
        /// When Codex asks for approval.
        approvals: Approvals = "on-request";
        /// Whether Codex may ask people questions.
        questions: bool = true;
        /// Whether Codex may have agents of its own; unset leaves it to Codex, and runs ask it.
        multi_agent: Option<bool> = unset;
        /// The user's Codex home, from which each session's own is made; unset means `$CODEX_HOME`, else `~/.codex`; off means none.
        home: Choice<FilePath> = unset;
        /// A variable of Codex's environment; `$NAME` takes the value from the daemon's environment.
        env["*"]: Variables = unset;
        /// Variables that Codex gets from the daemon's environment; a star at the end stands for any rest.
        pass_env: NamePatterns = [];
    }

    /// How `provost monitor` watches.
    "monitor" => Monitor {
        /// How long a session may be silent before the monitor says that it is stuck; its state is not changed by that.
        stale_after: Duration = "300s" in SILENCE;
    }

    /// What `provost monitor --workflow` can hold work against; in every text `{key}`, `{epic}` and `{story}` stand for parts of the key.
    "verifiers.*" => Verifier {
        /// A command that has to end with exit status 0, run where the agent worked.
        command: Choice<Command> = unset;
        /// How long the command may take.
        time_limit: Duration = "60s" in TIME;
        /// How much output of the command is taken before it is ended.
        output_limit: Bytes = "1MiB" in OUTPUT;
        /// A file below the place where the agent worked; one star in its name stands for any text, and exactly one file has to match.
        file: Option<Line> = unset;
        /// A pattern that a whole line of the file has to match.
        matches: Option<Line> = unset;
        /// A field of the file (YAML, JSON, TOML, or the front matter of Markdown), with dots between names.
        field: Option<Line> = unset;
        /// The text that the field has to be.
        equals: Option<Line> = unset;
    }

    /// Workflows that `provost monitor --workflow NAME` knows.
    "workflows.*" => Workflow {
        /// The verifier that says whether the work is complete.
        verifier: Label = required;
        /// How often it is advised to try again.
        retries: u32 = 2 in REPEATS;
        /// What it means that no tries are left: a person has to decide, or it can be put aside.
        escalate: Escalation = "critical";
        /// Whether a try that comes to the same as the one before is put aside.
        defer_on_plateau: bool = true;
        /// Agents that every second try is advised for, in turn.
        fallback: Vec<Label> = [];
    }

    /// Loops of the project's own, for `provost pair --loop NAME`; one that has the name of a built-in loop changes it key by key.
    "loops.*" => LoopTemplate {
        /// The built-in loop that it begins from; unset means the one of its own name, if there is one.
        from: Option<Line> = unset;
        /// How many iterations it may have; unset or off leaves it to the loop that it begins from, else 10.
        max: Choice<u32> = unset in ITERATIONS;
        /// What is done to the worker's conversation before each further iteration; unset or off leaves it to the loop that it begins from, else keeps it.
        clean_up: Choice<CleanUp> = unset;
        /// After how many iterations in a row that changed nothing it is stopped; unset leaves it to the loop that it begins from, else 3; off means never.
        plateau: Choice<u32> = unset in PLATEAU;
        /// How many tokens its workers may use in all; unset or off means as many as they need.
        tokens: Choice<Tokens> = unset in BUDGET;
        /// Tools that its members are told of.
        tools: Vec<Label> = [];
        /// What each iteration has to show, by its name: `"verified:COMMAND"`, `"verified"` for the project's own checks, `"asserted"`, `"attack"`, `"artifact:FIELD,FIELD"` or `"pictures:MILLIONTHS[:EXPECTED:ACTUAL[:TOLERANCE]]"`; off leaves out what the loop that it begins from asks for.
        evidence["*"]: Proofs = unset;
    }

    /// Managers that are rules and no agent, for `provost pair --manager policy:NAME`.
    "policies.*" => ManagerPolicy {
        /// How many things it may do in one task; the last of them tells the operator that it does no more.
        acts: u32 = 50 in ACTS;
        /// Whether the open checks are run when the workers say that they are done.
        check: bool = true;
        /// How often work is sent back, because a check failed or evidence is missing; then the operator is told.
        rework: u32 = 3 in REPEATS;
        /// What the worker is told before what the checks printed, instead of Provost's words.
        rework_text: Option<Line> = unset;
        /// Whether criteria that members propose are accepted; otherwise the operator is told.
        accept: bool = false;
        /// How long a worker may rest without a word before it is nudged; unset or off means for ever.
        nudge_after: Choice<Duration> = unset in SILENCE;
        /// How often workers are nudged; then the operator is told.
        nudges: u32 = 3 in REPEATS;
        /// What a worker that rests is told, instead of Provost's words.
        nudge_text: Option<Line> = unset;
        /// Whether the next iteration of a loop is asked for when this one has its evidence and something is still open.
        go_on: bool = true;
        /// Whether the task is finished when nothing is open and a check proved the work; otherwise the operator is told.
        finish: bool = true;
    }

    /// What every child process gets from the environment.
    "environment" => Environment {
        /// Variables that children get besides the safe ones; a star at the end stands for any rest.
        allow: NamePatterns = [];
    }

    /// How output for people looks.
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
    /// a session waits for a person.
    SessionNeedsInput = "session.needs_input";
    /// a session's turn is open and silent for too long.
    SessionStalled = "session.stalled";
    /// a session cannot be observed any more.
    SessionLost = "session.lost";
    /// a session's work was sent back after failed checks.
    SessionRework = "session.rework";
    /// a session's work was claimed to be done, and no check was configured.
    SessionCompleted = "session.completed";
    /// a session's work was claimed to be done and passed its checks.
    SessionSucceeded = "session.succeeded";
    /// a session's work failed.
    SessionFailed = "session.failed";
    /// a session ended cleanly, and nobody said that its work was done.
    SessionEndedUnclaimed = "session.ended_unclaimed";
    /// the user stopped a session that had claimed no end, or its team ended.
    SessionStopped = "session.stopped";
    /// facts about a session contradict each other.
    SessionDisputed = "session.disputed";
    /// a session was cancelled.
    SessionCancelled = "session.cancelled";
    /// a person accepted a session's work.
    SessionAccepted = "session.accepted";
    /// a newer attempt took the place of an unfinished one.
    SessionSuperseded = "session.superseded";
    /// a claim arrived after the outcome was sealed.
    SessionLateClaim = "session.late_claim";
    /// a reaction was carried out on a session.
    SessionReaction = "session.reaction";
    /// a run was opened.
    RunOpened = "run.opened";
    /// an agent of a run waits for a person.
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
