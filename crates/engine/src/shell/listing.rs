//! Listings: which sessions `ls` shows. Cards are passed on as the ledger keeps them.

use std::ops::ControlFlow;

use provost_ledger::{CardQuery, Cursor, Error, ReadLedger, Show};
use serde::Deserialize;

use crate::stream::{RUN, SESSION, TASK};

/// Which sessions are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub role: Option<String>,
    pub state: Option<String>,
    pub project: Option<String>,
    pub extent: Extent,
}

/// How many sessions are shown. The live ones come first, each half newest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    #[default]
    All,
    /// At most so many, whatever they are.
    AtMost(usize),
    /// All live ones, and so many others at most.
    LiveAnd(usize),
}

impl Extent {
    /// Says whether one more is shown after so many.
    fn has_room(self, open: bool, shown: &Shown) -> bool {
        match self {
            Extent::All => true,
            Extent::AtMost(most) => shown.open + shown.closed < most,
            Extent::LiveAnd(most) => open || shown.closed < most,
        }
    }
}

/// How many sessions were shown.
#[derive(Debug, Default)]
struct Shown {
    open: usize,
    closed: usize,
}

/// The fields of a card that a listing may ask for.
#[derive(Debug, Deserialize)]
struct Card<'a> {
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    name: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    role: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    project: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    state: std::borrow::Cow<'a, str>,
}

impl Listing {
    fn filters(&self) -> bool {
        self.role.is_some() || self.state.is_some() || self.project.is_some()
    }

    fn takes(&self, card: &str) -> bool {
        if !self.filters() {
            return true;
        }
        // A card that cannot be read is shown rather than hidden.
        let Ok(card) = serde_json::from_str::<Card<'_>>(card) else { return true };
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        is(&self.role, card.role.as_deref())
            && is(&self.state, Some(&card.state))
            && is(&self.project, card.project.as_deref())
    }

    /// Visits the cards asked for: the open ones, then the newest closed ones. Gives whether there were more.
    pub fn visit(
        &self,
        ledger: &dyn ReadLedger,
        show: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        self.visit_kind(SESSION, ledger, show)
    }

    /// The same for runs.
    pub fn visit_runs(
        &self,
        ledger: &dyn ReadLedger,
        show: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        self.visit_kind(RUN, ledger, show)
    }

    /// The same for tasks that stand alone.
    pub fn visit_tasks(
        &self,
        ledger: &dyn ReadLedger,
        show: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        self.visit_kind(TASK, ledger, show)
    }

    /// The same for streams of another kind.
    fn visit_kind(
        &self,
        kind: &'static str,
        ledger: &dyn ReadLedger,
        mut show: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        let (mut shown, mut more) = (Shown::default(), false);
        let mut after: Option<Cursor> = None;
        loop {
            let query = CardQuery { kind, show: Show::OpenFirst, after, limit: 500 };
            let mut stop = false;
            after = ledger.cards(query, &mut |card| {
                let Some(text) = card.card.as_deref().filter(|text| self.takes(text)) else {
                    return ControlFlow::Continue(());
                };
                if !self.extent.has_room(card.open, &shown) {
                    (more, stop) = (true, true);
                    return ControlFlow::Break(());
                }
                match card.open {
                    true => shown.open += 1,
                    false => shown.closed += 1,
                }
                match show(text) {
                    ControlFlow::Continue(()) => ControlFlow::Continue(()),
                    ControlFlow::Break(()) => {
                        stop = true;
                        ControlFlow::Break(())
                    }
                }
            })?;
            if stop || after.is_none() {
                return Ok(more);
            }
        }
    }
}

/// Finds the sessions, or runs, that a person may mean: by name, or by the beginning or end of the id.
pub(crate) fn find(
    kind: &'static str,
    ledger: &dyn ReadLedger,
    text: &str,
) -> Result<Vec<(String, String)>, Error> {
    let mut found = Vec::new();
    Listing::default().visit_kind(kind, ledger, |card| {
        if let Ok(card) = serde_json::from_str::<Card<'_>>(card) {
            let long = text.len() >= 4;
            let plain = card.id.replace('-', "");
            let by_id = long
                && (plain.starts_with(text) || plain.ends_with(text) || card.id.starts_with(text));
            if card.name == text || by_id {
                found.push((card.id.into_owned(), card.name.into_owned()));
            }
        }
        match found.len() < 10 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    Ok(found)
}
