//! The skills of a Codex session. Every skill is listed, either as used or as skipped.
//!
//! Codex looks for `SKILL.md` files below `skills` in its home, below `.agents/skills` in the
//! user's home, and below `.agents/skills` and `.codex/skills` in the working directory and each
//! directory above it up to the repository's root. It follows links to directories but not a link
//! to a `SKILL.md`, skips hidden directories, and searches [`MAX_DEPTH`] levels (in 0.107 and
//! 0.166). Codex finds skills in the repository and in the user's home on its own. The skills of
//! the user's Codex home and of extra roots are linked into the session's home as whole
//! directories.
//!
//! If several skills have the same name, the first one is used, in this order: those of the
//! repository, of the user, of the user's Codex home, and of the extra roots. Codex itself shows
//! all skills of the first two groups.

mod agent_view;
mod front_matter;
mod walk;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub use agent_view::{AgentView, confirm};

use walk::{EntryKind, SkillEntry};

/// The number of levels below a root that Codex searches.
pub const MAX_DEPTH: usize = 6;

/// The maximum number of directories to search in one root, as in Codex.
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
    /// A root that Codex searches on its own.
    Native,
    /// `skills` in the user's Codex home.
    CodexHome,
    /// A root from `skills.roots`.
    Extra,
}

/// A skill, or something that looks like one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name that the skill declares, or the name of its directory.
    pub name: String,
    pub description: String,
    /// The directory of the skill, with all symbolic links resolved.
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

/// The method by which a skill reaches the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Codex finds the skill on its own.
    Native,
    /// The skill is linked into the session's home.
    Linked,
    /// The skill is inside another skill and is delivered with that skill.
    Within(PathBuf),
}

/// The reason why a skill does not reach the agent.
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

/// Returns the roots that Codex itself searches when it works in this directory.
pub fn native_roots(home: &Path, directory: &Path) -> Vec<SkillRoot> {
    let repository = directory.ancestors().find(|above| above.join(".git").exists());
    native_roots_within(home, directory, repository)
}

/// Returns the roots that Codex itself searches when it works in this directory of this repository.
pub fn native_roots_within(
    home: &Path,
    directory: &Path,
    repository: Option<&Path>,
) -> Vec<SkillRoot> {
    // Outside of a repository, Codex searches only the directory itself.
    let top = repository.unwrap_or(directory);
    let searched = directory.ancestors().take_while(|above| above.starts_with(top));
    let places = |above: &Path| [above.join(".agents/skills"), above.join(".codex/skills")];
    let mut within: Vec<PathBuf> = searched.flat_map(places).collect();
    within.push(home.join(".agents/skills"));
    within.into_iter().map(|path| SkillRoot { path, kind: RootKind::Native }).collect()
}

/// Returns the root in the user's Codex home.
pub fn codex_home_root(codex_home: &Path) -> SkillRoot {
    SkillRoot { path: codex_home.join("skills"), kind: RootKind::CodexHome }
}

/// Lists all skills in these roots, each with its status. If several skills have the same name, the
/// one in the first root is used.
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
    /// The skill that is used for each name.
    by_name: BTreeMap<String, PathBuf>,
    /// All skills that have their own status, by directory.
    by_path: BTreeMap<PathBuf, PathBuf>,
}

impl SkillListing {
    fn add(&mut self, root: &SkillRoot, sighting: SkillEntry) {
        let fallback = name_of(&sighting.path);
        let (name, description, status) = match sighting.spot {
            EntryKind::Fault(reason) => (fallback, String::new(), SkillStatus::Skipped(reason)),
            EntryKind::Skill => match front_matter::read(&sighting.path) {
                Err(reason) => (fallback, String::new(), SkillStatus::Skipped(reason)),
                Ok(front) => {
                    let name = front.name.unwrap_or(fallback);
                    let status = self.decide_status(root, &name, &sighting.path);
                    (name, front.description, status)
                }
            },
        };
        self.skills.push(Skill {
            name,
            description,
            path: sighting.path,
            root: root.clone(),
            status,
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

    /// Returns the linked skill that contains this one, if any. Codex finds the inner skill there.
    fn containing_link(&self, path: &Path) -> Option<PathBuf> {
        let linked =
            self.skills.iter().filter(|skill| skill.status == SkillStatus::Used(Delivery::Linked));
        let mut containing =
            linked.filter(|skill| skill.path != path && path.starts_with(&skill.path));
        containing.next().map(|skill| skill.path.clone())
    }
}

impl Skill {
    /// Whether the skill must be linked into the session's home.
    pub fn is_linked(&self) -> bool {
        self.status == SkillStatus::Used(Delivery::Linked)
    }

    /// Whether the agent receives the skill.
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
            Self::NotADirectory => f.write_str("the path is not a directory"),
            Self::NoSkillFile => write!(f, "the directory has no {SKILL_FILE} at any level"),
            Self::Hidden => f.write_str("the directory of the skill is hidden"),
            Self::LinkedFile => write!(f, "{SKILL_FILE} is a link, which Codex ignores"),
            Self::TooDeep => write!(f, "the skill is more than {MAX_DEPTH} levels below its root"),
            Self::TooManyDirectories => {
                write!(
                    f,
                    "there are more than {MAX_DIRECTORIES} directories; the rest was not searched"
                )
            }
            Self::Unreadable { why } => write!(f, "the skill cannot be read: {why}"),
            Self::BrokenFrontMatter { why } => write!(f, "the front matter is invalid: {why}"),
            Self::NameClash { with } => write!(f, "{} has the same name", with.display()),
            Self::AlreadyListed { at } => write!(f, "the same skill was found in {}", at.display()),
            Self::DisabledInConfig => f.write_str("the configuration turns the skill off"),
            Self::RefusedByAgent { why } => write!(f, "Codex rejected the skill: {why}"),
            Self::NotSeenByAgent => f.write_str("Codex did not list the skill"),
        }
    }
}
