//! Parses what `gh` prints about pull requests. A state that Provost does not know counts as not passed.

use provost_core::run::{
    CommentAuthors, PullRequestChecks, PullRequestState, PullRequestStatus, ReviewComment,
};
use serde::Deserialize;

/// A pull request in a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ListedPullRequest {
    pub(crate) number: u64,
    pub(crate) url: String,
    state: String,
}

impl ListedPullRequest {
    /// Whether the pull request is open or merged.
    pub(crate) fn is_open_or_merged(&self) -> bool {
        self.status() != PullRequestStatus::Closed
    }

    fn status(&self) -> PullRequestStatus {
        parse_status(&self.state)
    }
}

/// The fields that [`parse_view`] reads.
pub(crate) const VIEW_FIELDS: &str = "state,headRefOid,statusCheckRollup,reviews,comments";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PullRequestView {
    state: String,
    head_ref_oid: String,
    #[serde(default)]
    status_check_rollup: Vec<ForgeCheck>,
    #[serde(default)]
    reviews: Vec<ForgeReview>,
    #[serde(default)]
    comments: Vec<ForgeComment>,
}

/// A check run, or a commit status.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ForgeCheck {
    name: Option<String>,
    context: Option<String>,
    status: Option<String>,
    conclusion: Option<String>,
    state: Option<String>,
    details_url: Option<String>,
    target_url: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ForgeReview {
    id: String,
    #[serde(default)]
    author_association: String,
    #[serde(default)]
    author: ForgeAuthor,
    #[serde(default)]
    body: String,
    #[serde(default)]
    state: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ForgeComment {
    id: String,
    #[serde(default)]
    author_association: String,
    #[serde(default)]
    author: ForgeAuthor,
    #[serde(default)]
    body: String,
}

/// A comment on a line, as GitHub's REST API returns it.
#[derive(Debug, Deserialize)]
struct ForgeLineComment {
    id: u64,
    #[serde(default)]
    author_association: String,
    #[serde(default)]
    user: ForgeAuthor,
    #[serde(default)]
    path: String,
    line: Option<u64>,
    #[serde(default)]
    body: String,
}

#[derive(Debug, Default, Deserialize)]
struct ForgeAuthor {
    #[serde(default)]
    login: String,
}

/// Parses a list of pull requests.
pub(crate) fn parse_list(text: &str) -> Result<Vec<ListedPullRequest>, String> {
    serde_json::from_str(text).map_err(|why| format!("gh returned no list of pull requests: {why}"))
}

/// Parses the state and the review comments of a pull request. `pushed` is the commit that the
/// checks must apply to. Comments and reviews from authors without the required access are dropped,
/// but counted.
pub(crate) fn parse_view(
    text: &str,
    line_comments: &str,
    pushed: &str,
    from: CommentAuthors,
) -> Result<(PullRequestState, Vec<ReviewComment>), String> {
    let view: PullRequestView = serde_json::from_str(text)
        .map_err(|why| format!("gh returned an unreadable pull request: {why}"))?;
    // `gh` prints each page as a separate list.
    let pages =
        serde_json::Deserializer::from_str(line_comments).into_iter::<Vec<ForgeLineComment>>();
    let pages: Vec<Vec<ForgeLineComment>> = pages
        .collect::<Result<_, _>>()
        .map_err(|why| format!("gh returned no list of comments: {why}"))?;
    let current = view.head_ref_oid == pushed;
    let checks = if current {
        overall_checks(&view.status_check_rollup)
    } else {
        PullRequestChecks::Pending
    };
    let failed = view.status_check_rollup.iter().filter(|check| current && check.failed());
    let failed = failed.map(|check| check.to_review_comment(pushed));
    let reviews = view.reviews.iter().filter(|review| review.asks_for_changes());
    let reviews = reviews.map(|one| (one.author_association.as_str(), one.to_review_comment()));
    let comments =
        view.comments.iter().map(|one| (one.author_association.as_str(), one.to_review_comment()));
    let lines = pages
        .iter()
        .flatten()
        .map(|one| (one.author_association.as_str(), one.to_review_comment()));
    let (counted, left_out): (Vec<_>, Vec<_>) = reviews
        .chain(comments)
        .chain(lines)
        .partition(|(author, _)| is_counted_author(from, author));
    let left_out = u32::try_from(left_out.len()).unwrap_or(u32::MAX);
    let state = PullRequestState { status: parse_status(&view.state), checks, left_out };
    Ok((state, failed.chain(counted.into_iter().map(|(_, comment)| comment)).collect()))
}

/// Whether an author's comments are sent to the agents. Unknown and missing associations do not qualify.
fn is_counted_author(from: CommentAuthors, association: &str) -> bool {
    match from {
        CommentAuthors::Everyone => true,
        CommentAuthors::Write => matches!(association, "OWNER" | "MEMBER" | "COLLABORATOR"),
    }
}

fn parse_status(state: &str) -> PullRequestStatus {
    match state {
        "OPEN" => PullRequestStatus::Open,
        "MERGED" => PullRequestStatus::Merged,
        _ => PullRequestStatus::Closed,
    }
}

fn overall_checks(all: &[ForgeCheck]) -> PullRequestChecks {
    let any = |of: fn(&ForgeCheck) -> bool| all.iter().any(of);
    match () {
        () if all.is_empty() => PullRequestChecks::None,
        () if any(ForgeCheck::failed) => PullRequestChecks::Failed,
        () if any(ForgeCheck::is_pending) => PullRequestChecks::Pending,
        () => PullRequestChecks::Passed,
    }
}

impl ForgeCheck {
    fn is_pending(&self) -> bool {
        match (&self.state, &self.status) {
            (Some(state), _) => matches!(state.as_str(), "PENDING" | "EXPECTED"),
            (None, Some(status)) => status != "COMPLETED",
            (None, None) => true,
        }
    }

    fn failed(&self) -> bool {
        let state = self.state.as_deref().or(self.conclusion.as_deref()).unwrap_or_default();
        !self.is_pending() && !matches!(state, "SUCCESS" | "NEUTRAL" | "SKIPPED")
    }

    fn name(&self) -> &str {
        self.name.as_deref().or(self.context.as_deref()).unwrap_or("a check")
    }

    /// Converts the check into a review comment. The same check on another commit is a different comment.
    fn to_review_comment(&self, commit: &str) -> ReviewComment {
        let state = self.state.as_deref().or(self.conclusion.as_deref()).unwrap_or("no result");
        let link = self.details_url.as_deref().or(self.target_url.as_deref()).unwrap_or_default();
        let text = format!("The check \"{}\" ended with {state}. {link}", self.name());
        ReviewComment::new(format!("check/{}/{commit}", self.name()), "check", &text)
    }
}

impl ForgeReview {
    /// Whether the review requests anything. An approval without text does not.
    fn asks_for_changes(&self) -> bool {
        !self.body.trim().is_empty() || self.state == "CHANGES_REQUESTED"
    }

    fn to_review_comment(&self) -> ReviewComment {
        let text = format!("({}) {}", self.state.to_lowercase().replace('_', " "), self.body);
        ReviewComment::new(format!("review/{}", self.id), &self.author.login, &text)
    }
}

impl ForgeComment {
    fn to_review_comment(&self) -> ReviewComment {
        ReviewComment::new(format!("comment/{}", self.id), &self.author.login, &self.body)
    }
}

impl ForgeLineComment {
    fn to_review_comment(&self) -> ReviewComment {
        let line = self.line.map_or(String::new(), |line| format!(":{line}"));
        let text = format!("{}{line}: {}", self.path, self.body);
        ReviewComment::new(format!("line/{}", self.id), &self.user.login, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(checks: &str) -> (PullRequestState, Vec<ReviewComment>) {
        let text =
            format!(r#"{{"state":"OPEN","headRefOid":"c1","statusCheckRollup":[{checks}]}}"#);
        parse_view(&text, "[]", "c1", CommentAuthors::Write).unwrap()
    }

    #[test]
    fn checks_pass_only_if_all_pass() {
        let run = |conclusion: &str| {
            format!(r#"{{"name":"build","status":"COMPLETED","conclusion":"{conclusion}"}}"#)
        };
        let running = r#"{"name":"test","status":"IN_PROGRESS","conclusion":""}"#;
        let status = |state: &str| format!(r#"{{"context":"ci","state":"{state}"}}"#);
        let all = |some: &[String]| seen(&some.join(",")).0.checks;
        assert_eq!(all(&[]), PullRequestChecks::None);
        assert_eq!(
            all(&[run("SUCCESS"), run("SKIPPED"), status("SUCCESS")]),
            PullRequestChecks::Passed
        );
        assert_eq!(all(&[run("SUCCESS"), running.to_owned()]), PullRequestChecks::Pending);
        assert_eq!(all(&[run("FAILURE"), running.to_owned()]), PullRequestChecks::Failed);
        assert_eq!(all(&[status("ERROR")]), PullRequestChecks::Failed);
        assert_eq!(all(&[run("SOMETHING_NEW")]), PullRequestChecks::Failed);
        assert_eq!(all(&["{}".to_owned()]), PullRequestChecks::Pending);
    }

    #[test]
    fn checks_of_another_commit_are_pending() {
        let text = r#"{"state":"OPEN","headRefOid":"c0","statusCheckRollup":[{"name":"build","status":"COMPLETED","conclusion":"FAILURE"}]}"#;
        let (state, comments) = parse_view(text, "[]", "c1", CommentAuthors::Write).unwrap();
        assert_eq!((state.checks, comments), (PullRequestChecks::Pending, Vec::new()));
    }

    #[test]
    fn comment_ids_are_stable_and_bare_approvals_dropped() {
        let text = r#"{"state":"MERGED","headRefOid":"c1","reviews":[{"id":"r1","author":{"login":"ann"},"body":"","state":"APPROVED"},{"id":"r2","author":{"login":"bob"},"body":"no","state":"CHANGES_REQUESTED"}],"comments":[{"id":"k1","author":{"login":"cy"},"body":"why?"}]}"#;
        let lines = r#"[{"id":7,"user":{"login":"di"},"path":"src/a.rs","line":3,"body":"typo"}]"#;
        let (state, comments) = parse_view(text, lines, "c1", CommentAuthors::Everyone).unwrap();
        assert_eq!(state.status, PullRequestStatus::Merged);
        let found: Vec<_> =
            comments.iter().map(|one| (one.id.as_str(), one.text.as_str())).collect();
        let expected = [
            ("review/r2", "(changes requested) no"),
            ("comment/k1", "why?"),
            ("line/7", "src/a.rs:3: typo"),
        ];
        assert_eq!(found, expected);
        assert!(
            parse_view("no json", "[]", "c1", CommentAuthors::Write)
                .unwrap_err()
                .contains("gh returned an unreadable pull request")
        );
    }

    #[test]
    fn comments_without_write_access_are_only_counted() {
        let comment = |id: &str, by: &str| {
            format!(
                r#"{{"id":"{id}","author":{{"login":"x"}},"authorAssociation":"{by}","body":"b"}}"#
            )
        };
        let all = ["OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "FIRST_TIMER", "NONE", "NEW"];
        let comments = all.map(|by| comment(by, by)).join(",");
        let review = r#"{"id":"r","authorAssociation":"NONE","body":"b","state":"COMMENTED"}"#;
        let text = format!(
            r#"{{"state":"OPEN","headRefOid":"c1","comments":[{comments},{{"id":"k"}}],"reviews":[{review}]}}"#
        );
        let lines = r#"[{"id":1,"author_association":"NONE","body":"b"},{"id":2,"author_association":"OWNER","body":"b"}]"#;
        let (state, comments) = parse_view(&text, lines, "c1", CommentAuthors::Write).unwrap();
        let ids: Vec<&str> = comments.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["comment/OWNER", "comment/MEMBER", "comment/COLLABORATOR", "line/2"]);
        assert_eq!(state.left_out, 7);
        let (state, comments) = parse_view(&text, lines, "c1", CommentAuthors::Everyone).unwrap();
        assert_eq!((state.left_out, comments.len()), (0, 11));
    }

    #[test]
    fn comments_of_all_pages_are_read() {
        let text = r#"{"state":"OPEN","headRefOid":"c1"}"#;
        let page = |from: u32| -> String {
            let of =
                |id: u32| format!(r#"{{"id":{id},"user":{{"login":"di"}},"path":"a","body":"b"}}"#);
            format!("[{}]", (from..from + 60).map(of).collect::<Vec<_>>().join(","))
        };
        let (_, comments) =
            parse_view(text, &(page(0) + &page(60)), "c1", CommentAuthors::Everyone).unwrap();
        assert_eq!((comments.len(), comments[119].id.as_str()), (120, "line/119"));
        assert!(
            parse_view(text, "[] nonsense", "c1", CommentAuthors::Write)
                .unwrap_err()
                .contains("no list of comments")
        );
    }

    #[test]
    fn merged_pull_request_counts_and_closed_does_not() {
        let text = r#"[{"number":1,"url":"u1","state":"CLOSED"},{"number":2,"url":"u2","state":"MERGED"}]"#;
        let counts: Vec<bool> =
            parse_list(text).unwrap().iter().map(ListedPullRequest::is_open_or_merged).collect();
        assert_eq!(counts, [false, true]);
    }
}
