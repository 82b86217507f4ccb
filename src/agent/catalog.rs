//! The five tools: names, what they say about themselves, and what they take (jobs.md 4.5 to 4.9).

use super::schema::{Field, Shape, unknown, write_schema};
use crate::protocol::RuntimeRole;
use crate::protocol::json::Writer;

/// One of the five.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `work_queue_read`
    Read,
    /// `work_queue_explain`
    Explain,
    /// `work_queue_submit`
    Submit,
    /// `work_queue_dispatch_next`
    DispatchNext,
    /// `work_queue_claim_finish`
    ClaimFinish,
}

/// An identity.
const ID: Shape = Shape::Text { least: 1, most: 256 };
/// A Claim's handle.
const HANDLE: Field = Field::optional(
    "claim_handle",
    ID,
    "Workers only: the handle of the Claim for which this is asked. May be left out only where the assignment was made of one \
     Claim.",
);

const READ: &[Field] = &[
    Field::optional("work", ID, "Show this Work alone, by its work_id, of at most 256 bytes."),
    Field::optional("pool", ID, "The pool to look at, of at most 256 bytes.").or("\"default\""),
    Field::optional("limit", Shape::Integer { least: 1, most: 128 }, "Most Work of one page.").or("32"),
    Field::optional("offset", Shape::Integer { least: 0, most: 1_000_000 }, "Work to leave out before the page.")
        .or("0"),
    Field::optional(
        "sort",
        Shape::List { least: 1, most: 4, item: &Shape::Closed(SORT) },
        "Order of display, most important term first; ties and no terms fall back to first in, first out. It never changes \
         what is granted next.",
    ),
];

const SORT: &[Field] = &[
    Field::required(
        "key",
        Shape::Word(&["id", "enqueued", "id_length"]),
        "id compares bytes, id_length counts characters, enqueued is the time of submission.",
    ),
    Field::required("direction", Shape::Word(&["asc", "desc"]), "asc is least first."),
];

const EXPLAIN: &[Field] = &[
    Field::required("work", ID, "The work_id to explain, of at most 256 bytes."),
    Field::optional("pool", ID, "The pool that the Work must be in; another one is refused."),
];

const SUBMIT: &[Field] = &[
    Field::required(
        "nodes",
        Shape::List { least: 1, most: 256, item: &Shape::Closed(NODE) },
        "The Work to plan: one task, or the nodes of a graph. Together with its defaults a plan is immutable once accepted.",
    ),
    HANDLE,
];

const NODE: &[Field] = &[
    Field::required(
        "payload",
        Shape::Object,
        "The task itself, at most the Policy's payload limit (16384 bytes by default).",
    ),
    Field::optional("graph_id", ID, "The graph; absent, a digest of the payload, or a worker's own graph."),
    Field::optional("node_key", ID, "The node's key in its graph.").or("\"root\""),
    Field::optional("work_id", ID, "May only repeat the id that follows from graph_id and node_key."),
    Field::optional("pool", ID, "An installed pool; a worker's own pool for what a worker submits.").or("\"default\""),
    Field::optional(
        "priority",
        Shape::Integer { least: 1, most: 5 },
        "1 is first; a worker's own for what a worker submits.",
    )
    .or("3"),
    Field::optional(
        "fairness_key",
        Shape::Text { least: 0, most: 128 },
        "A registered accounting key; a worker's own for what a worker submits.",
    )
    .or("\"\""),
    Field::optional("worker_profile", ID, "An approved profile of the pool; absent, the pool's default."),
    Field::optional("logical_contract", Shape::Hex(&[64]), "Pins the worker's contract."),
    Field::optional("execution_ref", Shape::Hex(&[40, 64]), "Pins a deployed revision of the worker."),
    Field::optional(
        "depends_on",
        Shape::List { least: 0, most: 256, item: &Shape::Object },
        "Edges: {\"kind\":\"work\",\"work_id\":...} or {\"kind\":\"work\",\"node_key\":...}, or an Issue or pull request.",
    ),
    Field::optional("subject", Shape::Object, "The resource that the Work is about."),
    Field::optional("backing_issue", Shape::Object, "An Issue that shows the Work, where a projector rule allows it."),
    Field::optional("replacement_of", Shape::Object, "The failed Work that this one replaces, with its evidence."),
];

const DISPATCH_NEXT: &[Field] = &[
    Field::required("pool", ID, "The pool to grant from. The scheduler chooses the Work and the worker."),
    Field::required("max_claims", Shape::Integer { least: 1, most: 256 }, "Most Claims."),
    Field::required("max_dispatches", Shape::Integer { least: 1, most: 256 }, "Most worker runs."),
    HANDLE,
];

