//! The Codex home of one session. It keeps the user's own home unchanged, because Codex writes
//! trust levels, rules, skills and much more to its home.
//!
//! # Carried files
//!
//! | in the user's home | in the session's home | reason |
//! |---|---|---|
//! | `config.toml` | rewritten from it, see [`config`] | Codex writes to it |
//! | `auth.json`, `auth.lock` | links | a refreshed token must reach every session and the user |
//! | `.env` | a link | it contains the keys of model providers, and Codex only reads it |
//! | `rules/`, `agents/`, `prompts/` | copies, the same at every launch | Codex writes to `rules` |
//! | `AGENTS.md`, `AGENTS.override.md` | copies | Codex can edit them |
//! | `skills/` and extra roots | one link per skill, see [`crate::skills`] | Codex adds its own skills |
//!
//! Everything else stays in the user's home. Items that the user may miss are listed as skipped,
//! with the reason: plugins (each home would download its own), `hooks.json` (trust in hooks
//! depends on their path), logins of MCP servers (Codex does not open that file through a link),
//! and credentials in a keyring (their key is derived from the home's path).
//!
//! # Authentication
//!
//! Codex writes `auth.json` in place and follows the link (0.107, 0.166). `auth.lock` is linked
//! too, so all sessions and the user share one lock (in 0.166; older versions do not lock). Codex
//! holds that lock while it writes, but not while it requests a token. If two processes refresh the
//! token at once, in the same home or in two homes, one of them is refused and uses the token that
//! the other stored.
//!
//! # Lifecycle
//!
//! [`prepare`] is called before each launch. Every file is put in place by a rename, and every call
//! produces the same state, so a call can be interrupted at any point and repeated. It overwrites
//! changes that Codex made to carried files (trust, rules) and does not touch anything else
//! (rollouts, databases). [`clean`] is called when the session is evicted.

mod account;
mod clean;
pub mod config;
mod files;
mod login;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::skills::{self, RootKind, Skill, SkillRoot};

pub use account::account;
pub use clean::{RemovedItem, clean};
pub use config::{RepositoryTrust, trusts};
pub use login::{Login, MissingLogin, login};
pub use variables::{KEYS, named_variables};

/// Variables that would make Codex use another home. They are removed at every launch.
pub const SCRUBBED_VARIABLES: [&str; 1] = ["CODEX_SQLITE_HOME"];

/// The file that marks a directory as a session's home. A directory that contains files but no mark
/// is never written to or emptied.
pub const MARK: &str = "PROVOST";

const MARK_TEXT: &str = "The Codex home of one session of Provost.\n";

/// Describes the home of one session.
#[derive(Debug, Clone)]
pub struct SessionHome {
    /// The home to create. It should not be below the directory for temporary files, where Codex
    /// does not create its helpers.
    pub dir: PathBuf,
    /// The user's Codex home, if the session uses it.
    pub codex_home: Option<PathBuf>,
    /// The user's home directory.
    pub user_home: PathBuf,
    /// The working directory of the session.
    pub worktree: PathBuf,
    /// The root of the checkout.
    pub root: PathBuf,
    pub trust: RepositoryTrust,
    /// Directories that contain more skills, in order of precedence.
    pub skill_roots: Vec<PathBuf>,
    /// The MCP server that provides the supervisor's tools, if the agent receives them through MCP.
    pub tools: Option<ToolServer>,
    /// Settings that override all others.
    pub settings: toml::Table,
}

/// An MCP server that Codex starts for the session.
#[derive(Debug, Clone)]
pub struct ToolServer {
    /// The name of the server. It overrides a server of the same name in the user's configuration.
    pub name: String,
    pub command: PathBuf,
    pub arguments: Vec<String>,
    /// The variables that Codex passes to the server.
    pub variables: Vec<String>,
    /// Instructions about the server, which are appended to the user's developer instructions.
    pub instructions: String,
}

/// A prepared home, and its content.
#[derive(Debug, Clone)]
pub struct PreparedHome {
    pub dir: PathBuf,
    pub carried: Vec<CarriedItem>,
    pub skipped: Vec<SkippedItem>,
    /// All skills of the session, both used and skipped ones.
    pub skills: Vec<Skill>,
}

/// An item from the user's home that was carried over to the session's home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedItem {
    pub name: String,
    pub how: CarryMethod,
}

/// The method by which an item was carried over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarryMethod {
    Copied,
    Linked,
    /// Rewritten from the user's file.
    Merged,
}

/// An item from the user's home that is not in the session's home, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedItem {
    pub name: String,
    pub why: String,
}

