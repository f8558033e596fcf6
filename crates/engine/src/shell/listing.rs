//! Listings, such as the sessions that `ls` shows. Projections are returned as they are stored in
//! the ledger.

use std::{borrow::Cow, ops::ControlFlow};

use provost_core::ids::{MIN_PART_LEN, SHORT_LEN};
use provost_ledger::{
    Error, ListCursor, Lookup, ProjectionQuery, ProjectionRef, ReadLedger, StreamFilter, StreamId,
};
use serde::Deserialize;

use crate::stream::{RUN, SESSION, TEAM, refold};

/// A filter for sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub role: Option<String>,
    pub state: Option<String>,
    pub project: Option<String>,
    pub extent: ListingExtent,
}

/// How many sessions to show. Live sessions come before the others, and both groups are sorted
/// newest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListingExtent {
    #[default]
    All,
    /// At most N sessions, live or not.
    AtMost(usize),
    /// All live sessions, and at most N others.
    LiveAnd(usize),
}

impl ListingExtent {
    /// Whether there is room for another session after those already shown.
    fn has_space(self, open: bool, shown: &ShownCounts) -> bool {
        match self {
            ListingExtent::All => true,
            ListingExtent::AtMost(most) => shown.open + shown.closed < most,
            ListingExtent::LiveAnd(most) => open || shown.closed < most,
        }
    }
}

/// How many sessions have been shown.
#[derive(Debug, Default)]
struct ShownCounts {
    open: usize,
    closed: usize,
}

/// The fields of a projection that a listing can filter by.
#[derive(Debug, Deserialize)]
struct ListedProjection<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    project: Option<Cow<'a, str>>,
    #[serde(borrow)]
    state: Cow<'a, str>,
}

impl Listing {
    fn has_filter(&self) -> bool {
        self.role.is_some() || self.state.is_some() || self.project.is_some()
    }

    fn matches(&self, projection: &str) -> bool {
        if !self.has_filter() {
            return true;
        }
        // If a projection cannot be parsed, show it anyway instead of hiding it.
        let Ok(projection) = serde_json::from_str::<ListedProjection<'_>>(projection) else {
            return true;
        };
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        is(&self.role, projection.role.as_deref())
            && is(&self.state, Some(&projection.state))
            && is(&self.project, projection.project.as_deref())
    }

    /// Visits the matching projections: first the open ones, then the closed ones, newest first.
    /// Returns whether there were more.
    pub fn visit(
        &self,
        ledger: &dyn ReadLedger,
        show: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        self.visit_kind(SESSION, ledger, show)
    }

    /// Like [`Listing::visit`], but for runs.
    pub fn visit_runs(
        &self,
        ledger: &dyn ReadLedger,
        show: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        self.visit_kind(RUN, ledger, show)
    }

    /// Like [`Listing::visit`], but for teams.
    pub fn visit_teams(
        &self,
        ledger: &dyn ReadLedger,
        show: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        self.visit_kind(TEAM, ledger, show)
    }

    /// Like [`Listing::visit`], but for streams of any kind.
    fn visit_kind(
        &self,
        kind: &'static str,
        ledger: &dyn ReadLedger,
        mut show: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        let (mut shown, mut more) = (ShownCounts::default(), false);
        visit_projections(kind, ledger, &mut |projection| {
            let text = intact_projection(ledger, &projection);
            let Some(text) = text.as_deref().filter(|text| self.matches(text)) else {
                return ControlFlow::Continue(());
            };
            if !self.extent.has_space(projection.open, &shown) {
                more = true;
                return ControlFlow::Break(());
            }
            if projection.open {
                shown.open += 1;
            } else {
                shown.closed += 1;
            }
            show(text)
        })?;
        Ok(more)
    }
}

/// Returns a stream's projection. If it was damaged on disk, builds it from the events. `None` if
/// these are damaged too.
fn intact_projection<'c>(
    ledger: &dyn ReadLedger,
    stored: &'c ProjectionRef<'_>,
) -> Option<Cow<'c, str>> {
    match &stored.projection {
        Some(text) => Some(Cow::Borrowed(text)),
        None => rebuild_projection(ledger, &StreamId::new(stored.stream).ok()?).map(Cow::Owned),
    }
}

/// Builds a stream's projection from its events.
pub(super) fn rebuild_projection(ledger: &dyn ReadLedger, stream: &StreamId) -> Option<String> {
    let records = ledger.read_stream(stream, 0).ok()?;
    refold(stream, &records).ok()?.projection
}

