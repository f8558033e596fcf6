//! Parses a model's scenario strictly. Every error names the position and suggests the closest
//! known key.

use std::fmt::Display;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::scenario::{
    HiddenAnswers, Http, ITEMS, Limit, ModelScenario, RepeatCount, ResetLocation, ResetTime,
    Response, ResponseEnd, ScriptedItem, ScriptedThread, ScriptedTurn, ScriptedUsage,
    ThreadSelector, UsageLimit,
};

/// Maximum number of numeric repetitions. Scenarios use `"forever"` beyond that.
const MAX_REPEATS: u32 = 10_000;

const SCENARIO: &[&str] = &["description", "usage", "otherwise", "apart", "thread"];
const THREAD: &[&str] = &["name", "when", "repeat", "turn"];
const TURN: &[&str] = &["when", "response", "repeat"];
const RESPONSE: &[&str] = &["delay_ms", "headers", "rate_limits", "items", "usage", "repeat"];
/// The keys that end a response. At most one of them is allowed.
const ENDS: &[&str] = &["end", "failed", "incomplete", "context_overflow", "http", "usage_limit"];
const USAGE_LIMIT: &[&str] = &["resets_at", "resets_in_s", "plan", "reset_location"];
const LIMIT: &[&str] = &["used_percent", "window_minutes", "resets_at", "resets_in_s"];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("read the scenario {path}")]
    Unreadable {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("not TOML")]
    Toml(#[source] Box<toml::de::Error>),
    #[error("{place}: {why}")]
    Invalid { place: String, why: String },
}

impl ModelScenario {
    /// Reads a scenario.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let table: Table = toml::from_str(text).map_err(|error| Error::Toml(Box::new(error)))?;
        scenario(TableKeys::new(table, KeyPath::root()))
    }

    /// Reads a scenario from a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Unreadable { path: path.display().to_string(), source })?;
        Self::parse(&text)
    }
}

fn scenario(mut keys: TableKeys) -> Result<ModelScenario, Error> {
    keys.only(&[SCENARIO])?;
    let otherwise = keys.table("otherwise")?.map(response).transpose()?;
    let threads = keys.tables("thread")?.into_iter().map(thread).collect::<Result<_, _>>()?;
    Ok(ModelScenario {
        description: keys.take("description")?.unwrap_or_default(),
        usage: keys.take::<ScriptedUsage>("usage")?.unwrap_or_default(),
        default_response: otherwise,
        hidden_answers: keys.take::<HiddenAnswers>("apart")?.unwrap_or_default(),
        threads,
    })
}

fn thread(mut keys: TableKeys) -> Result<ScriptedThread, Error> {
    keys.only(&[THREAD])?;
    let name = keys.take("name")?.unwrap_or_else(|| keys.path.last());
    keys.path.call(&name);
    let turns: Vec<ScriptedTurn> =
        keys.tables("turn")?.into_iter().map(turn).collect::<Result<_, _>>()?;
    forever_last(&keys.path, "turn", turns.iter().map(|turn| turn.repeat))?;
    Ok(ScriptedThread {
        name,
        when: keys.take::<ThreadSelector>("when")?.unwrap_or_default(),
        repeat: keys.repeat()?,
        turns: repeated(turns, |turn| &mut turn.repeat),
    })
}

fn turn(mut keys: TableKeys) -> Result<ScriptedTurn, Error> {
    keys.only(&[TURN])?;
    let responses: Vec<Response> =
        keys.tables("response")?.into_iter().map(response).collect::<Result<_, _>>()?;
    if responses.is_empty() {
        return keys.path.wrong("a turn needs a `response`");
    }
    forever_last(&keys.path, "response", responses.iter().map(|response| response.repeat))?;
    let responses = repeated(responses, |response| &mut response.repeat);
    Ok(ScriptedTurn { when: keys.take("when")?, responses, repeat: keys.repeat()? })
}

fn response(mut keys: TableKeys) -> Result<Response, Error> {
    keys.only(&[RESPONSE, ENDS])?;
    let items: Vec<ScriptedItem> =
        keys.tables("items")?.into_iter().map(item).collect::<Result<_, _>>()?;
    let end = end(&mut keys)?;
    if matches!(end, ResponseEnd::Http(_) | ResponseEnd::UsageLimit(_)) && !items.is_empty() {
        return keys.path.wrong("a response with an HTTP status has no items");
    }
    let limits = keys.table("rate_limits")?.map(rate_limits).transpose()?;
    Ok(Response {
        delay_ms: keys.take("delay_ms")?.unwrap_or_default(),
        headers: keys.take("headers")?.unwrap_or_default(),
        limits: limits.unwrap_or_default(),
        items,
        usage: keys.take("usage")?,
        end,
        repeat: keys.repeat()?,
    })
}

