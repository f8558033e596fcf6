//! Runs scripts of `provost` commands in a test home, and compares what they print with a snapshot.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use provost_testkit::harness::{ProgramOutput, TestHome, scripted_agent_bin};
use serde_json::Value;

use crate::redact::Redactor;

/// The widths at which tables are recorded.
const WIDTHS: [u32; 3] = [60, 100, 200];

/// A home whose user works in the repository `~/app`, and the snapshots of the commands that run there.
pub(crate) struct Recorder {
    pub(crate) home: TestHome,
    redactor: Redactor,
    variables: HashMap<&'static str, String>,
    transcripts: BTreeMap<String, String>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        let mut home = TestHome::new();
        home.set_env("NO_COLOR", "1").set_env("SHELL", "/bin/sh");
        let root = home.root().display().to_string();
        let user = home.root().join("user");
        let app = user.join("app");
        fs::create_dir_all(&app).unwrap();
        let binary = scripted_agent_bin().parent().unwrap().display().to_string();
        // Sessions record their search path, which must not depend on the machine.
        home.set_env("PATH", format!("{binary}:/usr/local/bin:/usr/bin:/bin"));
        let redactor = Redactor::new(vec![
            (user.display().to_string(), "~"),
            (root, "/test"),
            (binary, "/bin"),
        ]);
        let recorder =
            Recorder { home, redactor, variables: HashMap::new(), transcripts: BTreeMap::new() };
        recorder.git("init --quiet --initial-branch=main");
        recorder.write("README.md", "# Sample\n");
        recorder.commit();
        recorder
    }

    /// The user's repository.
    pub(crate) fn app(&self) -> PathBuf {
        self.home.root().join("user/app")
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.app().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn commit(&self) {
        self.git("add --all");
        self.git("commit --quiet --message change");
    }

    fn git(&self, arguments: &str) {
        let environment = self.home.command(&[""; 0]);
        let mut git = Command::new("git");
        git.args(arguments.split(' ')).current_dir(self.app()).env_clear();
        git.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = git.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Configures agents, each with its scenario, and adds further configuration.
    pub(crate) fn configure(&self, agents: &[(&str, &str)], more: &str) {
        let bin = self.home.root().join("user/bin");
        fs::create_dir_all(&bin).unwrap();
        let mut toml = format!("[session]\nstop_grace = \"100ms\"\n{more}\n");
        for (name, scenario) in agents {
            let scenario = self.home.scenario(name, scenario);
            let program = bin.join(name);
            let script = format!(
                "#!/bin/sh\nexec '{}' '{}'\n",
                scripted_agent_bin().display(),
                scenario.display()
            );
            fs::write(&program, script).unwrap();
            make_executable(&program);
            writeln!(toml, "[agents.{name}]\nadapter = \"jsonl\"\ncommand = [{program:?}]")
                .unwrap();
        }
        self.home.configure(&toml);
    }

    /// Sets a variable of scripts, such as `$id`.
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.variables.insert(name, value.into());
    }

    /// Runs a command that must succeed, without recording it.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> ProgramOutput {
        let output = self.home.provost_in(&self.app(), &self.words(line));
        assert_eq!(output.code(), Some(0), "{line}\n{}{}", output.stdout, output.stderr);
        output
    }

    /// Runs a command that must succeed and print JSON.
    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        self.run(&format!("{line} --json")).json()
    }

    /// Starts a session or run, and sets a variable to its id.
    #[track_caller]
    pub(crate) fn open(&mut self, name: &'static str, line: &str) -> String {
        let (command, rest) = line.split_once(' ').unwrap();
        let opened = self.run(&format!("{command} --json {rest}")).json();
        let id = opened["id"].as_str().unwrap().to_owned();
        self.set(name, id.clone());
        id
    }

    /// Runs the lines of a script and adds their output to the snapshot `name`.
    ///
    /// A line is a `provost` command in shell quoting. `60| ls` runs it on a terminal of that width, `*| ls` on
    /// terminals of all recorded widths. `=| ls` records it as text and with `--json`. `ls < TEXT` passes a text as
    /// standard input. `~| run` leaves out standard error, because progress depends on timing.
    #[track_caller]
    pub(crate) fn record(&mut self, name: &str, script: &str) {
        let mut transcript = self.transcripts.remove(name).unwrap_or_default();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.split_once("| ") {
                Some(("*", line)) => {
                    for width in WIDTHS {
                        self.append_terminal(&mut transcript, width, line);
                    }
                }
                Some(("~", line)) => self.append_result(&mut transcript, line),
                Some(("=", line)) => {
                    self.append(&mut transcript, line);
                    self.append(&mut transcript, &format!("{line} --json"));
                }
                Some((width, line)) if width.parse::<u32>().is_ok() => {
                    self.append_terminal(&mut transcript, width.parse().unwrap(), line);
                }
                _ => self.append(&mut transcript, line),
            }
        }
        self.transcripts.insert(name.to_owned(), transcript);
    }

    /// Ends the test: compares everything that was recorded with the snapshots.
    #[track_caller]
    pub(crate) fn finish(self) {
        let recorded = self.transcripts.iter();
        let differing: Vec<&str> = recorded
            .filter(|(name, text)| !matches_snapshot("", name, text.trim_end()))
            .map(|(name, _)| name.as_str())
            .collect();
        assert!(differing.is_empty(), "snapshots differ: {}", differing.join(", "));
    }

    #[track_caller]
    fn append_result(&mut self, transcript: &mut String, line: &str) {
        let output = self.run_in_app(line, "");
        self.append_output(transcript, line, &ProgramOutput { stderr: String::new(), ..output });
    }

    #[track_caller]
    fn append(&mut self, transcript: &mut String, line: &str) {
        let (command, input) = match line.split_once(" < ") {
            Some((command, input)) => (command, input.replace("\\n", "\n")),
            None => (line, String::new()),
        };
        let output = self.run_in_app(command, &input);
        self.append_output(transcript, line, &output);
    }

    fn append_output(&mut self, transcript: &mut String, line: &str, output: &ProgramOutput) {
        writeln!(transcript, "$ provost {line}").unwrap();
        let stdout = match serde_json::from_str::<Value>(&output.stdout) {
            Ok(value) if value.is_object() => self.redactor.json(value),
            _ => self.redactor.text(&output.stdout),
        };
        let stderr = self.redactor.text(&output.stderr);
        if !stdout.is_empty() {
            writeln!(transcript, "{stdout}").unwrap();
        }
        if !stderr.is_empty() {
            writeln!(transcript, "[stderr]\n{stderr}").unwrap();
        }
        match output.code() {
            Some(0) => {}
            Some(code) => writeln!(transcript, "[exit {code}]").unwrap(),
            None => writeln!(transcript, "[killed]").unwrap(),
        }
        transcript.push('\n');
    }

    #[track_caller]
    fn run_in_app(&self, line: &str, input: &str) -> ProgramOutput {
        if input.is_empty() {
            return self.home.provost_in(&self.app(), &self.words(line));
        }
        let mut command = self.home.command(&self.words(line));
        command.current_dir(self.app()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        // A command that does not read its input may have ended already.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        ProgramOutput {
            command: line.to_owned(),
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            raw_stdout: output.stdout,
        }
    }

    fn append_terminal(&mut self, transcript: &mut String, columns: u32, line: &str) {
        let provost = self.home.command(&self.words(line));
        let words = std::iter::once(provost.get_program()).chain(provost.get_args());
        let quoted: Vec<String> = words.map(|word| shell_quote(word.to_str().unwrap())).collect();
        let shell = format!("stty cols {columns} rows 60 && exec {}", quoted.join(" "));
        let mut script = Command::new("script");
        script.args(["-qec", &shell, "/dev/null"]).current_dir(self.app()).env_clear();
        script.envs(provost.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = script.stdin(Stdio::null()).output().unwrap();
        let text = self.redactor.text(&String::from_utf8_lossy(&output.stdout));
        writeln!(transcript, "[{columns} columns] $ provost {line}\n{text}\n").unwrap();
    }

    /// Splits a line as a shell does and replaces `$name`.
    fn words(&self, line: &str) -> Vec<String> {
        let mut line = line.to_owned();
        for (name, value) in &self.variables {
            line = line.replace(&format!("${name}"), value);
        }
        split_words(&line)
    }
}

/// Compares a text with a file below the snapshots; writes the file if `INSTA_UPDATE` asks for it.
#[track_caller]
pub(crate) fn matches_snapshot(dir: &str, name: &str, text: &str) -> bool {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("../snapshots/{dir}"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let compare = || settings.bind(|| insta::assert_snapshot!(name.to_owned(), text));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(compare)).is_ok()
}

fn split_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for char in line.chars() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (None, '\'' | '"') => (quote, is_word) = (Some(char), true),
            (None, ' ') if is_word => {
                words.push(std::mem::take(&mut word));
                is_word = false;
            }
            (None, ' ') => {}
            (Some(_) | None, _) => {
                word.push(char);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

fn shell_quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
