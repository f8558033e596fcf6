//! Tool calls in the form that this Codex offers, so that one scenario works with all versions and
//! models.
//!
//! There are three forms: functions (`exec_command`, `shell_command`, `shell`), free-form tools
//! (`apply_patch`), and code mode, in which one free-form tool `exec` runs JavaScript that calls
//! the others.

use serde_json::{Map, Value, json};

use super::request::ModelRequest;
use super::scenario::{CustomToolItem, PlanItem, Shell, SpawnAgentItem, ToolCallItem, WaitAgents};

/// The namespace of plain tools, which calls omit.
const PLAIN: &str = "functions";
/// The namespace of sub-agent tools, if only `tool_search` finds them.
const FOUND_AGENTS: &str = "multi_agent_v1";
/// The default duration of a wait for sub-agents, in milliseconds. It is also Codex's minimum.
const WAIT_AGENTS_MS: u64 = 10_000;
/// A directive that lets a script wait for an approval as long as a test does. Codex would continue
/// after 30 s.
const LONG_YIELD: &str = "// @exec: {\"yield_time_ms\": 3600000}\n";

/// A tool call without its ids.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ToolInvocation {
    Function { name: String, namespace: Option<String>, arguments: Value },
    Custom { name: String, namespace: Option<String>, input: String },
}

/// The tools that a request offers.
pub(super) struct Tools {
    offered: Vec<OfferedTool>,
}

struct OfferedTool {
    name: String,
    namespace: Option<String>,
    free_form: bool,
    description: String,
}

impl Tools {
    pub(super) fn from_request(request: &ModelRequest) -> Self {
        let mut tools = Self { offered: Vec::new() };
        tools.collect(&request.body["tools"], None);
        for item in request.input() {
            tools.collect(&item["tools"], None);
        }
        tools
    }

    fn collect(&mut self, tools: &Value, namespace: Option<&str>) {
        for tool in tools.as_array().map(Vec::as_slice).unwrap_or_default() {
            let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
            let kind = text("type");
            let name = tool["name"].as_str().unwrap_or(&kind).to_owned();
            if kind == "namespace" {
                self.collect(&tool["tools"], Some(name.as_str()).filter(|name| *name != PLAIN));
            } else {
                self.offered.push(OfferedTool {
                    name,
                    namespace: namespace.map(str::to_owned),
                    free_form: kind == "custom",
                    description: text("description"),
                });
            }
        }
    }

    pub(super) fn names(&self) -> Vec<String> {
        let full = |tool: &OfferedTool| match &tool.namespace {
            Some(namespace) => format!("{namespace}.{}", tool.name),
            None => tool.name.clone(),
        };
        self.offered.iter().map(full).collect()
    }

    fn get(&self, name: &str) -> Option<&OfferedTool> {
        self.offered.iter().find(|tool| tool.name == name)
    }

    /// Whether a script can call this tool.
    fn is_nested(&self, name: &str) -> bool {
        let declared = format!("### `{name}`");
        self.get("exec").is_some_and(|exec| exec.free_form && exec.description.contains(&declared))
    }

    fn missing(&self, what: &str) -> String {
        format!("Codex offers no tool for {what}, but {}", self.names().join(", "))
    }
}

pub(super) fn shell(shell: &Shell, tools: &Tools) -> Result<ToolInvocation, String> {
    let command = &shell.command;
    if tools.get("exec_command").is_some() {
        Ok(function("exec_command", None, shell_arguments("cmd", json!(command), shell)))
    } else if tools.is_nested("exec_command") {
        let arguments = shell_arguments("cmd", json!(command), shell);
        Ok(script(format!("const r = await tools.exec_command({arguments});\ntext(r.output);")))
    } else if tools.get("shell_command").is_some() {
        Ok(function("shell_command", None, shell_arguments("command", json!(command), shell)))
    } else if tools.get("shell").is_some() {
        let command = json!(["bash", "-lc", command]);
        Ok(function("shell", None, shell_arguments("command", command, shell)))
    } else {
        Err(tools.missing("commands"))
    }
}

