//! The trusted assignment that a worker run receives (engine.md 7).

use super::fault::ensure;
use super::identity::{CommitId, DispatchId, Epoch, Handle, Opaque, PoolName, ProfileName, RequestId, WorkId};
use super::json::{Kind, Node, Scanner, Writer, encoded_len};
use super::limits::{MAX_ASSIGNMENT_BYTES, MAX_DISPATCH_CLAIMS};
use super::wire::closed;
use super::{ClaimId, Code, Fault, Text, Wire};

/// Most Results that one Claim of an assignment refers to.
const MAX_RESULT_REFERENCES: usize = 64;
/// Longest text of an assignment that is read at all, in bytes: six characters for each one of canonical text.
const MAX_ASSIGNMENT_TEXT: usize = 6 * MAX_ASSIGNMENT_BYTES as usize;

/// A verified predecessor's Result, handed to its successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultRef {
    /// The predecessor.
    pub work_id: WorkId,
    /// The commit of its Result.
    pub result_commit_id: CommitId,
    /// Its descriptor, an object.
    pub descriptor: Opaque,
}

/// One Claim of an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// `h1` to `h16`.
    pub handle: Handle,
    /// Claim.
    pub claim_id: ClaimId,
    /// Work.
    pub work_id: WorkId,
    /// The Work's payload, an object.
    pub work: Opaque,
    /// Results of its work predecessors in edge order.
    pub result_refs: Vec<ResultRef>,
}

/// The immutable content of one dispatch: 1 to 16 Claims granted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Dispatch.
    pub dispatch_id: DispatchId,
    /// Granting request.
    pub request_id: RequestId,
    /// Granting commit.
    pub commit_id: CommitId,
    /// Epoch of the grant.
    pub policy_epoch: Epoch,
    /// Pool.
    pub pool: PoolName,
    /// Route.
    pub worker_profile: ProfileName,
    /// Members in grant order.
    pub claims: Vec<Member>,
}

/// An object that the protocol does not look inside.
fn read_object(node: Node<'_>) -> Result<Opaque, Fault> {
    if node.kind() == Kind::Object {
        Opaque::read(node, Code::AssignmentInvalid)
    } else {
        Err(node.fault(Code::AssignmentInvalid, "an object was expected"))
    }
}

impl ResultRef {
    fn read(node: Node<'_>) -> Result<Self, Fault> {
        const CODE: Code = Code::AssignmentInvalid;
        let slots = closed(node, &[("descriptor", true), ("result_commit_id", true), ("work_id", true)], CODE)?;
        let [Some(descriptor), Some(commit_id), Some(work_id)] = slots else { return Err(CODE.into()) };
        Ok(Self {
            work_id: WorkId::read(work_id, CODE)?,
            result_commit_id: CommitId::read(commit_id, CODE)?,
            descriptor: read_object(descriptor)?,
        })
    }
}

impl Member {
    fn read(node: Node<'_>) -> Result<Self, Fault> {
        const CODE: Code = Code::AssignmentInvalid;
        const NAMES: &[(&str, bool); 5] =
            &[("claim_id", true), ("handle", true), ("result_refs", true), ("work", true), ("work_id", true)];
        let slots = closed(node, NAMES, CODE)?;
        let [Some(claim_id), Some(handle), Some(references), Some(work), Some(work_id)] = slots else {
            return Err(CODE.into());
        };
        let references = references.array().ok_or_else(|| Fault::from(CODE))?;
        Ok(Self {
            handle: Handle::read(handle, CODE)?,
            claim_id: ClaimId::read(claim_id, CODE)?,
            work_id: WorkId::read(work_id, CODE)?,
            work: read_object(work)?,
            result_refs: references.map(ResultRef::read).collect::<Result<_, _>>()?,
        })
    }

