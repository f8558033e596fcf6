//! The BMAD workflows, and the statuses that prove that a workflow completed.
//!
//! `sprint-status.yaml` is checked first, then the story's file, and either is sufficient. The
//! story's file is used if the sprint status has no entry for the story. If the sprint status is
//! invalid or contradictory, however, nothing is verified.

mod story;

use provost_verify::{ProjectDir, UnverifiedReason, WorkKey, WorkflowVerifier};

use self::story::{Sprint, StoryStatus};

/// A BMAD workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BmadWorkflow {
    Create,
    Dev,
    Automate,
    Review,
    Retro,
}

/// The required form of an epic's key, for messages.
const EPIC_KEY: &str = "an epic such as 3 or epic-3, or one of its stories";

impl BmadWorkflow {
    pub const ALL: [BmadWorkflow; 5] = [
        BmadWorkflow::Create,
        BmadWorkflow::Dev,
        BmadWorkflow::Automate,
        BmadWorkflow::Review,
        BmadWorkflow::Retro,
    ];

    /// The name of the workflow's verifier.
    pub fn verifier(self) -> &'static str {
        match self {
            Self::Create => "bmad-create",
            Self::Dev => "bmad-dev",
            Self::Automate => "bmad-automate",
            Self::Review => "bmad-review",
            Self::Retro => "bmad-retro",
        }
    }

    /// Finds a workflow by the name of its verifier.
    pub fn from_verifier_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workflow| workflow.verifier() == name)
    }

    /// Returns the statuses of a story or retrospective that prove that the workflow completed.
    /// `drafted` and `ready-for-review` come from older versions of BMAD.
    pub fn accepted_statuses(self) -> &'static [&'static str] {
        match self {
            Self::Create => {
                &["drafted", "ready-for-dev", "in-progress", "review", "ready-for-review", "done"]
            }
            Self::Dev | Self::Automate => &["review", "ready-for-review", "done"],
            Self::Review => &["done"],
            Self::Retro => &["done", "completed"],
        }
    }

    fn story(self, project: &ProjectDir, key: &WorkKey) -> Result<String, UnverifiedReason> {
        let in_sprint = Sprint::read(project).and_then(|sprint| sprint.story(key));
        let first = match in_sprint.and_then(|status| self.check_status(&status)) {
            Ok(because) => return Ok(because),
            Err(reason) if reason.is_absence() || is_status(&reason) => reason,
            Err(reason) => return Err(reason),
        };
        match story::status(project, key).and_then(|status| self.check_status(&status)) {
            // If the story's file has no status, the sprint's insufficient status is the more useful reason.
            Err(reason) if reason.is_absence() && is_status(&first) => Err(first),
            other => other,
        }
    }

    /// Checks that all stories of the epic are done and that its retrospective was held.
    fn retro(self, project: &ProjectDir, key: &WorkKey) -> Result<String, UnverifiedReason> {
        let epic = epic(key)?;
        let sprint = Sprint::read(project)?;
        for story in sprint.epic(epic)? {
            Self::Review.check_status(&story)?;
        }
        self.check_status(&sprint.entry(&format!("epic-{epic}-retrospective"))?)
    }

    fn check_status(self, status: &StoryStatus) -> Result<String, UnverifiedReason> {
        let StoryStatus { path, field, written } = status;
        if self.accepted_statuses().contains(&status.normalized().as_str()) {
            return Ok(format!("{field} of {path} is {written:?}"));
        }
        Err(UnverifiedReason::Differs {
            path: path.clone(),
            field: field.clone(),
            expected: self.accepted_statuses().join(" or "),
            found: written.clone(),
        })
    }
}

impl WorkflowVerifier for BmadWorkflow {
    fn check_key(&self, key: &WorkKey) -> Result<(), UnverifiedReason> {
        match self {
            Self::Retro => epic(key).map(drop),
            Self::Create | Self::Dev | Self::Automate | Self::Review => {
                story::numbers(key).map(drop)
            }
        }
    }

