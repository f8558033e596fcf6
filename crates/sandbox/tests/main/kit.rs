//! A user with secrets, a home of Provost and a worktree, and commands in a sandbox there.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use provost_sandbox::enter::{ORDER_VARIABLE, SandboxOrder};
use provost_sandbox::private_paths::UserDirs;
use provost_sandbox::probe::{BubblewrapProbe, SandboxProbe, probe};
use provost_sandbox::{NetworkAccess, ProcessLimits, SandboxLevel, SandboxMode, SandboxRequest};
use tempfile::TempDir;

/// The content of every file that must stay hidden.
pub(crate) const CANARY: &str = "canary-secret";

/// Limits that no program reaches.
pub(crate) const GENEROUS_LIMITS: ProcessLimits =
    ProcessLimits { processes: 1 << 20, open_files: 1 << 20 };

/// The id of an unprivileged user, which needs no account.
const UNPRIVILEGED: u32 = 65534;

/// The user that starts commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestUser {
    Current,
    /// Another user without privileges. Requires root.
    Unprivileged,
}

/// A test directory with the files of one user.
pub(crate) struct TestEnv {
    directory: TempDir,
    user: TestUser,
    pub(crate) root: PathBuf,
}

/// The finished command of a sandbox.
#[derive(Debug)]
pub(crate) struct SandboxRun {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn this_machine() -> SandboxProbe {
    probe(&search_path(), Path::new("/")).unwrap()
}

/// Returns the levels that this machine supports.
pub(crate) fn levels() -> Vec<SandboxLevel> {
    let found = this_machine();
    let without = SandboxProbe { bubblewrap: BubblewrapProbe::Missing, landlock: found.landlock };
    let mut levels = vec![found.level(), without.level()];
    levels.dedup();
    levels.retain(|level| *level != SandboxLevel::None);
    assert!(!levels.is_empty(), "neither bubblewrap nor Landlock works: {found:?}");
    levels
}

/// Returns the users that this process can start commands as.
pub(crate) fn users() -> Vec<TestUser> {
    let can_switch = rustix::process::geteuid().is_root();
    let other = can_switch.then_some(TestUser::Unprivileged);
    std::iter::once(TestUser::Current).chain(other).collect()
}

/// Runs a test as each user and at each level.
pub(crate) fn everywhere(test: impl Fn(&TestEnv, SandboxLevel)) {
    for user in users() {
        for level in levels() {
            test(&TestEnv::new(user), level);
        }
    }
}

/// Whether this machine supports the level *full*, which some tests need.
pub(crate) fn has_full() -> bool {
    levels().contains(&SandboxLevel::Full)
}

fn search_path() -> OsString {
    "/usr/local/bin:/usr/bin:/bin".into()
}

impl TestEnv {
    pub(crate) fn new(user: TestUser) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let root = directory.path().canonicalize().unwrap();
        let env = Self { directory, user, root };
        for place in
            ["home/.ssh", "home/.config/gh", "home/src", "tmp", "provost/ledger", "outside", "work"]
        {
            fs::create_dir_all(env.root.join(place)).unwrap();
        }
        for secret in ["home/.ssh/id", "home/.config/gh/hosts.yml", "provost/ledger/key"] {
            env.write(secret, CANARY);
        }
        env.write("home/src/notes", "public");
        env.write("outside/file", "before");
        fs::copy(env!("CARGO_BIN_EXE_sandbox-for-tests"), env.helper()).unwrap();
        env
    }

    pub(crate) fn helper(&self) -> PathBuf {
        self.root.join("helper")
    }

    pub(crate) fn worktree(&self) -> PathBuf {
        self.root.join("work")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.root.join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap()
    }

    /// Returns the request for a command in the worktree, without network.
    pub(crate) fn request(&self) -> SandboxRequest {
        let home = self.root.join("home");
        let user = UserDirs::from_variables(|name| (name == "HOME").then(|| home.clone()));
        SandboxRequest {
            mode: SandboxMode::Workspace,
            network: NetworkAccess::Off,
            directory: self.worktree(),
            worktree: self.worktree(),
            git: None,
            temporary: self.root.join("tmp"),
            writable: Vec::new(),
            user_writable: Vec::new(),
            readable: vec![self.helper(), home, self.root.join("outside")],
            hidden: vec![self.root.join("provost")],
            user,
            limits: GENEROUS_LIMITS,
        }
    }

    /// Returns the command that enters a sandbox, as the user.
    pub(crate) fn command(
        &self,
        request: &SandboxRequest,
        level: SandboxLevel,
        words: &[&str],
    ) -> Command {
        self.give_to_user();
        let order = SandboxOrder {
            level,
            plan: request.resolve().unwrap(),
            bubblewrap: this_machine().bubblewrap_program().map(Path::to_owned),
            helper: vec![self.helper()],
            status: self.status(),
        };
        let mut command = match self.user {
            TestUser::Current => Command::new(self.helper()),
            TestUser::Unprivileged => {
                let mut switch = Command::new("setpriv");
                let id = UNPRIVILEGED.to_string();
                switch.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
                switch.arg(self.helper());
                switch
            }
        };
        command.args(words).current_dir(self.worktree()).env_clear();
        command.env("PATH", search_path()).env("HOME", self.root.join("home"));
        command.env("SSH_AUTH_SOCK", "/nonexistent/agent");
        command.env(ORDER_VARIABLE, serde_json::to_string(&order).unwrap());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn status(&self) -> PathBuf {
        self.root.join("tmp/status")
    }

    /// Runs a shell script in the sandbox. `$R` is the test directory.
    pub(crate) fn run(
        &self,
        request: &SandboxRequest,
        level: SandboxLevel,
        script: &str,
    ) -> SandboxRun {
        let mut command = self.command(request, level, &["/bin/sh", "-c", script]);
        command.env("R", &self.root);
        SandboxRun::from(command.output().unwrap())
    }

    /// Makes the user the owner of all files.
    fn give_to_user(&self) {
        if self.user == TestUser::Unprivileged {
            let owner = format!("{UNPRIVILEGED}:{UNPRIVILEGED}");
            let mut chown = Command::new("chown");
            let status = chown.args(["-R", &owner]).arg(self.directory.path()).status();
            assert!(status.unwrap().success());
        }
    }
}

impl From<Output> for SandboxRun {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