    fn write(&self, writer: &mut Writer) {
        writer.object(|members| {
            members.name("claim_id", |w| self.claim_id.write(w));
            members.name("handle", |w| self.handle.write(w));
            members.name("result_refs", |w| {
                w.array(&self.result_refs, |w, reference| {
                    w.object(|members| {
                        members.name("descriptor", |w| reference.descriptor.write(w));
                        members.name("result_commit_id", |w| reference.result_commit_id.write(w));
                        members.name("work_id", |w| reference.work_id.write(w));
                    });
                });
            });
            members.name("work", |w| self.work.write(w));
            members.name("work_id", |w| self.work_id.write(w));
        });
    }
}

impl Assignment {
    /// Reads the members of an assignment: 1 to 16, each with its own handle, Claim and Work.
    pub(crate) fn read_members(node: Node<'_>) -> Result<Vec<Member>, Fault> {
        let invalid = || Fault::from(Code::AssignmentInvalid);
        let items = node.array().filter(|_| (1..=MAX_DISPATCH_CLAIMS).contains(&node.array_len()));
        let members: Vec<Member> = items.ok_or_else(invalid)?.map(Member::read).collect::<Result<_, _>>()?;
        let distinct = members.iter().enumerate().all(|(index, member)| {
            members[..index].iter().all(|other| {
                other.handle != member.handle && other.claim_id != member.claim_id && other.work_id != member.work_id
            })
        });
        if distinct { Ok(members) } else { Err(invalid()) }
    }

    /// Reads an assignment that a run was given (jobs.md 1.4): a closed object of version 3 with 1 to 16 Claims, each with
    /// at most 64 references of distinct predecessors, in at most 48 KiB of canonical text.
    ///
    /// # Errors
    /// `claim_scope_invalid`.
    pub fn read(node: Node<'_>) -> Result<Self, Fault> {
        let refused = |fault: Fault| Fault::new(Code::ClaimScopeInvalid, fault.message().to_owned());
        Self::read_given(node).map_err(refused)
    }

    fn read_given(node: Node<'_>) -> Result<Self, Fault> {
        const CODE: Code = Code::ClaimScopeInvalid;
        const NAMES: &[(&str, bool); 8] = &[
            ("claims", true),
            ("commit_id", true),
            ("dispatch_id", true),
            ("policy_epoch", true),
            ("pool", true),
            ("request_id", true),
            ("version", true),
            ("worker_profile", true),
        ];
        let slots = closed(node, NAMES, CODE)?;
        let [
            Some(claims),
            Some(commit_id),
            Some(dispatch_id),
            Some(policy_epoch),
            Some(pool),
            Some(request_id),
            Some(version),
            Some(worker_profile),
        ] = slots
        else {
            return Err(CODE.into());
        };
        ensure!(
            node.raw().len() as u64 <= MAX_ASSIGNMENT_BYTES,
            ClaimScopeInvalid,
            "an assignment takes more than 48 KiB"
        );
        ensure!(version.integer() == Some(3), ClaimScopeInvalid, "an assignment has version 3");
        let claims = Self::read_members(claims)?;
        for Member { result_refs, .. } in &claims {
            let distinct = result_refs
                .iter()
                .enumerate()
                .all(|(index, reference)| result_refs[..index].iter().all(|other| other.work_id != reference.work_id));
            ensure!(
                distinct && result_refs.len() <= MAX_RESULT_REFERENCES,
                ClaimScopeInvalid,
                "a Claim has more than 64 Results, or two of one predecessor"
            );
        }
        Ok(Self {
            dispatch_id: DispatchId::read(dispatch_id, CODE)?,
            request_id: RequestId::read(request_id, CODE)?,
            commit_id: CommitId::read(commit_id, CODE)?,
            policy_epoch: Epoch::read(policy_epoch, CODE)?,
            pool: PoolName::read(pool, CODE)?,
            worker_profile: ProfileName::read(worker_profile, CODE)?,
            claims,
        })
    }