fn end(keys: &mut TableKeys) -> Result<ResponseEnd, Error> {
    let given: Vec<&str> = ENDS.iter().copied().filter(|key| keys.has(key)).collect();
    let key = match given.as_slice() {
        [] => return Ok(ResponseEnd::Completed),
        [key] => *key,
        several => {
            return keys
                .path
                .wrong(format!("a response has one end, but this one has {}", names(several)));
        }
    };
    Ok(match key {
        "end" => plain_end(keys)?,
        "failed" => failed(keys)?,
        "incomplete" => ResponseEnd::Incomplete(keys.take("incomplete")?.unwrap_or_default()),
        "context_overflow" => context_overflow(keys)?,
        "http" => http(keys)?,
        _ => ResponseEnd::UsageLimit(usage_limit(keys)?),
    })
}

fn plain_end(keys: &mut TableKeys) -> Result<ResponseEnd, Error> {
    const PLAIN: &[&str] = &["completed", "drop", "cut", "hang"];
    let name: String = keys.take("end")?.unwrap_or_default();
    match name.as_str() {
        "completed" => Ok(ResponseEnd::Completed),
        "drop" => Ok(ResponseEnd::Drop),
        "cut" => Ok(ResponseEnd::Cut),
        "hang" => Ok(ResponseEnd::Hang),
        _ => keys.path.wrong(format!("end: {}", unknown("value", &name, PLAIN))),
    }
}

fn failed(keys: &mut TableKeys) -> Result<ResponseEnd, Error> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Failed {
        code: String,
        message: String,
    }
    let Some(Failed { code, message }) = keys.take("failed")? else {
        return Ok(ResponseEnd::Completed);
    };
    Ok(ResponseEnd::Failed { code, message })
}

fn context_overflow(keys: &mut TableKeys) -> Result<ResponseEnd, Error> {
    keys.take::<super::scenario::TrueFlag>("context_overflow")?;
    Ok(ResponseEnd::Failed {
        code: "context_length_exceeded".to_owned(),
        message: "Your input exceeds the context window of this model.".to_owned(),
    })
}

fn http(keys: &mut TableKeys) -> Result<ResponseEnd, Error> {
    let Some(http) = keys.take::<Http>("http")? else { return Ok(ResponseEnd::Completed) };
    if !(200..600).contains(&http.status) {
        return keys.path.wrong(format!("http: {} is not a final HTTP status", http.status));
    }
    Ok(ResponseEnd::Http(http))
}

fn usage_limit(keys: &mut TableKeys) -> Result<UsageLimit, Error> {
    let mut keys = keys.table("usage_limit")?.unwrap_or_else(|| keys.empty("usage_limit"));
    keys.only(&[USAGE_LIMIT])?;
    let Some(reset) = reset(&mut keys)? else {
        return keys.path.wrong("give `resets_at` or `resets_in_s`");
    };
    let plan = keys.take("plan")?.unwrap_or_else(|| "plus".to_owned());
    Ok(UsageLimit {
        reset,
        plan,
        reset_location: keys.take::<ResetLocation>("reset_location")?.unwrap_or_default(),
    })
}

fn rate_limits(mut keys: TableKeys) -> Result<Vec<(String, Limit)>, Error> {
    keys.only(&[&["primary", "secondary"]])?;
    let mut limits = Vec::new();
    for window in ["primary", "secondary"] {
        if let Some(limit) = keys.table(window)?.map(limit).transpose()? {
            limits.push((window.to_owned(), limit));
        }
    }
    Ok(limits)
}

fn limit(mut keys: TableKeys) -> Result<Limit, Error> {
    keys.only(&[LIMIT])?;
    let Some(used_percent) = keys.take("used_percent")? else {
        return keys.path.wrong("`used_percent` is missing");
    };
    Ok(Limit {
        used_percent,
        window_minutes: keys.take("window_minutes")?,
        reset: reset(&mut keys)?,
    })
}

fn reset(keys: &mut TableKeys) -> Result<Option<ResetTime>, Error> {
    match (keys.take("resets_at")?, keys.take("resets_in_s")?) {
        (Some(_), Some(_)) => keys.path.wrong("either `resets_at` or `resets_in_s`"),
        (at, after) => Ok(at.map(ResetTime::At).or(after.map(ResetTime::In))),
    }
}

