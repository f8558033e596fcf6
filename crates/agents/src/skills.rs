//! The skills of a Codex session: used + skipped = listed.
//!
//! Codex looks for files `SKILL.md` below `skills` in its home, below `.agents/skills` in the
//! user's home, and below `.agents/skills` and `.codex/skills` in the working directory and each
//! directory above it up to the repository's root. It follows linked directories but no linked
//! `SKILL.md`, enters no hidden directory, and searches [`MAX_DEPTH`] levels (0.107 and 0.166
//! alike). Skills in the repository and in the user's home need nothing from us. The skills of the
//! user's Codex home and of extra roots are linked into the session's home, so that each arrives
//! complete.
//!
//! Of several skills with one name the first is used: the repository's, then the user's, then those
//! of the user's Codex home, then those of the extra roots in their order. Codex itself shows every
//! skill of the first two.

mod agent_view;
mod front_matter;
mod walk;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub use agent_view::{AgentView, confirm};

use walk::{EntryKind, SkillEntry};

/// Number of levels below a root that Codex searches.
pub const MAX_DEPTH: usize = 6;

/// Maximum number of directories searched in one root, as in Codex.
pub const MAX_DIRECTORIES: usize = 2000;

/// The file that makes a directory a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// The directory of Codex's own skills, which it creates in every home.
const CODEX_OWN: &str = ".system";

/// A directory that contains skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillRoot {
    pub path: PathBuf,
    pub kind: RootKind,
}

/// The origin of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootKind {
    /// Codex searches it itself.
    Native,
    /// `skills` in the user's Codex home.
    CodexHome,
    /// Set in `skills.roots`.
    Extra,
}

/// A skill, or something that looks like one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its declared name, or that of its directory.
    pub name: String,
    pub description: String,
    /// Its directory, with all links resolved.
    pub path: PathBuf,
    pub root: SkillRoot,
    pub status: SkillStatus,
}

/// Whether a skill reaches the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillStatus {
    Used(Delivery),
    Skipped(SkipReason),
}

/// How a skill reaches the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Codex finds it itself.
    Native,
    /// By a link in the session's home.
    Linked,
    /// It is inside another skill and comes with it.
    Within(PathBuf),
}

/// Why a skill does not reach the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    NoSuchRoot,
    NotADirectory,
    NoSkillFile,
    Hidden,
    LinkedFile,
    TooDeep,
    TooManyDirectories,
    Unreadable { why: String },
    BrokenFrontMatter { why: String },
    NameClash { with: PathBuf },
    AlreadyListed { at: PathBuf },
    DisabledInConfig,
    RefusedByAgent { why: String },
    NotSeenByAgent,
}

/// Returns the roots that Codex itself searches, for work in this directory.
pub fn native_roots(home: &Path, directory: &Path) -> Vec<SkillRoot> {
    let repository = directory.ancestors().find(|above| above.join(".git").exists());
    native_roots_within(home, directory, repository)
}

/// Returns the roots that Codex itself searches, for work in this directory of this repository.
pub fn native_roots_within(
    home: &Path,
    directory: &Path,
    repository: Option<&Path>,
) -> Vec<SkillRoot> {
    // Outside a repository only the directory itself is searched.
    let top = repository.unwrap_or(directory);
    let searched = directory.ancestors().take_while(|above| above.starts_with(top));
    let places = |above: &Path| [above.join(".agents/skills"), above.join(".codex/skills")];
    let mut within: Vec<PathBuf> = searched.flat_map(places).collect();
    within.push(home.join(".agents/skills"));
    within.into_iter().map(|path| SkillRoot { path, kind: RootKind::Native }).collect()
}

/// The root in the user's Codex home.
pub fn codex_home_root(codex_home: &Path) -> SkillRoot {
    SkillRoot { path: codex_home.join("skills"), kind: RootKind::CodexHome }
}

/// Lists every skill of these roots, each with its status. The order of the roots decides which of
/// several skills with one name is used.
pub fn list(roots: &[SkillRoot]) -> Vec<Skill> {
    let mut listing = SkillListing::default();
    for root in roots {
        for sighting in walk::walk(root) {
            listing.add(root, sighting);
        }
    }
    listing.skills
}