    fn check(&self, project: &ProjectDir, key: &WorkKey) -> Result<String, UnverifiedReason> {
        match self {
            Self::Retro => self.retro(project, key),
            Self::Create => {
                // A status without a story file does not prove that the story exists.
                story::check_exists(project, key)?;
                self.story(project, key)
            }
            Self::Dev | Self::Automate | Self::Review => self.story(project, key),
        }
    }
}

fn epic(key: &WorkKey) -> Result<&str, UnverifiedReason> {
    key.epic()
        .ok_or_else(|| UnverifiedReason::Key { key: key.as_str().to_owned(), expected: EPIC_KEY })
}

/// Whether a status was found, but is not one of the accepted ones.
fn is_status(reason: &UnverifiedReason) -> bool {
    matches!(reason, UnverifiedReason::Differs { .. })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    const SPRINT: &str = "_bmad-output/implementation-artifacts/sprint-status.yaml";
    const STORY: &str = "_bmad-output/implementation-artifacts/1-2-login.md";

    fn check(
        workflow: BmadWorkflow,
        key: &str,
        files: &[(&str, &str)],
    ) -> Result<String, &'static str> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let project = ProjectDir::open(dir.path()).unwrap();
        workflow.check(&project, &WorkKey::parse(key).unwrap()).map_err(|reason| reason.as_str())
    }

    fn sprint(entries: &str) -> String {
        format!("project: x\ndevelopment_status:\n  epic-1: in-progress\n{entries}")
    }

    fn story(status: &str) -> String {
        format!("# Story 1.2: Login\n\nStatus: {status}\n\n## Dev Notes\n\nStatus: other\n")
    }

    #[test]
    fn workflows_accept_their_statuses() {
        let statuses =
            ["backlog", "drafted", "ready-for-dev", "in-progress", "review", "done", "deferred"];
        let table = [
            (BmadWorkflow::Create, [false, true, true, true, true, true, false]),
            (BmadWorkflow::Dev, [false, false, false, false, true, true, false]),
            (BmadWorkflow::Automate, [false, false, false, false, true, true, false]),
            (BmadWorkflow::Review, [false, false, false, false, false, true, false]),
        ];
        for (workflow, counts) in table {
            for (status, counts) in statuses.into_iter().zip(counts) {
                let in_sprint = sprint(&format!("  1-2-login: {status} # so\n"));
                let by_sprint = [(SPRINT, in_sprint.as_str()), (STORY, "# Story")];
                assert_eq!(
                    check(workflow, "1-2", &by_sprint).is_ok(),
                    counts,
                    "{workflow:?} {status}"
                );
                let of_itself = story(status);
                let by_file = [(STORY, of_itself.as_str())];
                assert_eq!(
                    check(workflow, "1-2", &by_file).is_ok(),
                    counts,
                    "{workflow:?} {status}"
                );
            }
        }
    }

    #[test]
    fn key_forms_match_only_their_story() {
        let text = sprint("  1-2-login: done\n  1-20-logout: review\n  2-1-x: done\n");
        let files = [(SPRINT, text.as_str())];
        for key in ["1-2", "1.2", "1-2-login"] {
            assert!(check(BmadWorkflow::Review, key, &files).is_ok(), "{key}");
        }
        for key in ["1-20", "1.20"] {
            assert_eq!(check(BmadWorkflow::Review, key, &files), Err("differs"), "{key}");
        }
        for key in ["1-2-log", "1-2-login-x", "1-1", "12-1"] {
            assert_eq!(check(BmadWorkflow::Review, key, &files), Err("no_file"), "{key}");
        }
        assert_eq!(check(BmadWorkflow::Review, "login", &files), Err("key"));
    }

    #[test]
    fn story_status_is_fallback_for_sprint() {
        let (done, behind) = (story("Done"), sprint("  1-2-login: review\n"));
        let other = sprint("  1-3-x: done\n");
        for files in [
            &[(STORY, done.as_str())][..],
            &[(STORY, &done), (SPRINT, &behind)],
            &[(STORY, &done), (SPRINT, &other)],
            &[(STORY, "---\nstatus: done\n---\n# Story")],
            &[("docs/stories/1-2-login.md", &done)],
        ] {
            assert!(check(BmadWorkflow::Review, "1-2", files).is_ok(), "{files:?}");
        }
    }

    #[test]
    fn broken_or_ambiguous_status_is_unverified() {
        let (done, good) = (story("done"), sprint("  1-2-login: done\n"));
        let twice = sprint("  1-2-login: done\n  1-2-signin: review\n");
        let again = sprint("  1-2-login: review\n  1-2-login: done\n");
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("no_file", &[]),
            ("malformed", &[(SPRINT, "development_status: ["), (STORY, &done)]),
            ("malformed", &[(SPRINT, &again), (STORY, &done)]),
            ("malformed", &[(SPRINT, "development_status: done"), (STORY, &done)]),
            ("several_fields", &[(SPRINT, &twice), (STORY, &done)]),
            ("not_a_text", &[(SPRINT, "development_status: {1-2-login: [done]}"), (STORY, &done)]),
            ("several_files", &[(STORY, &done), ("docs/stories/1-2-signin.md", &done)]),
            ("several_fields", &[(STORY, "Status: done\nStatus: review\n")]),
            ("several_fields", &[(STORY, "---\nstatus: review\n---\nStatus: done\n")]),
            ("no_field", &[(STORY, "# Story\n\n## Notes\nStatus: done\n")]),
            ("no_field", &[(STORY, "```\nall done\n```\n")]),
            ("malformed", &[(STORY, "---\nStatus: done\n")]),
            ("not_a_file", &[("_bmad-output/implementation-artifacts/1-2-login.md/x", "")]),
            ("malformed", &[(STORY, " \n")]),
            ("several_fields", &[(STORY, "\u{feff}---\nstatus: review\n---\nStatus: done\n")]),
        ];
        for (word, files) in cases {
            assert_eq!(check(BmadWorkflow::Review, "1-2", files), Err(*word), "{files:?}");
        }
        assert!(check(BmadWorkflow::Review, "1-2", &[(SPRINT, &good)]).is_ok());
        assert_eq!(check(BmadWorkflow::Create, "1-2", &[(SPRINT, &good)]), Err("no_file"));
    }

    #[test]
    fn created_story_needs_readable_file() {
        let create = |make: &dyn Fn(&Path)| {
            let dir = tempfile::tempdir().unwrap();
            let (text, story) = (sprint("  1-2-login: ready-for-dev\n"), dir.path().join(STORY));
            fs::create_dir_all(story.parent().unwrap()).unwrap();
            fs::write(dir.path().join(SPRINT), text).unwrap();
            make(&story);
            let project = ProjectDir::open(dir.path()).unwrap();
            let key = WorkKey::parse("1-2").unwrap();
            BmadWorkflow::Create.check(&project, &key).map_err(|reason| reason.as_str())
        };
        let outside = tempfile::NamedTempFile::new().unwrap();
        fs::write(outside.path(), "# Story\n").unwrap();
        let write = |text: &'static str| move |story: &Path| fs::write(story, text).unwrap();
        assert!(create(&write("# Story\n")).is_ok());
        assert!(create(&write("---\nepic: 1\n---\n# Story\n")).is_ok());
        assert_eq!(create(&|story| symlink("gone.md", story).unwrap()), Err("unreadable"));
        assert_eq!(create(&|story| fs::create_dir(story).unwrap()), Err("not_a_file"));
        let out = create(&|story| symlink(outside.path(), story).unwrap());
        assert_eq!(out, Err("outside_of_project"));
        let (mode, fifo) = (Mode::RUSR | Mode::WUSR, FileType::Fifo);
        let pipe = create(&|story| mknodat(CWD, story, fifo, mode, 0).unwrap());
        assert_eq!(pipe, Err("not_a_file"));
        for text in ["", "\n", "---\nstatus: done\n", "---\na: [\n---\n", "\u{feff}---\na: 1\n"] {
            assert_eq!(create(&write(text)), Err("malformed"), "{text:?}");
        }
        assert_eq!(create(&write("---\nstatus: [done]\n---\n")), Err("not_a_text"));
    }

    #[test]
    fn status_in_code_or_comment_is_ignored() {
        for text in [
            "# Story\n\n```\nStatus: done\n```\n",
            "```yaml\n~~~\n``\nStatus: done\n",
            "~~~~\n~~~\nStatus: done\n~~~~\n",
            "<!--\nStatus: done\n-->\n",
            "# Story <!-- one of:\nStatus: done -->\n",
            "<!-- a --> <!-- b\nStatus: done\n-->\n",
            "<!--\n```\n-->\n```\nStatus: done\n```\n",
        ] {
            assert_eq!(
                check(BmadWorkflow::Review, "1-2", &[(STORY, text)]),
                Err("no_field"),
                "{text}"
            );
        }
        for text in [
            "```\nStatus: review\n## x\n```\nStatus: done\n",
            "<!-- Status: review\n## x -->\n**Status:** done\n",
            "<!-->\n```a```\nStatus: done\n",
            "````\n```\n<!--\n`````\nStatus: done\n",
        ] {
            assert!(check(BmadWorkflow::Review, "1-2", &[(STORY, text)]).is_ok(), "{text}");
        }
    }

    #[test]
    fn dangling_sprint_link_is_broken() {
        let dir = tempfile::tempdir().unwrap();
        let second = dir.path().join("_bmad-output/sprint-status.yaml");
        fs::create_dir_all(dir.path().join(SPRINT).parent().unwrap()).unwrap();
        fs::write(second, sprint("  1-2-login: done\n")).unwrap();
        let check = || {
            let project = ProjectDir::open(dir.path()).unwrap();
            let checked = BmadWorkflow::Review.check(&project, &WorkKey::parse("1-2").unwrap());
            checked.map_err(|reason| reason.as_str())
        };
        assert!(check().is_ok());
        symlink("gone.yaml", dir.path().join(SPRINT)).unwrap();
        assert_eq!(check(), Err("unreadable"));
    }

    #[test]
    fn retro_needs_entry_and_done_stories() {
        let retro = |entries: &str, key: &str| {
            check(BmadWorkflow::Retro, key, &[(SPRINT, sprint(entries).as_str())])
        };
        let done = "  1-1-a: done\n  1-2-b: done\n  2-1-c: backlog\n";
        let held = format!("{done}  epic-1-retrospective: done\n");
        for key in ["1", "epic-1", "1-2", "1.1"] {
            assert!(retro(&held, key).is_ok(), "{key}");
        }
        assert_eq!(retro(&held, "2"), Err("differs"), "a story of it is not done");
        assert_eq!(retro(&held, "3"), Err("no_field"));
        assert_eq!(retro(done, "1"), Err("no_field"));
        let optional = format!("{done}  epic-1-retrospective: optional\n");
        assert_eq!(retro(&optional, "1"), Err("differs"));
        assert_eq!(retro("  epic-1-retrospective: done\n", "1"), Err("no_field"));
    }

    #[test]
    fn key_must_fit_the_workflow() {
        let fits = |workflow: BmadWorkflow, key: &str| {
            workflow.check_key(&WorkKey::parse(key).unwrap()).is_ok()
        };
        assert!(fits(BmadWorkflow::Review, "1-2") && !fits(BmadWorkflow::Review, "PAY-7"));
        assert!(fits(BmadWorkflow::Retro, "epic-3") && !fits(BmadWorkflow::Retro, "x"));
    }
}
