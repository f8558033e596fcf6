//! The position of each Codex thread in the scenario. This module is pure, so that every rule can
//! be tested separately.
//!
//! A thread takes the first free scripted thread that matches it. A new turn id takes the first
//! turn that matches its message, or else the next turn, even if the last one has unused responses.
//! If Codex sends no turn id, the next turn starts when the responses of the last one are used up.

use std::collections::BTreeMap;
use std::fmt;

use super::request::{ModelRequest, RequestPurpose};
use super::scenario::{
    ModelScenario, RepeatCount, Response, ScriptedItem, ScriptedMessage, ScriptedThread,
    ScriptedUsage, ThreadSelector,
};

/// The scripted answer of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServedAnswer {
    Scripted(ScriptPlace),
    /// A hidden request, which uses no scripted turn.
    Hidden(RequestPurpose),
    /// The request was not scripted, and the scenario's default answer was used.
    Default,
    /// The request was not scripted, and was refused for this reason.
    Unexpected(String),
}

/// The position of a response in the scenario. Numbers start at 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptPlace {
    pub thread: String,
    pub turn: usize,
    pub response: usize,
}

impl fmt::Display for ScriptPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, turn {}, response {}", self.thread, self.turn, self.response)
    }
}

/// The scenario and its progress.
pub(super) struct Script {
    scenario: ModelScenario,
    /// The number of times that each scripted thread was used.
    taken: Vec<u32>,
    /// The positions, keyed by the ids of Codex's threads.
    threads: BTreeMap<String, Position>,
}

struct Position {
    /// The scripted thread, or `None` if the thread was unexpected.
    script: Option<usize>,
    turn_id: Option<String>,
    /// The started turns, in order.
    started: Vec<StartedTurn>,
}

/// A turn that Codex started.
struct StartedTurn {
    /// The turn of the scripted thread that answers this turn, or `None` if it was unexpected.
    turn: Option<usize>,
    /// The number of requested responses.
    requested: usize,
}

impl Script {
    pub(super) fn new(scenario: ModelScenario) -> Self {
        let taken = vec![0; scenario.threads.len()];
        Self { scenario, taken, threads: BTreeMap::new() }
    }

    pub(super) fn usage(&self) -> ScriptedUsage {
        self.scenario.usage
    }

    /// Appends further threads.
    pub(super) fn add(&mut self, threads: Vec<ScriptedThread>) {
        self.taken.extend(threads.iter().map(|_| 0));
        self.scenario.threads.extend(threads);
    }

    /// Returns the answer to a request, or no answer if the request was unexpected.
    pub(super) fn answer(&mut self, request: &ModelRequest) -> (ServedAnswer, Option<Response>) {
        let apart = &self.scenario.hidden_answers;
        match request.kind() {
            RequestPurpose::Title => {
                (ServedAnswer::Hidden(RequestPurpose::Title), Some(text_response(&apart.title)))
            }
            RequestPurpose::Compaction => (
                ServedAnswer::Hidden(RequestPurpose::Compaction),
                Some(text_response(&apart.compaction)),
            ),
            RequestPurpose::Turn => match self.scripted(request) {
                Ok((place, response)) => (ServedAnswer::Scripted(place), Some(response)),
                Err(why) => match &self.scenario.default_response {
                    Some(otherwise) => (ServedAnswer::Default, Some(otherwise.clone())),
                    None => (ServedAnswer::Unexpected(why), None),
                },
            },
        }
    }

    /// Describes the scripted answers that were never requested.
    pub(super) fn left_over(&self) -> Vec<String> {
        let threads = self.scenario.threads.iter().zip(&self.taken);
        let never = threads.filter_map(|(thread, taken)| match thread.repeat {
            RepeatCount::Forever => None,
            RepeatCount::Times(times) if *taken >= times => None,
            RepeatCount::Times(times) => {
                Some(format!("{}: taken {taken} of {times} times", thread.name))
            }
        });
        let within = self.threads.values().filter_map(|position| {
            Some(position.left_over(&self.scenario.threads[position.script?]))
        });
        never.chain(within.flatten()).collect()
    }