fn shell_arguments(key: &str, command: Value, shell: &Shell) -> Value {
    let given = [
        (key, Some(command)),
        ("workdir", shell.workdir.as_ref().map(|dir| json!(dir))),
        ("sandbox_permissions", shell.escalate.then(|| json!("require_escalated"))),
        ("justification", shell.justification.as_ref().map(|why| json!(why))),
        ("prefix_rule", shell.prefix_rule.as_ref().map(|rule| json!(rule))),
        ("yield_time_ms", shell.yield_time_ms.map(|time| json!(time))),
        ("login", shell.login.map(|login| json!(login))),
        ("tty", shell.tty.map(|tty| json!(tty))),
    ];
    let given = given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(given.collect::<Map<_, _>>())
}

pub(super) fn patch(patch: &str, tools: &Tools) -> Result<ToolInvocation, String> {
    match tools.get("apply_patch") {
        Some(tool) if tool.free_form => Ok(custom("apply_patch", patch.to_owned())),
        Some(_) => Ok(function("apply_patch", None, json!({"input": patch}))),
        None if tools.is_nested("apply_patch") => {
            Ok(script(format!("text(await tools.apply_patch({}));", json!(patch))))
        }
        // Codex extracts a patch from a command of this form.
        None => shell(&patch_command(patch), tools),
    }
}

fn patch_command(patch: &str) -> Shell {
    Shell {
        command: format!("apply_patch <<'EOF'\n{patch}\nEOF\n"),
        workdir: None,
        escalate: false,
        justification: None,
        prefix_rule: None,
        yield_time_ms: None,
        login: None,
        tty: None,
    }
}

pub(super) fn plan(plan: &PlanItem, tools: &Tools) -> Result<ToolInvocation, String> {
    let mut arguments = json!({"plan": plan.steps});
    if let Some(explanation) = &plan.explanation {
        arguments["explanation"] = json!(explanation);
    }
    offered("update_plan", arguments, tools)
        .ok_or_else(|| tools.missing("plans (set tools.update_plan.enabled)"))
}

pub(super) fn ask(tool: &str, questions: Value, tools: &Tools) -> Result<ToolInvocation, String> {
    let arguments = json!({"questions": questions});
    offered(tool, arguments, tools).ok_or_else(|| tools.missing(&format!("`{tool}`")))
}

/// Returns a call of any tool in its offered form, or as scripted if the tool is not offered.
pub(super) fn call(call: &ToolCallItem, tools: &Tools) -> ToolInvocation {
    let nested = match &call.namespace {
        Some(namespace) => format!("{namespace}__{}", call.tool),
        None => call.tool.clone(),
    };
    let plain_call = || function(&call.tool, call.namespace.as_deref(), call.args.clone());
    if tools.get(&call.tool).is_none() && tools.is_nested(&nested) {
        return script(format!("text(await tools.{nested}({}));", call.args));
    }
    match (&call.namespace, offered(&call.tool, call.args.clone(), tools)) {
        (None, Some(called)) => called,
        (Some(_), _) | (None, None) => plain_call(),
    }
}

pub(super) fn free_form(call: &CustomToolItem) -> ToolInvocation {
    let CustomToolItem { tool, input, namespace } = call;
    ToolInvocation::Custom {
        name: tool.clone(),
        namespace: namespace.clone(),
        input: input.clone(),
    }
}

pub(super) fn spawn(spawn: &SpawnAgentItem, tools: &Tools) -> Result<ToolInvocation, String> {
    let message = &spawn.task;
    match tools.get("spawn_agent") {
        Some(tool) if tool.namespace.is_some() => {
            let history = if spawn.history { "all" } else { "none" };
            let arguments =
                json!({"task_name": spawn.name, "message": message, "fork_turns": history});
            Ok(function("spawn_agent", tool.namespace.as_deref(), arguments))
        }
        Some(_) => Ok(function("spawn_agent", None, forked(message, spawn.history))),
        None if tools.get("tool_search").is_some() => {
            Ok(function("spawn_agent", Some(FOUND_AGENTS), forked(message, spawn.history)))
        }
        None => Err(tools.missing("sub-agents (enable the feature multi_agent)")),
    }
}

fn forked(message: &str, history: bool) -> Value {
    if history {
        json!({"message": message, "fork_context": true})
    } else {
        json!({"message": message})
    }
}

