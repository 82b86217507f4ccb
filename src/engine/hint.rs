//! What committed Dispatch operations keep for later recovery: the run hint of an `uncertain` one (decision 24), and the
//! proof of a `rejected` one. Both survive compaction, because receipts keep their operations.

use super::state::{Accepted, Projection, Source};
use crate::protocol::evidence::Evidence;
use crate::protocol::json::{Node, Scanner};
use crate::protocol::request::RequestKind;
use crate::protocol::{Code, Decimal, DispatchId, Wire as _};

impl Projection {
    /// The run that the newest `uncertain` operation of a dispatch names, if one does. It helps to find the run again
    /// and proves nothing.
    #[must_use]
    pub fn run_hint(&self, dispatch_id: &DispatchId, scanner: &mut Scanner) -> Option<Decimal> {
        let read = |evidence: Node<'_>| Decimal::new(evidence.object()?.get("run_id")?.string()?).ok();
        self.newest(dispatch_id, "uncertain", scanner, read).map(|(run_id, _)| run_id)
    }

    /// The evidence of a dispatch's `rejected` operation, and the request that carries it. A receipt of a checkpoint
    /// keeps everything but the evidence's own receipt.
    #[must_use]
    pub fn rejection(&self, dispatch_id: &DispatchId, scanner: &mut Scanner) -> Option<(Evidence, &Accepted)> {
        let read = |evidence: Node<'_>| Evidence::read(evidence, Code::EvidenceInvalid).ok();
        self.newest(dispatch_id, "rejected", scanner, read)
    }

    /// Looks at the evidence of a dispatch's operations of one state, newest first.
    fn newest<T>(
        &self,
        dispatch_id: &DispatchId,
        state: &str,
        scanner: &mut Scanner,
        read: impl Fn(Node<'_>) -> Option<T>,
    ) -> Option<(T, &Accepted)> {
        let requests = self.requests.iter().rev();
        requests.filter(|accepted| accepted.kind == RequestKind::Dispatch).find_map(|accepted| {
            let (text, list) = match &accepted.source {
                Source::Commit(text) => (text, "operations"),
                Source::Receipt(text) => (text, "events"),
            };
            if !text.as_str().contains(dispatch_id.as_str()) {
                return None;
            }
            let document = scanner.read(text.text()).ok()?;
            let operations = document.root().object()?.get(list)?.array()?;
            let found = operations.filter_map(|operation| read(evidence(operation, dispatch_id, state)?)).last();
            found.map(|found| (found, accepted))
        })
    }
}

/// The evidence of an operation, if it moves this dispatch to this state.
fn evidence<'a>(operation: Node<'a>, dispatch_id: &DispatchId, state: &str) -> Option<Node<'a>> {
    let object = operation.object()?;
    let is =
        |name: &str, text: &str| object.get(name).and_then(Node::string).is_some_and(|value| value.as_str() == text);
    let same = is("kind", "Dispatch") && is("dispatch_id", dispatch_id.as_str()) && is("state", state);
    object.get("evidence").filter(|_| same)
}