    fn scripted(&mut self, request: &ModelRequest) -> Result<(ScriptPlace, Response), String> {
        if !self.threads.contains_key(request.thread()) {
            let position = self.begin(request);
            self.threads.insert(request.thread().to_owned(), position);
        }
        let position = self.threads.get_mut(request.thread()).expect("it was just inserted");
        let Some(script) = position.script else {
            return Err(format!("no thread is scripted for the prompt {:?}", request.prompt()));
        };
        position.next(&self.scenario.threads[script], request)
    }

    fn begin(&mut self, request: &ModelRequest) -> Position {
        let number = self.threads.len() + 1;
        let free = |index: &usize| {
            let thread = &self.scenario.threads[*index];
            let free = match thread.repeat {
                RepeatCount::Forever => true,
                RepeatCount::Times(times) => self.taken[*index] < times,
            };
            free && thread.when.matches(request, number)
        };
        let script = (0..self.scenario.threads.len()).find(free);
        if let Some(script) = script {
            self.taken[script] += 1;
        }
        Position { script, turn_id: None, started: Vec::new() }
    }
}

impl ThreadSelector {
    fn matches(&self, request: &ModelRequest, number: usize) -> bool {
        let subagent = self.subagent.unwrap_or(self.agent.is_some());
        let holds = |wanted: &Option<String>, found: &dyn Fn(&str) -> bool| {
            wanted.as_deref().is_none_or(found)
        };
        subagent == request.is_subagent()
            && self.number.is_none_or(|wanted| wanted == number)
            && holds(&self.prompt, &|part| request.prompt().contains(part))
            && holds(&self.agent, &|name| request.agent() == Some(name))
            && holds(&self.model, &|name| request.model() == name)
    }
}

impl Position {
    fn next(
        &mut self,
        thread: &ScriptedThread,
        request: &ModelRequest,
    ) -> Result<(ScriptPlace, Response), String> {
        if self.starts_turn(thread, request.turn()) {
            let turn = self.take(thread, &request.prompt());
            self.started.push(StartedTurn { turn, requested: 0 });
            self.turn_id = request.turn().map(str::to_owned);
        }
        let number = self.started.len();
        let Some(begun) = self.started.last_mut() else {
            return Err("no turn has started".to_owned());
        };
        begun.requested += 1;
        let place =
            ScriptPlace { thread: thread.name.clone(), turn: number, response: begun.requested };
        let turn = begun.turn.and_then(|turn| thread.turns.get(turn));
        let turn = turn.ok_or_else(|| format!("{} has no turn {number}", thread.name))?;
        let continues = |last: &&Response| last.repeat == RepeatCount::Forever;
        let response = turn.responses.get(place.response - 1);
        let response = response.or_else(|| turn.responses.last().filter(continues));
        let response = response.ok_or_else(|| format!("there is no {place}"))?;
        Ok((place, response.clone()))
    }

    /// Returns the turn that answers a message: a matching turn, or else the next unconditional
    /// one.
    fn take(&self, thread: &ScriptedThread, prompt: &str) -> Option<usize> {
        let free = |at: &usize| {
            thread.turns[*at].repeat == RepeatCount::Forever
                || self.started.iter().all(|begun| begun.turn != Some(*at))
        };
        let is_match = |at: &usize| match &thread.turns[*at].when {
            Some(part) => prompt.contains(part),
            None => false,
        };
        let mut all = (0..thread.turns.len()).filter(free);
        let plain = all.clone().find(|at| thread.turns[*at].when.is_none());
        all.find(is_match).or(plain)
    }