pub(super) fn wait_agents(
    wait: &WaitAgents,
    tools: &Tools,
    request: &ModelRequest,
) -> Result<ToolInvocation, String> {
    let timeout = wait.timeout_ms.unwrap_or(WAIT_AGENTS_MS);
    let agents = spawned(request);
    if let Some(tool) = tools.get("wait_agent").filter(|tool| tool.namespace.is_some()) {
        let arguments = json!({"timeout_ms": timeout});
        Ok(function("wait_agent", tool.namespace.as_deref(), arguments))
    } else if tools.get("spawn_agent").is_some() && tools.get("wait").is_some() {
        Ok(function("wait", None, json!({"ids": agents, "timeout_ms": timeout})))
    } else if tools.get("tool_search").is_some() {
        let arguments = json!({"targets": agents, "timeout_ms": timeout});
        Ok(function("wait_agent", Some(FOUND_AGENTS), arguments))
    } else {
        Err(tools.missing("waiting for sub-agents"))
    }
}

/// Returns the ids of the sub-agents that this thread started.
fn spawned(request: &ModelRequest) -> Vec<String> {
    let id = |output: &str| {
        let output: Value = serde_json::from_str(output).ok()?;
        output["agent_id"].as_str().map(str::to_owned)
    };
    request.outputs().iter().filter_map(|(_, output)| id(output)).collect()
}

/// Returns a call of a tool that is offered directly or to scripts.
fn offered(name: &str, arguments: Value, tools: &Tools) -> Option<ToolInvocation> {
    match tools.get(name) {
        Some(tool) => Some(function(name, tool.namespace.as_deref(), arguments)),
        None if tools.is_nested(name) => {
            Some(script(format!("text(await tools.{name}({arguments}));")))
        }
        None => None,
    }
}

fn function(name: &str, namespace: Option<&str>, arguments: Value) -> ToolInvocation {
    let namespace = namespace.map(str::to_owned);
    ToolInvocation::Function { name: name.to_owned(), namespace, arguments }
}

fn custom(name: &str, input: String) -> ToolInvocation {
    ToolInvocation::Custom { name: name.to_owned(), namespace: None, input }
}

fn script(code: String) -> ToolInvocation {
    custom("exec", format!("{LONG_YIELD}{code}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(tools: Value) -> Tools {
        Tools::from_request(&ModelRequest::new(1, Default::default(), json!({"tools": tools})))
    }

    fn escalated() -> Shell {
        Shell { escalate: true, justification: Some("why".to_owned()), ..patch_command("x") }
    }

    #[test]
    fn command_uses_the_offered_tool() {
        let names = |offer: Value| match shell(&escalated(), &tools(offer)) {
            Ok(ToolInvocation::Function { name, arguments, .. }) => {
                assert_eq!(arguments["sandbox_permissions"], "require_escalated");
                assert_eq!(arguments["justification"], "why");
                name
            }
            Ok(ToolInvocation::Custom { name, input, .. }) => format!("{name}: {input}"),
            Err(why) => why,
        };
        let function = |name: &str| json!({"type": "function", "name": name});
        assert_eq!(names(json!([function("shell"), function("exec_command")])), "exec_command");
        assert_eq!(names(json!([function("shell_command")])), "shell_command");
        assert_eq!(names(json!([function("shell")])), "shell");
        assert_eq!(names(json!([function("web")])), "Codex offers no tool for commands, but web");
        let exec = json!({"type": "custom", "name": "exec", "description": "### `exec_command`"});
        let scripted = names(json!([{"type": "namespace", "name": "functions", "tools": [exec]}]));
        assert!(scripted.starts_with("exec: // @exec:"), "{scripted}");
        assert!(scripted.contains("await tools.exec_command({\"cmd\":"), "{scripted}");
    }

    #[test]
    fn namespaced_tool_is_called_in_its_namespace() {
        let offer = json!([{"type": "namespace", "name": "collaboration", "tools": [
            {"type": "function", "name": "spawn_agent"}]}]);
        let called = SpawnAgentItem { task: "t".to_owned(), name: "n".to_owned(), history: false };
        let called = spawn(&called, &tools(offer)).unwrap();
        let arguments = json!({"task_name": "n", "message": "t", "fork_turns": "none"});
        assert_eq!(called, function("spawn_agent", Some("collaboration"), arguments));
    }

    #[test]
    fn missing_plan_tool_error_names_the_setting() {
        let plan =
            super::plan(&PlanItem { steps: Vec::new(), explanation: None }, &tools(json!([])));
        assert!(plan.unwrap_err().contains("tools.update_plan.enabled"));
    }
}