fn item(mut keys: TableKeys) -> Result<ScriptedItem, Error> {
    let known: Vec<&str> = ITEMS.iter().map(|(name, _)| *name).collect();
    let given: Vec<&str> = known.iter().copied().filter(|key| keys.has(key)).collect();
    let (name, beside) = match given.as_slice() {
        [name] => ITEMS.iter().find(|(known, _)| known == name).expect("a name of the list"),
        [] => {
            let key = keys.first().unwrap_or_default();
            return keys.path.wrong(unknown("item", &key, &known));
        }
        several => {
            return keys
                .path
                .wrong(format!("an item has one kind, but this one has {}", names(several)));
        }
    };
    keys.only(&[&[*name], beside])?;
    let value = keys.table.remove(*name).expect("the name was found among the keys");
    keys.table.insert("value".to_owned(), value);
    let tagged = Table::from_iter([((*name).to_owned(), Value::Table(keys.table))]);
    Value::Table(tagged).try_into().map_err(|error: toml::de::Error| Error::Invalid {
        place: keys.path.to_string(),
        why: format!("{name}: {}", error.message()),
    })
}

/// Expands numeric repetitions into copies, so that playing needs no counters.
fn repeated<T: Clone>(all: Vec<T>, repeat: impl Fn(&mut T) -> &mut RepeatCount) -> Vec<T> {
    let mut out = Vec::new();
    for mut one in all {
        let times = match *repeat(&mut one) {
            RepeatCount::Forever => 1,
            RepeatCount::Times(times) => {
                *repeat(&mut one) = RepeatCount::Times(1);
                times as usize
            }
        };
        out.extend(std::iter::repeat_n(one, times));
    }
    out
}

fn forever_last(
    place: &KeyPath,
    what: &str,
    repeats: impl DoubleEndedIterator<Item = RepeatCount>,
) -> Result<(), Error> {
    if repeats.rev().skip(1).any(|repeat| repeat == RepeatCount::Forever) {
        return place.wrong(format!("only the last {what} can be repeated forever"));
    }
    Ok(())
}

/// The table that is being parsed, and its position.
struct TableKeys {
    table: Table,
    path: KeyPath,
}

impl TableKeys {
    fn new(table: Table, place: KeyPath) -> Self {
        Self { table, path: place }
    }

    fn empty(&self, key: &str) -> Self {
        Self::new(Table::new(), self.path.below(key))
    }

    fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    fn first(&self) -> Option<String> {
        self.table.keys().next().cloned()
    }

    fn only(&self, known: &[&[&str]]) -> Result<(), Error> {
        let known = known.concat();
        match self.table.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => self.path.wrong(unknown("key", key, &known)),
            None => Ok(()),
        }
    }

    fn take<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.table.remove(key) else { return Ok(None) };
        match value.try_into() {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.path.wrong(format!("{key}: {}", with_nearest(error.message()))),
        }
    }

    fn table(&mut self, key: &str) -> Result<Option<Self>, Error> {
        let Some(table) = self.take::<Table>(key)? else { return Ok(None) };
        Ok(Some(Self::new(table, self.path.below(key))))
    }

    fn tables(&mut self, key: &str) -> Result<Vec<Self>, Error> {
        let tables: Vec<Table> = self.take(key)?.unwrap_or_default();
        let one = key.strip_suffix('s').unwrap_or(key);
        let numbered = tables.into_iter().enumerate();
        Ok(numbered
            .map(|(at, table)| Self::new(table, self.path.below(&format!("{one} {}", at + 1))))
            .collect())
    }

    fn repeat(&mut self) -> Result<RepeatCount, Error> {
        match self.table.remove("repeat") {
            None => Ok(RepeatCount::default()),
            Some(Value::String(word)) if word == "forever" => Ok(RepeatCount::Forever),
            Some(Value::Integer(times)) if (1..=MAX_REPEATS.into()).contains(&times) => {
                Ok(RepeatCount::Times(u32::try_from(times).unwrap_or(MAX_REPEATS)))
            }
            Some(_) => {
                self.path.wrong(format!("repeat: a number from 1 to {MAX_REPEATS}, or \"forever\""))
            }
        }
    }
}

/// A position in the file.
#[derive(Clone)]
struct KeyPath(Vec<String>);

impl KeyPath {
    fn root() -> Self {
        Self(Vec::new())
    }

    fn below(&self, part: &str) -> Self {
        Self(self.0.iter().cloned().chain([part.to_owned()]).collect())
    }

    fn last(&self) -> String {
        self.0.last().cloned().unwrap_or_default()
    }

    /// Replaces the number at the end of the position with a name.
    fn call(&mut self, name: &str) {
        if let Some(last) = self.0.last_mut().filter(|last| *last != name) {
            *last = format!("thread `{name}`");
        }
    }

