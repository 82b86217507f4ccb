//! Which rows a browser of the queue shows, and in which order (operator-cli.md 4.3). How a row looks is not decided
//! here.

use super::state::{ClaimState, Projection, WorkState};
use crate::protocol::GraphId;

/// What rows must match; nothing set matches all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Exact graph id.
    pub graph: Option<String>,
    /// Exact pool.
    pub pool: Option<String>,
    /// Exact state of the Work.
    pub state: Option<String>,
    /// Part of a name, whatever its case. A Work that matches comes with all its Claims; Claims that match come with
    /// their Work.
    pub search: Option<String>,
}

/// One row: a graph, a Work below it, or a Claim below its Work.
#[derive(Clone, Copy, Debug)]
pub enum Row<'a> {
    /// A graph.
    Graph(&'a GraphId),
    /// A Work.
    Work {
        /// The Work.
        state: &'a WorkState,
        /// True for the last shown Work of its graph.
        last: bool,
    },
    /// A Claim.
    Claim {
        /// The Claim.
        state: &'a ClaimState,
        /// Its Work.
        work: &'a WorkState,
        /// True if it owns its Work, or owned it last, and the Work is not cancelled.
        current: bool,
        /// True for the last shown Claim of its Work.
        last: bool,
        /// True if the Work is the last shown one of its graph.
        work_last: bool,
    },
}

impl Filter {
    fn admits(&self, state: &WorkState) -> bool {
        let same = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        same(&self.graph, state.work.graph_id.as_str())
            && same(&self.pool, state.work.pool.as_str())
            && same(&self.state, state.state())
    }
}

fn holds(needle: &str, fields: &[&str]) -> bool {
    fields.iter().any(|field| field.to_lowercase().contains(needle))
}

fn work_holds(needle: &str, state: &WorkState) -> bool {
    let work = &state.work;
    holds(
        needle,
        &[
            work.work_id.as_str(),
            work.graph_id.as_str(),
            work.node_key.as_str(),
            work.fairness_key.as_str(),
            state.state(),
            work.pool.as_str(),
            work.worker_profile.as_str(),
            state.barrier().as_str(),
        ],
    )
}

fn claim_holds(needle: &str, state: &ClaimState) -> bool {
    let claim = &state.claim;
    let fields = [claim.claim_id.as_str(), claim.handle.as_str(), claim.dispatch_id.as_str(), state.status.as_str()];
    holds(needle, &fields)
}

impl Projection {
    /// True if the Claim is its Work's current or last owner and the Work is not cancelled.
    #[must_use]
    pub fn is_current(&self, claim: &ClaimState) -> bool {
        let work = self.work_of(claim);
        work.state() != "cancelled" && self.owned_by(work, claim)
    }

    fn owned_by(&self, work: &WorkState, claim: &ClaimState) -> bool {
        self.owner_of(work).is_some_and(|owner| owner.claim.claim_id == claim.claim.claim_id)
    }

    /// Every Claim of one Work: the current or last owner, then by time of the grant, latest first, then by id.
    #[must_use]
    pub fn attempts_of(&self, work: &WorkState) -> Vec<&ClaimState> {
        let mut claims: Vec<_> = self.claims().filter(|claim| claim.claim.work_id == work.work.work_id).collect();
        self.order_attempts(work, &mut claims);
        claims
    }

    fn order_attempts(&self, work: &WorkState, claims: &mut [&ClaimState]) {
        claims.sort_by_cached_key(|claim| {
            let at = std::cmp::Reverse(claim.explanation.at.get());
            (!self.owned_by(work, claim), at, claim.claim.claim_id.text().clone())
        });
    }

    /// Every row that a filter admits: graphs by id, their Work by place of admission, its Claims as
    /// [`Projection::attempts_of`] has them.
    #[must_use]
    pub fn forest(&self, filter: &Filter) -> Vec<Row<'_>> {
        let needle = filter.search.as_deref().filter(|text| !text.is_empty()).map(str::to_lowercase);
        let needle = needle.as_deref();
        let mut claims: Vec<Vec<&ClaimState>> = vec![Vec::new(); self.works.len()];
        for claim in &self.claims {
            claims[claim.work.0 as usize].push(claim);
        }
        let mut shown: Vec<(&WorkState, Vec<&ClaimState>)> = Vec::new();
        for (state, mut claims) in self.works.iter().zip(claims).filter(|(state, _)| filter.admits(state)) {
            if let Some(needle) = needle
                && !work_holds(needle, state)
            {
                claims.retain(|claim| claim_holds(needle, claim));
                if claims.is_empty() {
                    continue;
                }
            }
            self.order_attempts(state, &mut claims);
            shown.push((state, claims));
        }
        shown.sort_by(|(a, _), (b, _)| {
            let key = |state: &WorkState| state.position;
            let graphs = a.work.graph_id.cmp(&b.work.graph_id);
            graphs.then(key(a).cmp(&key(b))).then_with(|| a.work.work_id.cmp(&b.work.work_id))
        });
        let mut rows = Vec::with_capacity(shown.len() * 2);
        for (index, (state, claims)) in shown.iter().enumerate() {
            let graph = &state.work.graph_id;
            if index == 0 || shown[index - 1].0.work.graph_id != *graph {
                rows.push(Row::Graph(graph));
            }
            let work_last = shown.get(index + 1).is_none_or(|(next, _)| next.work.graph_id != *graph);
            rows.push(Row::Work { state, last: work_last });
            for (place, claim) in claims.iter().enumerate() {
                rows.push(Row::Claim {
                    state: claim,
                    work: state,
                    current: self.is_current(claim),
                    last: place + 1 == claims.len(),
                    work_last,
                });
            }
        }
        rows
    }
}
