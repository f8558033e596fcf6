//! The contents of git: the work in each tree, the ancestry of trees, and the branches of runs.
//!
//! Each tree has one commit here. The same merge always yields the same tree.

use std::collections::{BTreeMap, BTreeSet};

use crate::rng::Rng;

/// The trees of one repository.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimRepo {
    seed: u64,
    trees: BTreeMap<String, SimTree>,
    /// The trees at the tips of the runs' branches.
    pub(crate) branches: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
struct SimTree {
    /// The tasks whose work the tree contains.
    works: BTreeSet<String>,
    /// The trees from which this tree descends.
    ancestors: BTreeSet<String>,
}

impl SimRepo {
    pub(crate) fn new(seed: u64) -> SimRepo {
        SimRepo { seed, ..SimRepo::default() }
    }

    /// Records a tree that was derived from another tree, with the task for which the tree was made, if any.
    pub(crate) fn add_tree(&mut self, from: &str, to: &str, task: Option<&str>) {
        let mut tree = self.trees.get(from).cloned().unwrap_or_default();
        tree.ancestors.insert(from.to_owned());
        tree.works.extend(task.map(str::to_owned));
        self.trees.insert(to.to_owned(), tree);
    }

    /// Whether a tree descends from another.
    pub(crate) fn includes(&self, tree: &str, other: &str) -> bool {
        tree == other || self.trees.get(tree).is_some_and(|tree| tree.ancestors.contains(other))
    }

    /// Returns the work in a tree, if the tree is known.
    pub(crate) fn works(&self, tree: &str) -> Option<&BTreeSet<String>> {
        self.trees.get(tree).map(|tree| &tree.works)
    }

    /// Merges work onto a tip. Returns the merged tree or, as the error, a tree with conflict
    /// markers.
    pub(crate) fn merge(&mut self, tip: &str, work: &str) -> Result<String, String> {
        if self.includes(work, tip) {
            return Ok(work.to_owned());
        }
        let (ours, theirs) = (self.tree(tip), self.tree(work));
        let only = |one: &SimTree, other: &SimTree| -> Vec<String> {
            one.works.difference(&other.works).cloned().collect()
        };
        let (left, right) = (only(&ours, &theirs), only(&theirs, &ours));
        let met = |what: u64, share: u64| {
            let pairs = left.iter().flat_map(|one| right.iter().map(move |other| (one, other)));
            pairs.into_iter().any(|(one, other)| self.pair(what, one, other).percent(share))
        };
        let (conflicts, clashes) = (met(40, 14), met(41, 14));
        let good = tip.starts_with("good") && work.starts_with("good") && !clashes;
        let kind = if good && !conflicts { "good" } else { "bad" };
        let name = format!("{kind}-m{:x}", hash_words(&[tip, work]));
        let before = [tip.to_owned(), work.to_owned()].into_iter();
        let before = before.chain(ours.ancestors).chain(theirs.ancestors).collect();
        let works = ours.works.union(&theirs.works).cloned().collect();
        self.trees.insert(name.clone(), SimTree { works, ancestors: before });
        if conflicts { Err(name) } else { Ok(name) }
    }

    fn tree(&self, name: &str) -> SimTree {
        self.trees.get(name).cloned().unwrap_or_default()
    }

    fn pair(&self, what: u64, one: &str, other: &str) -> Rng {
        let (first, second) = if one < other { (one, other) } else { (other, one) };
        Rng::from_names(self.seed, &[what, hash_words(&[first, second])])
    }
}

/// Returns a number that is always the same for the same words.
pub(crate) fn hash_words(words: &[&str]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0]));
    bytes.fold(7, |sum: u64, byte| sum.wrapping_mul(1_099_511_628_211) ^ u64::from(byte))
}