    fn wrong<T>(&self, why: impl Display) -> Result<T, Error> {
        Err(Error::Invalid { place: self.to_string(), why: why.to_string() })
    }
}

impl Display for KeyPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { f.write_str("scenario") } else { f.write_str(&self.0.join(", ")) }
    }
}

fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    let nearest = nearest(given, known);
    format!("unknown {what} `{given}`; did you mean `{nearest}`?")
}

fn nearest<'a>(given: &str, known: &[&'a str]) -> &'a str {
    let distance = |known: &&&str| strsim::damerau_levenshtein(given, known);
    known.iter().min_by_key(distance).copied().unwrap_or_default()
}

/// Adds the closest known field to a serde error, which lists all fields.
fn with_nearest(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.as_slice() {
        [given, known @ ..] if message.starts_with("unknown field") && !known.is_empty() => {
            unknown("key", given, known)
        }
        _ => message.to_owned(),
    }
}

fn names(keys: &[&str]) -> String {
    keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn complaint(text: &str) -> String {
        ModelScenario::parse(text).expect_err("this is not a scenario").to_string()
    }

    fn in_response(text: &str) -> String {
        complaint(&format!("[[thread]]\n[[thread.turn]]\n[[thread.turn.response]]\n{text}"))
    }

    #[test]
    fn misspelt_key_error_has_path_and_suggestion() {
        for (text, expected) in [
            ("tread = 1", "scenario: unknown key `tread`; did you mean `thread`?"),
            ("[usage]\ninptu = 1", "scenario: usage: unknown key `inptu`; did you mean `input`?"),
            ("[[thread]]\nnam = 'x'", "thread 1: unknown key `nam`; did you mean `name`?"),
            (
                "[[thread]]\nname = 'fix'\nwhen = { promt = 'x' }",
                "thread `fix`: when: unknown key `promt`; did you mean `prompt`?",
            ),
            (
                "[[thread]]\n[[thread.turn]]\nresponses = []",
                "thread 1, turn 1: unknown key `responses`; did you mean `response`?",
            ),
        ] {
            assert_eq!(complaint(text), expected);
        }
    }

    #[test]
    fn misspelt_items_and_ends_are_errors() {
        for (text, expected) in [
            ("itmes = []", "unknown key `itmes`; did you mean `items`?"),
            (
                "items = [{ mesage = 'x' }]",
                "item 1: unknown item `mesage`; did you mean `message`?",
            ),
            (
                "items = [{ shell = 'x', wrkdir = '/' }]",
                "unknown key `wrkdir`; did you mean `workdir`?",
            ),
            ("items = [{ shell = 'x', phase = 'commentary' }]", "unknown key `phase`"),
            (
                "items = [{ shell = 'x', message = 'y' }]",
                "an item has one kind, but this one has `message`, `shell`",
            ),
            ("items = [{ message = 1 }]", "message: invalid type"),
            ("items = [{ wait_agents = false }]", "only `true` is allowed here"),
            ("end = 'hung'", "end: unknown value `hung`; did you mean `hang`?"),
            (
                "end = 'drop'\nincomplete = 'x'",
                "a response has one end, but this one has `end`, `incomplete`",
            ),
            ("http = { status = 42 }", "42 is not a final HTTP status"),
            ("http = { status = 500 }\nitems = [{ message = 'x' }]", "has no items"),
            ("usage_limit = { plan = 'pro' }", "give `resets_at` or `resets_in_s`"),
            (
                "usage_limit = { resets_at = 1, resets_in_s = 1 }",
                "either `resets_at` or `resets_in_s`",
            ),
            ("repeat = 0", "repeat: a number from 1 to 10000"),
            ("rate_limits = { first = {} }", "unknown key `first`"),
            ("rate_limits = { primary = {} }", "`used_percent` is missing"),
        ] {
            let error = in_response(text);
            assert!(error.starts_with("thread 1, turn 1, response 1"), "{error}");
            assert!(error.contains(expected), "no {expected:?} in {error}");
        }
    }

    #[test]
    fn only_last_element_repeats_forever() {
        let error = complaint(
            "[[thread]]\nturn = [{ response = [{ repeat = 'forever' }, { items = [] }] }]",
        );
        assert_eq!(error, "thread 1, turn 1: only the last response can be repeated forever");
        let scenario = ModelScenario::parse(
            "[[thread]]\nturn = [{ response = [{ repeat = 2 }, { repeat = 'forever' }] }]",
        );
        assert_eq!(scenario.unwrap().threads[0].turns[0].responses.len(), 3);
    }
}
