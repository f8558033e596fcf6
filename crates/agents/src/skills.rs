//! The skills that a session of Codex gets: used + skipped = listed.
//!
//! Codex looks for files `SKILL.md` below `skills` in its home, below
//! `.agents/skills` in the user's home, and below `.agents/skills` and
//! `.codex/skills` in the working directory and each directory above it up to
//! the repository's root. It follows linked directories but no linked
//! `SKILL.md`, enters no hidden directory and goes [`MAX_DEPTH`] levels deep
//! (0.107 and 0.166 alike). What it finds in the repository and in the user's
//! home needs nothing from us; the skills of the user's Codex home and of
//! extra roots are linked into the session's home, so that each arrives whole.
//!
//! Of several skills with one name the first is used: the repository's, then
//! the user's, then those of the user's Codex home, then those of the extra
//! roots in their order. Codex itself shows every skill of the first two.

mod agent_view;
mod front_matter;
mod walk;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub use agent_view::{AgentView, confirm};

use walk::{Sighting, Spot};

/// How many levels below a root Codex looks for skills.
pub const MAX_DEPTH: usize = 6;

/// How many directories of one root are looked into, as in Codex.
pub const MAX_DIRECTORIES: usize = 2000;

/// The file that makes a directory a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// Where Codex puts the skills that it brings along, in every home anew.
const CODEX_OWN: &str = ".system";

/// A directory that holds skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    pub path: PathBuf,
    pub kind: RootKind,
}

/// Whose a root is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootKind {
    /// Codex looks there by itself.
    Native,
    /// `skills` of the user's Codex home.
    CodexHome,
    /// Named by `skills.roots`.
    Extra,
}

/// Something that is a skill, or looks as if it was meant to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name that it gives itself; its directory's where it gives none.
    pub name: String,
    pub description: String,
    /// Its directory, with all links resolved.
    pub path: PathBuf,
    pub root: Root,
    pub standing: Standing,
}

/// Whether a skill reaches the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Used(Delivery),
    Skipped(Reason),
}

/// How a skill reaches the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Codex finds it by itself.
    Native,
    /// By a link in the session's home.
    Linked,
    /// It lies within another skill and comes with it.
    Within(PathBuf),
}

/// Why a skill does not reach the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
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

/// The roots in which Codex looks by itself, for work in this directory.
pub fn native_roots(home: &Path, directory: &Path) -> Vec<Root> {
    let repository = directory.ancestors().find(|above| above.join(".git").exists());
    // Outside of a repository only the directory itself counts.
    let top = repository.unwrap_or(directory);
    let searched = directory.ancestors().take_while(|above| above.starts_with(top));
    let places = |above: &Path| [above.join(".agents/skills"), above.join(".codex/skills")];
    let mut within: Vec<PathBuf> = searched.flat_map(places).collect();
    within.push(home.join(".agents/skills"));
    within.into_iter().map(|path| Root { path, kind: RootKind::Native }).collect()
}

/// The root in the user's Codex home.
pub fn codex_home_root(codex_home: &Path) -> Root {
    Root { path: codex_home.join("skills"), kind: RootKind::CodexHome }
}

/// Lists every skill of these roots, each with what becomes of it. The order
/// of the roots decides which of several skills with one name is used.
pub fn list(roots: &[Root]) -> Vec<Skill> {
    let mut listing = Listing::default();
    for root in roots {
        for sighting in walk::walk(root) {
            listing.add(root, sighting);
        }
    }
    listing.skills
}

#[derive(Default)]
struct Listing {
    skills: Vec<Skill>,
    /// The used skill of each name.
    by_name: BTreeMap<String, PathBuf>,
    /// Every skill that has a standing of its own, by its directory.
    by_path: BTreeMap<PathBuf, PathBuf>,
}

impl Listing {
    fn add(&mut self, root: &Root, sighting: Sighting) {
        let fallback = name_of(&sighting.path);
        let (name, description, standing) = match sighting.spot {
            Spot::Fault(reason) => (fallback, String::new(), Standing::Skipped(reason)),
            Spot::Skill => match front_matter::read(&sighting.path) {
                Err(reason) => (fallback, String::new(), Standing::Skipped(reason)),
                Ok(front) => {
                    let name = front.name.unwrap_or(fallback);
                    let standing = self.judge(root, &name, &sighting.path);
                    (name, front.description, standing)
                }
            },
        };
        self.skills.push(Skill {
            name,
            description,
            path: sighting.path,
            root: root.clone(),
            standing,
        });
    }

    fn judge(&mut self, root: &Root, name: &str, path: &Path) -> Standing {
        if let Some(at) = self.by_path.get(path) {
            return Standing::Skipped(Reason::AlreadyListed { at: at.clone() });
        }
        self.by_path.insert(path.to_owned(), root.path.clone());
        if root.kind == RootKind::Native {
            self.by_name.entry(name.to_owned()).or_insert_with(|| path.to_owned());
            return Standing::Used(Delivery::Native);
        }
        if let Some(outer) = self.linked_around(path) {
            return Standing::Used(Delivery::Within(outer));
        }
        match self.by_name.get(name) {
            Some(with) => Standing::Skipped(Reason::NameClash { with: with.clone() }),
            None => {
                self.by_name.insert(name.to_owned(), path.to_owned());
                Standing::Used(Delivery::Linked)
            }
        }
    }

    /// The linked skill within which this one lies: Codex finds it there.
    fn linked_around(&self, path: &Path) -> Option<PathBuf> {
        let linked =
            self.skills.iter().filter(|skill| skill.standing == Standing::Used(Delivery::Linked));
        let mut around = linked.filter(|skill| skill.path != path && path.starts_with(&skill.path));
        around.next().map(|skill| skill.path.clone())
    }
}

impl Skill {
    /// Whether it is to be linked into the session's home.
    pub fn is_linked(&self) -> bool {
        self.standing == Standing::Used(Delivery::Linked)
    }

    /// Whether the agent gets it.
    pub fn is_used(&self) -> bool {
        matches!(self.standing, Standing::Used(_))
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRoot => f.write_str("there is no such directory"),
            Self::NotADirectory => f.write_str("it is not a directory"),
            Self::NoSkillFile => write!(f, "there is no {SKILL_FILE} in it or below"),
            Self::Hidden => f.write_str("its directory is hidden"),
            Self::LinkedFile => write!(f, "its {SKILL_FILE} is a link, which Codex passes over"),
            Self::TooDeep => write!(f, "it lies more than {MAX_DEPTH} levels below its root"),
            Self::TooManyDirectories => {
                write!(f, "more than {MAX_DIRECTORIES} directories: the rest was not searched")
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
