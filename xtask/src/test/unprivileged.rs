//! Tests as an unprivileged user when root runs them: the account, the files this user may read, and the command
//! that switches to this user.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::geteuid;

use super::test_dir::{TestDir, set_mode};
use crate::{
    process::{output, step},
    workspace::{Programs, Workspace},
};

/// The account of unprivileged tests. It is kept after the run: if it were removed, another account
/// could get its number while files of a failed run remain. It has no password, shell or home.
const ACCOUNT: &str = "provost-test";
const PASSWD: &str = "/etc/passwd";
/// Program directories for every user, independent of root's own path.
const SYSTEM_PATH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// The numeric ids of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Account {
    uid: u32,
    gid: u32,
}

/// An unprivileged user, its test directory, and copies of the programs it runs.
pub(super) struct TestUser {
    account: Account,
    pub(super) room: TestDir,
    /// A directory that belongs to root and that every user can read.
    programs_dir: PathBuf,
    codex: Vec<(&'static str, PathBuf)>,
    environment: Vec<(OsString, OsString)>,
}

/// The inputs of the user's tests, apart from their directory.
pub(super) struct UserTestInputs<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) programs: &'a Programs,
    /// The Codex programs, each with the variable that holds its path.
    pub(super) codex: Vec<(&'static str, PathBuf)>,
    /// Additional variables for the tests.
    pub(super) variables: Vec<(&'static str, OsString)>,
}

impl TestUser {
    /// Prepares the user in a directory below the run's directory. Returns `None` if root does not
    /// run the tests, because the tests are unprivileged in that case.
    pub(super) fn prepare(parent: &TestDir, needs: &UserTestInputs<'_>) -> Result<Option<Self>> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let account = provide_account(needs.workspace)?;
        // Names are short because socket paths have a length limit.
        let room = TestDir::at(parent.path.join("u"))?;
        fs::create_dir_all(room.path.join("home"))?;
        for dir in [room.path.clone(), room.temporary(), room.path.join("home")] {
            set_mode(&dir, 0o700)?;
            chown(&dir, Some(account.uid), Some(account.gid))?;
        }
        let programs_dir = parent.path.join("bin");
        fs::create_dir_all(&programs_dir)?;
        set_mode(&programs_dir, 0o755)?;
        // `/proc/self/exe` finds the program even if a build has replaced its file.
        let own = programs_dir.join("xtask");
        fs::copy("/proc/self/exe", &own).context("cannot copy this program")?;
        for program in [&needs.programs.provost, &needs.programs.scripted_agent] {
            let name = program.file_name().context("the program path has no file name")?;
            link_or_copy(program, &programs_dir.join(name))?;
        }
        let mut codex = Vec::new();
        for (variable, program) in &needs.codex {
            let readable = readable_codex(program, &parent.path.join(variable))?;
            codex.push((*variable, readable));
        }
        let mut user = Self { account, room, programs_dir, codex, environment: Vec::new() };
        user.environment = user.environment(&needs.variables);
        user.check()?;
        Ok(Some(user))
    }

    /// Returns the copies of the programs.
    pub(super) fn programs(&self) -> Programs {
        Programs::in_dir(&self.programs_dir)
    }

    /// Returns the Codex that the demo drives, if it is installed.
    pub(super) fn pinned_codex(&self) -> Option<&Path> {
        self.codex.first().map(|(_, program)| program.as_path())
    }

    /// Returns a command that runs this program as the user.
    pub(super) fn xtask(&self) -> Command {
        self.command(&self.programs_dir.join("xtask"))
    }

    /// Writes a script that runs a test program as the user, and returns its path. The test runner calls it with
    /// the test program and its arguments, to list and to run tests. The script copies the program, because the
    /// user may be unable to enter the build directory.
    pub(super) fn runner(&self) -> Result<PathBuf> {
        let copy = self.programs_dir.join("$name");
        let run = self.command(&copy);
        let words = [run.get_program()].into_iter().chain(run.get_args());
        // The script refers to the copy through a variable; all other words are quoted.
        let words =
            words.map(
                |word| {
                    if word == copy.as_os_str() { "\"$copy\"".to_owned() } else { quoted(word) }
                },
            );
        let script = format!(
            "#!/bin/sh\n\
             set -e\n\
             program=$1\n\
             shift\n\
             name=${{program##*/}}\n\
             copy={}/\"$name\"\n\
             if [ ! -e \"$copy\" ]; then\n\
             \tcp \"$program\" \"$copy.$$\"\n\
             \tchmod 755 \"$copy.$$\"\n\
             \tmv \"$copy.$$\" \"$copy\"\n\
             fi\n\
             cd {}\n\
             exec {} \"$@\"\n",
            quoted(self.programs_dir.as_os_str()),
            quoted(self.room.path.as_os_str()),
            words.collect::<Vec<_>>().join(" ")
        );
        let path = self.programs_dir.join("run-as-test-user");
        fs::write(&path, script)?;
        set_mode(&path, 0o755)?;
        Ok(path)
    }

    /// Returns a command with only the user's environment.
    fn command(&self, program: &Path) -> Command {
        let Account { uid, gid } = self.account;
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={uid}"))
            .arg(format!("--regid={gid}"))
            .args(["--clear-groups", "--inh-caps=-all", "--", "env", "-i"])
            .current_dir(&self.room.path);
        for (name, value) in &self.environment {
            let mut assignment = name.clone();
            assignment.push("=");
            assignment.push(value);
            command.arg(assignment);
        }
        command.arg(program);
        command
    }

    fn environment(&self, variables: &[(&'static str, OsString)]) -> Vec<(OsString, OsString)> {
        let programs = self.programs();
        let home = self.room.path.join("home");
        let inherited = crate::workspace::variable("PATH").unwrap_or_default();
        let mut all: Vec<(&str, OsString)> = vec![
            ("USER", ACCOUNT.into()),
            ("LOGNAME", ACCOUNT.into()),
            ("HOME", home.clone().into()),
            ("XDG_CONFIG_HOME", home.join(".config").into()),
            ("XDG_CACHE_HOME", home.join(".cache").into()),
            ("XDG_STATE_HOME", home.join(".local/state").into()),
            ("XDG_DATA_HOME", home.join(".local/share").into()),
            ("XDG_RUNTIME_DIR", self.room.temporary().into()),
            ("TMPDIR", self.room.temporary().into()),
            ("PATH", search_path(&inherited)),
            ("LANG", "C.UTF-8".into()),
            ("PROVOST_TEST_USER", "unprivileged".into()),
            ("PROVOST_TEST_ROOT", self.room.path.clone().into()),
            ("PROVOST_BIN", programs.provost.into()),
            ("PROVOST_SCRIPTED_AGENT", programs.scripted_agent.into()),
        ];
        all.extend(self.codex.iter().map(|(name, path)| (*name, path.clone().into())));
        all.extend(variables.iter().cloned());
        all.into_iter().map(|(name, value)| (name.into(), value)).collect()
    }

    /// Fails early if the user cannot run the programs.
    fn check(&self) -> Result<()> {
        let ran = output(self.command(&self.programs().provost).arg("--version"))?;
        ensure!(
            ran.status.success(),
            "the user {ACCOUNT} cannot run {}: {}\nset TMPDIR to a directory that every user can enter",
            self.programs_dir.join("provost").display(),
            String::from_utf8_lossy(&ran.stderr).trim_end()
        );
        Ok(())
    }
}

/// Returns the account, and creates it first if necessary.
fn provide_account(workspace: &Workspace) -> Result<Account> {
    let find = || -> Result<Option<Account>> {
        let passwd = fs::read_to_string(PASSWD).with_context(|| format!("cannot read {PASSWD}"))?;
        Ok(account_in(&passwd, ACCOUNT))
    };
    if let Some(account) = find()? {
        return Ok(account);
    }
    let mut useradd = workspace.command("useradd");
    useradd.args(["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]);
    useradd.args(["--shell", "/usr/sbin/nologin", "--comment", "tests of Provost", ACCOUNT]);
    step(&format!("add the user {ACCOUNT}"), &mut useradd)?;
    find()?.with_context(|| format!("useradd succeeded, but {PASSWD} lacks {ACCOUNT}"))
}

/// Finds an account in the text of `/etc/passwd`. Root is never a test user.
fn account_in(passwd: &str, name: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        (found && uid != 0 && gid != 0).then_some(Account { uid, gid })
    })
}

/// Returns the directories of a search path that every user can enter, followed by the system's.
fn search_path(inherited: &OsStr) -> OsString {
    let mut dirs: Vec<PathBuf> =
        env::split_paths(inherited).filter(|dir| is_open_to_all(dir)).collect();
    let missing: Vec<PathBuf> =
        SYSTEM_PATH.iter().map(PathBuf::from).filter(|dir| !dirs.contains(dir)).collect();
    dirs.extend(missing);
    env::join_paths(dirs).unwrap_or_else(|_| SYSTEM_PATH.join(":").into())
}

/// Whether every user can read and run a file, or read and enter a directory.
fn is_open_to_all(path: &Path) -> bool {
    let mode = |path: &Path| fs::metadata(path).map(|metadata| metadata.mode()).unwrap_or_default();
    let Ok(path) = path.canonicalize() else { return false };
    mode(&path) & 0o005 == 0o005
        && path.ancestors().skip(1).all(|parent| mode(parent) & 0o001 == 0o001)
}

/// Returns a Codex that every user can run: this one, or a copy with the files next to it.
fn readable_codex(program: &Path, copy: &Path) -> Result<PathBuf> {
    if is_open_to_all(program) {
        return Ok(program.to_owned());
    }
    // `TRIPLE/bin/codex` finds its helpers relative to `TRIPLE`.
    let root = program.ancestors().nth(2).context("Codex is not in a directory of its own")?;
    copy_tree(root, copy)?;
    Ok(copy.join(program.strip_prefix(root)?))
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    set_mode(to, 0o755)?;
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if fs::metadata(entry.path())?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            link_or_copy(&entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Links or copies a file to a path that every user can reach. A link costs nothing, but needs the same file system
/// and a suitable mode.
fn link_or_copy(from: &Path, to: &Path) -> Result<()> {
    let from = &from.canonicalize().with_context(|| format!("cannot find {}", from.display()))?;
    let mode = fs::metadata(from)?.permissions().mode();
    let suits = mode & 0o022 == 0 && mode & 0o004 != 0;
    if suits && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    set_mode(to, if mode & 0o100 == 0 { 0o644 } else { 0o755 })
}

/// Quotes a word so that the shell takes it literally.
fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\n\
            provost-tests:x:7:8::/:/bin/sh\n\
            provost-test:x:998:997:tests:/nonexistent:/usr/sbin/nologin\n";
        let account = account_in(passwd, "provost-test");
        assert_eq!(account, Some(Account { uid: 998, gid: 997 }));
        assert_eq!(account_in(passwd, "provost"), None);
        assert_eq!(account_in(passwd, "root"), None);
        assert_eq!(account_in("provost-test:x:0:0::/:/bin/sh", "provost-test"), None);
    }

    #[test]
    fn closed_directory_is_left_out_of_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let closed = dir.path().join("closed");
        fs::create_dir_all(closed.join("bin")).unwrap();
        set_mode(&closed, 0o700).unwrap();
        let path = env::join_paths(["/usr/bin".into(), closed.join("bin")]).unwrap();
        assert_eq!(search_path(&path), "/usr/bin:/usr/local/bin:/bin");
    }

    #[test]
    fn closed_codex_is_copied_with_its_helpers() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("closed/triple");
        for file in ["bin/codex", "path/rg"] {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "x").unwrap();
            set_mode(&file, 0o700).unwrap();
        }
        let copy = dir.path().join("copy");
        assert_eq!(readable_codex(&root.join("bin/codex"), &copy).unwrap(), copy.join("bin/codex"));
        let mode = |file: &str| fs::metadata(copy.join(file)).unwrap().mode() & 0o777;
        assert_eq!((mode("bin/codex"), mode("path/rg"), mode("path")), (0o755, 0o755, 0o755));
    }

    #[test]
    fn quoted_word_is_literal() {
        assert_eq!(quoted(OsStr::new("a'b $c")), r"'a'\''b $c'");
    }
}