/// The reason why a session's home could not be prepared or cleaned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use {} as a session's home: it overlaps the user's Codex home", .dir.display())]
    Overlap { dir: PathBuf },
    #[error("cannot use {} as a session's home: it contains files, but not the marker file {MARK}", .dir.display())]
    NotOurs { dir: PathBuf },
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error("cannot use {}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot copy {}: {why}", .path.display())]
    NotCopyable { path: PathBuf, why: String },
}

/// Creates the session's home, or brings it up to date.
pub fn prepare(session: &SessionHome) -> Result<PreparedHome, Error> {
    check_no_overlap(session)?;
    files::make_private_tree(&session.dir)?;
    files::remove_unfinished(&session.dir)?;
    mark(&session.dir)?;
    let mut prepared = PreparedHome {
        dir: session.dir.clone(),
        carried: Vec::new(),
        skipped: Vec::new(),
        skills: skills::list(&skill_roots(session)),
    };
    let auth = prepared.link_secrets(session)?;
    prepared.write_config(session, auth)?;
    prepared.copy_instructions(session)?;
    prepared.copy_directories(session)?;
    prepared.record_left_out(session);
    link_skills(&session.dir.join("skills"), &prepared.skills)?;
    Ok(prepared)
}

impl PreparedHome {
    /// Returns the variables that a launch must set.
    pub fn environment(&self) -> [(&'static str, &Path); 1] {
        [("CODEX_HOME", &self.dir)]
    }

    fn link_secrets(&mut self, session: &SessionHome) -> Result<AuthStore, Error> {
        let is_logged_in = self.link(session, "auth.json")?;
        if is_logged_in {
            // The lock file does not have to exist, because Codex creates it at the link's target.
            let lock = session.codex_home.as_ref().map(|home| home.join("auth.lock"));
            // Codex may have created its own lock file here before the user logged in.
            files::link_over(&session.dir.join("auth.lock"), lock.as_deref())?;
            self.record_carried("auth.lock", CarryMethod::Linked);
        } else {
            files::link(&session.dir.join("auth.lock"), None)?;
        }
        self.link(session, ".env")?;
        Ok(if is_logged_in { AuthStore::File } else { AuthStore::None })
    }

    /// Links to a file in the user's home, if it exists.
    fn link(&mut self, session: &SessionHome, name: &str) -> Result<bool, Error> {
        let at = session.dir.join(name);
        let target = session.codex_home.as_ref().map(|home| home.join(name));
        let target = target.filter(|target| target.is_file());
        let is_there = target.is_some();
        match files::link(&at, target.as_deref())? {
            files::LinkResult::Done if is_there => self.record_carried(name, CarryMethod::Linked),
            files::LinkResult::Done => {}
            files::LinkResult::Occupied if !is_there => {}
            files::LinkResult::Occupied => {
                self.record_skipped(name, "the session's home already has its own file");
            }
        }
        Ok(is_there)
    }

    fn write_config(&mut self, session: &SessionHome, auth: AuthStore) -> Result<(), Error> {
        let user = session.codex_home.as_ref().map(|home| home.join("config.toml"));
        let text = user.as_deref().map(files::read_text).transpose()?.flatten();
        let source = user.zip(text).map(|(path, text)| config::UserConfig { path, text });
        let made = config::build_config(&config::ConfigRequest {
            user: source.as_ref(),
            worktree: &session.worktree,
            root: &session.root,
            trust: session.trust,
            auth_is_a_file: auth == AuthStore::File,
            tools: session.tools.as_ref(),
            settings: &session.settings,
        })?;
        files::write(&session.dir.join("config.toml"), made.text.as_bytes())?;
        if source.is_some() {
            self.record_carried("config.toml", CarryMethod::Merged);
        }
        for (key, why) in made.changed {
            self.record_skipped(&format!("config.toml: {key}"), why);
        }
        if made.keeps_auth_elsewhere && auth == AuthStore::None {
            self.record_skipped("credentials", "the credentials are in a keyring that only the user's own home can use: log in with `cli_auth_credentials_store = \"file\"`");
        }
        Ok(())
    }

    fn copy_instructions(&mut self, session: &SessionHome) -> Result<(), Error> {
        for name in ["AGENTS.md", "AGENTS.override.md"] {
            let from = session.codex_home.as_ref().map(|home| home.join(name));
            let bytes = from.as_deref().map(files::read).transpose()?.flatten();
            match bytes {
                Some(bytes) => {
                    files::write(&session.dir.join(name), &bytes)?;
                    self.record_carried(name, CarryMethod::Copied);
                }
                None => files::remove(&session.dir.join(name))?,
            }
        }
        Ok(())
    }

    fn copy_directories(&mut self, session: &SessionHome) -> Result<(), Error> {
        for name in ["rules", "agents", "prompts"] {
            let from = session.codex_home.as_ref().map(|home| home.join(name));
            if files::mirror(from.as_deref(), &session.dir.join(name))? {
                self.record_carried(name, CarryMethod::Copied);
            }
        }
        Ok(())
    }

    fn record_left_out(&mut self, session: &SessionHome) {
        let Some(home) = &session.codex_home else { return };
        for (name, why) in LEFT_OUT {
            if home.join(name).exists() {
                self.record_skipped(name, why);
            }
        }
    }

    fn record_carried(&mut self, name: &str, how: CarryMethod) {
        self.carried.push(CarriedItem { name: name.to_owned(), how });
    }

    fn record_skipped(&mut self, name: &str, why: &str) {
        self.skipped.push(SkippedItem { name: name.to_owned(), why: why.to_owned() });
    }
}

/// Items that a user may miss in a session, each with the reason why it is not carried over.
const LEFT_OUT: [(&str, &str); 3] = [
    ("plugins", "each home would download its own plugins"),
    ("hooks.json", "trust in hooks depends on the path of their file"),
    (".credentials.json", "Codex does not open the logins of MCP servers through a link"),
];

/// The place where the user's credentials are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AuthStore {
    File,
    None,
}