#[derive(Default)]
struct SkillListing {
    skills: Vec<Skill>,
    /// The used skill of each name.
    by_name: BTreeMap<String, PathBuf>,
    /// Every skill with its own status, by its directory.
    by_path: BTreeMap<PathBuf, PathBuf>,
}

impl SkillListing {
    fn add(&mut self, root: &SkillRoot, sighting: SkillEntry) {
        let fallback = name_of(&sighting.path);
        let (name, description, standing) = match sighting.spot {
            EntryKind::Fault(reason) => (fallback, String::new(), SkillStatus::Skipped(reason)),
            EntryKind::Skill => match front_matter::read(&sighting.path) {
                Err(reason) => (fallback, String::new(), SkillStatus::Skipped(reason)),
                Ok(front) => {
                    let name = front.name.unwrap_or(fallback);
                    let standing = self.decide_status(root, &name, &sighting.path);
                    (name, front.description, standing)
                }
            },
        };
        self.skills.push(Skill {
            name,
            description,
            path: sighting.path,
            root: root.clone(),
            status: standing,
        });
    }

    fn decide_status(&mut self, root: &SkillRoot, name: &str, path: &Path) -> SkillStatus {
        if let Some(at) = self.by_path.get(path) {
            return SkillStatus::Skipped(SkipReason::AlreadyListed { at: at.clone() });
        }
        self.by_path.insert(path.to_owned(), root.path.clone());
        if root.kind == RootKind::Native {
            self.by_name.entry(name.to_owned()).or_insert_with(|| path.to_owned());
            return SkillStatus::Used(Delivery::Native);
        }
        if let Some(outer) = self.containing_link(path) {
            return SkillStatus::Used(Delivery::Within(outer));
        }
        match self.by_name.get(name) {
            Some(with) => SkillStatus::Skipped(SkipReason::NameClash { with: with.clone() }),
            None => {
                self.by_name.insert(name.to_owned(), path.to_owned());
                SkillStatus::Used(Delivery::Linked)
            }
        }
    }

    /// Returns the linked skill that contains this one: Codex finds it there.
    fn containing_link(&self, path: &Path) -> Option<PathBuf> {
        let linked =
            self.skills.iter().filter(|skill| skill.status == SkillStatus::Used(Delivery::Linked));
        let mut around = linked.filter(|skill| skill.path != path && path.starts_with(&skill.path));
        around.next().map(|skill| skill.path.clone())
    }
}

impl Skill {
    /// Whether it has to be linked into the session's home.
    pub fn is_linked(&self) -> bool {
        self.status == SkillStatus::Used(Delivery::Linked)
    }

    /// Whether the agent gets it.
    pub fn is_used(&self) -> bool {
        matches!(self.status, SkillStatus::Used(_))
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRoot => f.write_str("there is no such directory"),
            Self::NotADirectory => f.write_str("it is not a directory"),
            Self::NoSkillFile => write!(f, "there is no {SKILL_FILE} in it or below"),
            Self::Hidden => f.write_str("its directory is hidden"),
            Self::LinkedFile => write!(f, "its {SKILL_FILE} is a link, which Codex ignores"),
            Self::TooDeep => write!(f, "it is more than {MAX_DEPTH} levels below its root"),
            Self::TooManyDirectories => {
                write!(
                    f,
                    "there are more than {MAX_DIRECTORIES} directories; the rest was not searched"
                )
            }
            Self::Unreadable { why } => write!(f, "it cannot be read: {why}"),
            Self::BrokenFrontMatter { why } => write!(f, "its front matter is broken: {why}"),
            Self::NameClash { with } => write!(f, "{} has the same name", with.display()),
            Self::AlreadyListed { at } => write!(f, "it is the one found in {}", at.display()),
            Self::DisabledInConfig => f.write_str("it is turned off in the configuration"),
            Self::RefusedByAgent { why } => write!(f, "Codex refused it: {why}"),
            Self::NotSeenByAgent => f.write_str("Codex did not list it"),
        }
    }
}