/// Visits the streams of a kind page by page, open ones first, until the visitor stops.
fn visit_projections(
    kind: &'static str,
    ledger: &dyn ReadLedger,
    visit: &mut dyn FnMut(ProjectionRef<'_>) -> ControlFlow<()>,
) -> Result<(), Error> {
    let mut after: Option<ListCursor> = None;
    loop {
        let query = ProjectionQuery { kind, show: StreamFilter::OpenFirst, after, limit: 500 };
        let mut stop = false;
        after = ledger.list_projections(query, &mut |projection| {
            let on = visit(projection);
            stop = on.is_break();
            on
        })?;
        if stop || after.is_none() {
            return Ok(());
        }
    }
}

/// The maximum number of candidates to examine.
const MAX_CANDIDATES: usize = 1_000;

/// The maximum number of matches to return.
const MAX_MATCHES: usize = 10;

/// Finds sessions, runs or teams by name, by the start or end of their id, or by the start of the
/// short id that lists show. The name of a closed team can be reused, so a name refers to the open
/// team with that name, or else to the newest one.
pub(crate) fn find_by_name(
    kind: &'static str,
    ledger: &dyn ReadLedger,
    text: &str,
) -> Result<Vec<(String, String)>, Error> {
    let mut found = Vec::new();
    let mut look = |projection: ProjectionRef<'_>| {
        let shown = intact_projection(ledger, &projection);
        let name_match = shown.as_deref().and_then(|shown| match_name(shown, text));
        let (open, created) = (projection.open, projection.created_seq);
        found.extend(name_match.map(|name_match| NameMatch { open, created, ..name_match }));
        if found.len() < MAX_MATCHES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let indexed = ledger.find_streams(kind, Lookup::Name(text), MAX_CANDIDATES, &mut look)?;
    if !indexed || has_no_search_terms(text) {
        visit_projections(kind, ledger, &mut look)?;
    }
    if kind == TEAM {
        prefer_open(&mut found);
    }
    Ok(found.into_iter().map(|name_match| (name_match.id, name_match.name)).collect())
}

/// Something that matches a search by name or id.
#[derive(Debug, PartialEq, Eq)]
struct NameMatch {
    id: String,
    name: String,
    by_name: bool,
    open: bool,
    /// The sequence number of the event that opened the stream.
    created: u64,
}

/// Of all matches by name, keeps the open ones or else the newest one.
fn prefer_open(found: &mut Vec<NameMatch>) {
    let named = found.iter().filter(|name_match| name_match.by_name);
    let open = named.clone().any(|name_match| name_match.open);
    let newest = named.map(|name_match| name_match.created).max();
    found.retain(|name_match| match (name_match.by_name, open) {
        (false, _) => true,
        (true, true) => name_match.open,
        (true, false) => Some(name_match.created) == newest,
    });
}

/// Whether a name contains nothing that the index could find, because it has neither letters nor digits.
fn has_no_search_terms(text: &str) -> bool {
    !text.chars().any(char::is_alphanumeric)
}

/// Parses a projection. Returns `None` if the text does not match it.
fn match_name(projection: &str, text: &str) -> Option<NameMatch> {
    let projection = serde_json::from_str::<ListedProjection<'_>>(projection).ok()?;
    let long = text.len() >= MIN_PART_LEN;
    let plain = projection.id.replace('-', "");
    let short = plain.get(plain.len().saturating_sub(SHORT_LEN)..).unwrap_or_default();
    let starts = [plain.as_str(), short, &projection.id].iter().any(|id| id.starts_with(text));
    let by_id = long && (starts || plain.ends_with(text));
    let by_name = projection.name == text;
    let (id, name) = (projection.id.into_owned(), projection.name.into_owned());
    (by_name || by_id).then_some(NameMatch { id, name, by_name, open: false, created: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(id: &str, open: bool, created: u64) -> NameMatch {
        let (id, name) = (id.to_owned(), "limits".to_owned());
        NameMatch { id, name, by_name: true, open, created }
    }

    fn kept(mut found: Vec<NameMatch>) -> Vec<String> {
        prefer_open(&mut found);
        found.into_iter().map(|name_match| name_match.id).collect()
    }

    #[test]
    fn name_matches_open_team_or_else_newest() {
        assert_eq!(kept(vec![named("a", false, 1), named("b", true, 9)]), ["b"]);
        assert_eq!(kept(vec![named("b", false, 9), named("a", false, 1)]), ["b"]);
        assert_eq!(kept(vec![named("a", true, 1), named("b", true, 9)]), ["a", "b"]);
        let by_id = NameMatch { by_name: false, ..named("c", false, 3) };
        assert_eq!(kept(vec![named("a", true, 1), by_id]), ["a", "c"], "an id is not a name");
    }
}