const CLAIM_FINISH: &[Field] = &[
    Field::required("outcome", Shape::Word(&["completed", "cancelled"]), "How the Claim ends. It has no default."),
    Field::optional(
        "keep_open",
        Shape::Flag,
        "With completed alone: this round is done, and its Work becomes available again once its result is verified.",
    )
    .or("false"),
    HANDLE,
];

impl Tool {
    /// Every tool, in the order of their listing.
    pub const ALL: &[Self] = &[Self::Read, Self::Explain, Self::Submit, Self::DispatchNext, Self::ClaimFinish];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "work_queue_read",
            Self::Explain => "work_queue_explain",
            Self::Submit => "work_queue_submit",
            Self::DispatchNext => "work_queue_dispatch_next",
            Self::ClaimFinish => "work_queue_claim_finish",
        }
    }

    /// The tools of a role: an observer has the two that read.
    #[must_use]
    pub const fn of(role: RuntimeRole) -> &'static [Self] {
        match role {
            RuntimeRole::Observer => &[Self::Read, Self::Explain],
            RuntimeRole::Dispatcher | RuntimeRole::Worker => Self::ALL,
        }
    }

    /// The tool of a name, in any case and with `-` for `_`.
    ///
    /// # Errors
    /// A sentence that says which names there are.
    pub fn find(name: &str, role: RuntimeRole) -> Result<Self, String> {
        let wanted = name.replace('-', "_").to_lowercase();
        let named = |tools: &[Self]| tools.iter().copied().find(|tool| tool.name() == wanted);
        match (named(Self::of(role)), named(Self::ALL)) {
            (Some(tool), _) => Ok(tool),
            (None, Some(_)) => {
                Err("work_queue_observer_read_only: an observer has work_queue_read and work_queue_explain".to_owned())
            }
            (None, None) => Err(unknown("tool", &wanted, Self::of(role).iter().map(|tool| tool.name()))),
        }
    }

    /// What it does and what its answer is worth.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Read => {
                "Shows the work queue as it was when this run was activated: a page of Work, counts, and which Work would be \
                 next. The snapshot may be stale and the prediction is not authoritative; staged intents are not in it."
            }
            Self::Explain => {
                "Explains from the same activation snapshot why one Work is or is not next: its state, readiness, unresolved \
                 edges and capacity. It may be stale and is not authoritative."
            }
            Self::Submit => {
                "Stages a plan of 1 to 256 nodes for the queue. staged is no acceptance: after this job ends, a trusted job \
                 checks it and may refuse it. Within this run the queue does not change."
            }
            Self::DispatchNext => {
                "Stages a request to grant and launch the next Work of a pool, within these limits. The scheduler chooses Work \
                 and worker. staged is no Claim, no grant and no launch."
            }
            Self::ClaimFinish => {
                "Stages how one Claim of this run's assignment ends. staged is no completion: a trusted job records it after \
                 this job ends. A repeat must say the same; a Claim without a finish has no authorized effects."
            }
        }
    }

    pub(crate) const fn fields(self) -> &'static [Field] {
        match self {
            Self::Read => READ,
            Self::Explain => EXPLAIN,
            Self::Submit => SUBMIT,
            Self::DispatchNext => DISPATCH_NEXT,
            Self::ClaimFinish => CLAIM_FINISH,
        }
    }

    /// What is said to a caller that sends no arguments where some are required.
    pub(crate) const fn hint(self) -> &'static str {
        match self {
            Self::Read => "no argument is required",
            Self::Explain => "no arguments were given; name the Work, as in {\"work\":\"...\"}",
            Self::Submit => {
                "no arguments were given; name the nodes, as in {\"nodes\":[{\"payload\":{\"task\":\"...\"}}]}"
            }
            Self::DispatchNext => {
                "no arguments were given; name pool and limits, as in {\"pool\":\"default\",\"max_claims\":1,\"max_dispatches\":1}"
            }
            Self::ClaimFinish => "no arguments were given; say how the Claim ends, as in {\"outcome\":\"completed\"}",
        }
    }

    /// Writes the tool as `tools/list` shows it.
    pub fn write(self, writer: &mut Writer) {
        writer.object(|members| {
            members.name("description", |w| w.string(self.about()));
            members.name("inputSchema", |w| write_schema(self.fields(), w));
            members.name("name", |w| w.string(self.name()));
        });
    }
}