/// Writes the mark, or checks that it exists. Fails without changes if the directory contains files
/// but no mark.
fn mark(dir: &Path) -> Result<(), Error> {
    let names = files::names(dir)?;
    if names.is_empty() {
        // Files that Codex leaves here may survive a power loss, and without the mark they would
        // never be removed.
        return files::write_durably(&dir.join(MARK), MARK_TEXT.as_bytes());
    }
    check_mark(dir, &names)
}

fn check_mark(dir: &Path, names: &BTreeSet<OsString>) -> Result<(), Error> {
    let is_marked = names.contains(OsStr::new(MARK));
    if is_marked { Ok(()) } else { Err(Error::NotOurs { dir: dir.to_owned() }) }
}

fn check_no_overlap(session: &SessionHome) -> Result<(), Error> {
    let Some(Ok(users)) = session.codex_home.as_ref().map(fs::canonicalize) else { return Ok(()) };
    let dir = resolve_links(&session.dir);
    if dir.starts_with(&users) || users.starts_with(&dir) {
        return Err(Error::Overlap { dir });
    }
    Ok(())
}

/// Resolves the symbolic links in the existing part of a path.
fn resolve_links(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    let Some((above, real)) = known else { return path };
    path.strip_prefix(above).map_or_else(|_| path.clone(), |rest| real.join(rest))
}

/// Returns all skill roots, in order of precedence.
pub fn skill_roots(session: &SessionHome) -> Vec<SkillRoot> {
    let mut roots = skills::native_roots(&session.user_home, &session.worktree);
    roots.extend(session.codex_home.as_deref().map(skills::codex_home_root));
    let extra = session.skill_roots.iter().cloned();
    roots.extend(extra.map(|path| SkillRoot { path, kind: RootKind::Extra }));
    roots
}

/// Creates the links to skills and removes outdated ones. Directories are kept, because they belong
/// to Codex or to the agent.
fn link_skills(directory: &Path, skills: &[Skill]) -> Result<(), Error> {
    files::make_private(directory)?;
    let present = files::names(directory)?;
    let is_link = |name: &OsString| directory.join(name).is_symlink();
    let (links, taken): (BTreeSet<OsString>, BTreeSet<OsString>) =
        present.into_iter().partition(is_link);
    let wanted = link_names(skills, &taken);
    for stale in links.iter().filter(|name| !wanted.contains_key(*name)) {
        files::remove(&directory.join(stale))?;
    }
    for (name, target) in &wanted {
        files::link(&directory.join(name), Some(target))?;
    }
    Ok(())
}

/// Chooses a name for each link: the name of the skill's directory, with a number appended if the
/// name is taken.
fn link_names<'a>(skills: &'a [Skill], taken: &BTreeSet<OsString>) -> BTreeMap<OsString, &'a Path> {
    let mut names = BTreeMap::new();
    for skill in skills.iter().filter(|skill| skill.is_linked()) {
        let base = skill.path.file_name().unwrap_or(OsStr::new("skill")).to_owned();
        let numbered = (2..).map(|number| {
            let mut name = base.clone();
            name.push(format!("-{number}"));
            name
        });
        let free = |name: &OsString| !taken.contains(name) && !names.contains_key(name);
        let name = std::iter::once(base.clone()).chain(numbered).find(free);
        names.insert(name.unwrap_or(base), skill.path.as_path());
    }
    names
}