    /// Reads the text of an assignment, strictly: a repeated key is refused.
    ///
    /// # Errors
    /// `claim_scope_invalid`.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let refused = |_| Fault::new(Code::ClaimScopeInvalid, "an assignment is not JSON of the wire profile");
        ensure!(text.len() <= MAX_ASSIGNMENT_TEXT, ClaimScopeInvalid, "the text of an assignment is too long");
        // No member is a resource, so the host plays no part.
        let mut scanner = Scanner::new("");
        Self::read(scanner.read(&Text::from(text.to_owned())).map_err(refused)?.root())
    }

    /// The member with a handle.
    #[must_use]
    pub fn member(&self, handle: &str) -> Option<&Member> {
        self.claims.iter().find(|member| member.handle.as_str() == handle)
    }

    /// Writes the members, for the dispatch state that extends them.
    pub(crate) fn members(&self, members: &mut super::json::Members<'_>) {
        members.name("claims", |w| w.array(&self.claims, |w, member| member.write(w)));
        members.name("commit_id", |w| self.commit_id.write(w));
        members.name("dispatch_id", |w| self.dispatch_id.write(w));
        members.name("policy_epoch", |w| self.policy_epoch.write(w));
        members.name("pool", |w| self.pool.write(w));
        members.name("request_id", |w| self.request_id.write(w));
        members.name("version", |w| w.integer(3));
        members.name("worker_profile", |w| self.worker_profile.write(w));
    }

    /// The canonical text that goes into the worker input.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut writer = Writer::new();
        writer.object(|members| self.members(members));
        writer.finish()
    }
}

/// Canonical sizes of assignments, counted without writing them.
pub mod size {
    use super::encoded_len;

    /// Texts that identify an assignment.
    #[derive(Clone, Copy, Debug)]
    pub struct Header<'a> {
        /// Dispatch id.
        pub dispatch_id: &'a str,
        /// Request id.
        pub request_id: &'a str,
        /// Commit id.
        pub commit_id: &'a str,
        /// Epoch.
        pub policy_epoch: &'a str,
        /// Pool.
        pub pool: &'a str,
        /// Profile.
        pub worker_profile: &'a str,
    }

    /// Bytes of an assignment without members: everything but what [`member`] counts and the commas between.
    #[must_use]
    pub fn envelope(header: &Header<'_>) -> u64 {
        const FRAME: &str = concat!(
            r#"{"claims":[],"commit_id":,"dispatch_id":,"policy_epoch":,"#,
            r#""pool":,"request_id":,"version":3,"worker_profile":}"#
        );
        let Header { dispatch_id, request_id, commit_id, policy_epoch, pool, worker_profile } = header;
        let texts = [dispatch_id, request_id, commit_id, policy_epoch, pool, worker_profile];
        (FRAME.len() + texts.iter().map(|text| encoded_len(text)).sum::<usize>()) as u64
    }

    /// Bytes of one member whose `result_refs` array takes `references` bytes.
    #[must_use]
    pub fn member(handle: &str, claim_id: &str, work_id: &str, payload: usize, references: u64) -> u64 {
        const FRAME: &str = r#"{"claim_id":,"handle":,"result_refs":,"work":,"work_id":}"#;
        (FRAME.len() + encoded_len(handle) + encoded_len(claim_id) + encoded_len(work_id) + payload) as u64 + references
    }

    /// Bytes of a `result_refs` array of these `(work id, commit id, descriptor bytes)`.
    pub fn references<'a>(items: impl Iterator<Item = (&'a str, &'a str, usize)>) -> u64 {
        const FRAME: &str = r#"{"descriptor":,"result_commit_id":,"work_id":}"#;
        let mut count = 0;
        let bytes: usize = items
            .map(|(work_id, commit_id, descriptor)| {
                count += 1;
                FRAME.len() + encoded_len(work_id) + encoded_len(commit_id) + descriptor
            })
            .sum();
        (bytes + 2 + usize::saturating_sub(count, 1)) as u64
    }
}