    fn starts_turn(&self, thread: &ScriptedThread, turn_id: Option<&str>) -> bool {
        let Some(last) = self.started.last() else { return true };
        let turn = last.turn.and_then(|turn| thread.turns.get(turn));
        match (turn_id, turn) {
            (None, Some(turn)) => last.requested >= turn.responses.len(),
            (Some(_), _) | (None, None) => turn_id != self.turn_id.as_deref(),
        }
    }

    fn left_over(&self, thread: &ScriptedThread) -> Vec<String> {
        let mut left = Vec::new();
        for (index, turn) in thread.turns.iter().enumerate() {
            let begun = self.started.iter().find(|begun| begun.turn == Some(index));
            let wanted = if turn.repeat == RepeatCount::Forever && begun.is_none() {
                0
            } else {
                turn.responses
                    .iter()
                    .filter(|response| response.repeat != RepeatCount::Forever)
                    .count()
            };
            let asked = begun.map_or(0, |begun| begun.requested);
            if asked < wanted {
                let place = format!("{}, turn {}", thread.name, index + 1);
                left.push(format!("{place}: {asked} of {wanted} responses were requested"));
            }
        }
        left
    }
}

fn text_response(text: &str) -> Response {
    let text = text.to_owned();
    let message = ScriptedMessage { text, phase: None, deltas: None, unfinished: false };
    Response { items: vec![ScriptedItem::Message(message)], ..Response::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A request of a thread's turn with a prompt.
    fn asks(thread: &str, turn: &str, prompt: &str) -> ModelRequest {
        let metadata = if turn.is_empty() { json!({}) } else { json!({"turn_id": turn}) };
        request(thread, metadata, prompt, false)
    }

    fn request(
        thread: &str,
        metadata: serde_json::Value,
        prompt: &str,
        subagent: bool,
    ) -> ModelRequest {
        let mut headers = BTreeMap::from([
            ("thread-id".to_owned(), thread.to_owned()),
            ("x-codex-turn-metadata".to_owned(), metadata.to_string()),
        ]);
        if subagent {
            headers.insert("x-openai-subagent".to_owned(), "collab_spawn".to_owned());
        }
        let body = json!({"model": "m", "input": [{"role": "user", "content": prompt}]});
        ModelRequest::new(1, headers, body)
    }

    fn script(text: &str) -> Script {
        Script::new(ModelScenario::parse(text).unwrap())
    }

    /// Returns the position that answers, or the reason why none does.
    fn place(script: &mut Script, request: &ModelRequest) -> String {
        match script.answer(request).0 {
            ServedAnswer::Scripted(place) => place.to_string(),
            ServedAnswer::Unexpected(why) => why,
            other @ (ServedAnswer::Hidden(_) | ServedAnswer::Default) => format!("{other:?}"),
        }
    }

    const TWO_TURNS: &str = "[[thread]]\nname = 'a'\nturn = [
        { response = [{}, {}] }, { response = [{}] }]\n";

    #[test]
    fn new_turn_id_takes_the_next_turn() {
        let mut script = script(TWO_TURNS);
        assert_eq!(place(&mut script, &asks("t", "1", "x")), "a, turn 1, response 1");
        assert_eq!(place(&mut script, &asks("t", "2", "x")), "a, turn 2, response 1");
        assert_eq!(script.left_over(), ["a, turn 1: 1 of 2 responses were requested"]);
        assert_eq!(place(&mut script, &asks("t", "2", "x")), "there is no a, turn 2, response 2");
        assert_eq!(place(&mut script, &asks("t", "3", "x")), "a has no turn 3");
    }

    #[test]
    fn matched_turn_waits_and_others_run_in_order() {
        let mut script = script(
            "[[thread]]\nname = 'a'\nturn = [
             { when = 'RED', response = [{ items = [{ message = 'red' }] }] },
             { response = [{ items = [{ message = 'first' }] }] },
             { repeat = 'forever', response = [{ items = [{ message = 'other' }] }] }]",
        );
        let reply = |script: &mut Script, turn: &str, prompt: &str| {
            let (_, response) = script.answer(&asks("t", turn, prompt));
            let item = response.unwrap().items.remove(0);
            let ScriptedItem::Message(message) = item else { panic!("{item:?}") };
            message.text
        };
        assert_eq!(reply(&mut script, "1", "x"), "first");
        assert_eq!(script.left_over(), ["a, turn 1: 0 of 1 responses were requested"]);
        assert_eq!(reply(&mut script, "2", "y"), "other");
        assert_eq!(reply(&mut script, "3", "a RED light"), "red");
        assert_eq!(reply(&mut script, "4", "a RED light"), "other");
        assert_eq!(script.left_over(), Vec::<String>::new());
    }

    #[test]
    fn turn_without_id_ends_after_last_response() {
        let mut script = script(TWO_TURNS);
        let places: Vec<_> = (0..3).map(|_| place(&mut script, &asks("t", "", "x"))).collect();
        let expected = ["a, turn 1, response 1", "a, turn 1, response 2", "a, turn 2, response 1"];
        assert_eq!(places, expected);
        assert_eq!(script.left_over(), Vec::<String>::new());
    }

    #[test]
    fn threads_match_by_prompt_number_and_sub_agent() {
        let mut script = script(
            "[[thread]]\nname = 'child'\nwhen = { subagent = true, prompt = 'CHILD' }\nturn = [{ response = [{}] }]
             [[thread]]\nname = 'third'\nwhen = { number = 3 }\nturn = [{ response = [{}] }]
             [[thread]]\nname = 'fix'\nwhen = { prompt = 'FIX' }\nturn = [{ response = [{}] }]
             [[thread]]\nname = 'any'\nturn = [{ response = [{}] }]",
        );
        let of = |script: &mut Script, request: &ModelRequest| {
            place(script, request).split(',').next().unwrap().to_owned()
        };
        assert_eq!(of(&mut script, &asks("1", "1", "hello")), "any");
        assert_eq!(of(&mut script, &asks("2", "1", "FIX it")), "fix");
        assert_eq!(of(&mut script, &asks("3", "1", "FIX it")), "third");
        let child = request("4", json!({"turn_id": "1"}), "CHILD", true);
        assert_eq!(of(&mut script, &child), "child");
        let stray = request("5", json!({"turn_id": "1"}), "CHILD", true);
        assert_eq!(of(&mut script, &stray), "no thread is scripted for the prompt \"CHILD\"");
        assert_eq!(script.left_over(), Vec::<String>::new());
    }

    #[test]
    fn forever_answers_need_not_be_requested() {
        let mut script = script(
            "[[thread]]\nname = 'a'\nrepeat = 'forever'\nturn = [{ repeat = 'forever', response = [{ repeat = 'forever' }] }]",
        );
        assert_eq!(script.left_over(), Vec::<String>::new());
        assert_eq!(place(&mut script, &asks("t", "1", "x")), "a, turn 1, response 1");
        assert_eq!(place(&mut script, &asks("t", "1", "x")), "a, turn 1, response 2");
        assert_eq!(place(&mut script, &asks("t", "2", "x")), "a, turn 2, response 1");
        assert_eq!(place(&mut script, &asks("u", "1", "x")), "a, turn 1, response 1");
        assert_eq!(script.left_over(), Vec::<String>::new());
    }

    #[test]
    fn hidden_requests_use_no_turn() {
        let mut script = script("[otherwise]\nitems = [{ message = 'ok' }]");
        let title = asks("t", "1", "Generate a concise, single-line task title for: x");
        assert_eq!(place(&mut script, &title), "Hidden(Title)");
        assert_eq!(place(&mut script, &asks("u", "1", "x")), "Default");
    }

    #[test]
    fn unused_thread_is_left_over() {
        assert_eq!(script(TWO_TURNS).left_over(), ["a: taken 0 of 1 times"]);
    }
}
