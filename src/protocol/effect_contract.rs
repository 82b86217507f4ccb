//! What a Work is expected to deliver: the `effect_contract` inside its otherwise opaque payload (lifecycle.md 5.9).
//!
//! The contract is intent. It names no credential, no transport and no verifier of its own choice: a `verifier_id`
//! only has to be the compiled adapter's. Replay never looks here; delivery does.

use super::fault::ensure;
use super::identity::{Opaque, Reason, Within};
use super::json::{Kind, Node, Scanner};
use super::limits::MAX_CONTRACT_OUTPUTS;
use super::wire::{Wire, closed};
use super::{Code, Fault, Text};

/// The output types that write nothing, which a Work without writes may still produce.
pub const NO_WRITE_TYPES: [&str; 4] = ["missing_data", "missing_tool", "noop", "report_incomplete"];

/// How often an output is wanted: 0 to 128.
pub type OutputCount = Within<0, 128>;

/// A valid contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EffectContract {
    /// No ordinary write at all, in either of its two spellings: `{kind: "none"}` and an empty list with
    /// `no_writes: true`.
    NoWrites,
    /// 1 to 128 outputs of distinct types.
    Outputs(Vec<ExpectedOutput>),
}

/// One output type and how often it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedOutput {
    /// The type's name, at least one character.
    pub output: Text,
    /// Fewest.
    pub min: OutputCount,
    /// Most; not below `min`.
    pub max: OutputCount,
    /// What the compiled adapter's verifier is to find.
    pub verification: Option<Verification>,
}

/// A reference to a verifier, with what it is to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// Must equal the id of the compiled adapter's verifier.
    pub verifier_id: Reason,
    /// An object that the verifier's own closed schema judges.
    pub expected: Opaque,
}

impl EffectContract {
    /// Reads the contract out of a Work's payload; none where the payload has no such member.
    ///
    /// # Errors
    /// `effect_contract_invalid`: delivery of such a Work can never be verified.
    pub fn of_payload(scanner: &mut Scanner, payload: &Opaque) -> Result<Option<Self>, Fault> {
        let document = scanner.read(payload.text()).map_err(refused)?;
        let contract = document.root().object().and_then(|members| members.get("effect_contract"));
        contract.map(Self::read).transpose().map_err(refused)
    }

    fn read(node: Node<'_>) -> Result<Self, Fault> {
        let invalid = Code::EffectContractInvalid;
        if node.object().is_some_and(|members| members.get("kind").is_some()) {
            let [kind] = closed(node, &[("kind", true)], invalid)?;
            ensure!(
                kind.and_then(Node::plain) == Some("none"),
                EffectContractInvalid,
                "an effect contract's kind is not known"
            );
            return Ok(Self::NoWrites);
        }
        let names = &[("version", true), ("outputs", true), ("no_writes", false)];
        let [version, outputs, no_writes] = closed(node, names, invalid)?;
        ensure!(
            version.and_then(Node::integer) == Some(1),
            EffectContractInvalid,
            "an effect contract's version is not supported"
        );
        let no_writes = no_writes.map(|flag| bool::read(flag, invalid)).transpose()?.unwrap_or(false);
        let items = outputs.and_then(Node::array).ok_or_else(|| node.fault(invalid, "outputs is an array"))?;
        ensure!(
            items.clone().count() <= MAX_CONTRACT_OUTPUTS,
            EffectContractInvalid,
            "an effect contract has more than 128 outputs"
        );
        let outputs = items.map(ExpectedOutput::read).collect::<Result<Vec<_>, _>>()?;
        ensure!(
            outputs.is_empty() == no_writes,
            EffectContractInvalid,
            "an effect contract has no outputs exactly where it says no_writes"
        );
        let mut types: Vec<&Text> = outputs.iter().map(|one| &one.output).collect();
        types.sort();
        types.dedup();
        ensure!(types.len() == outputs.len(), EffectContractInvalid, "an effect contract repeats an output type");
        Ok(if no_writes { Self::NoWrites } else { Self::Outputs(outputs) })
    }

    /// True if the contract rules out every ordinary write.
    #[must_use]
    pub fn forbids_writes(&self) -> bool {
        *self == Self::NoWrites
    }

    /// What is expected of an output type; none for a type that the contract does not declare.
    #[must_use]
    pub fn expected(&self, output: &str) -> Option<&ExpectedOutput> {
        match self {
            Self::NoWrites => None,
            Self::Outputs(outputs) => outputs.iter().find(|one| one.output.as_str() == output),
        }
    }

    /// Checks how often each output type was produced; types that do not occur in `produced` count 0, and a type may
    /// occur in it more than once.
    ///
    /// # Errors
    /// `effect_contract_invalid` for an undeclared type, or a declared one outside its bounds.
    pub fn check_counts(&self, produced: &[(&str, u64)]) -> Result<(), Fault> {
        for (output, count) in produced {
            let known = match self {
                Self::NoWrites => NO_WRITE_TYPES.contains(output),
                Self::Outputs(_) => self.expected(output).is_some(),
            };
            ensure!(known || *count == 0, EffectContractInvalid, "an output type is not in the effect contract");
        }
        let Self::Outputs(outputs) = self else { return Ok(()) };
        for expected in outputs {
            let count = produced
                .iter()
                .filter(|(output, _)| *output == expected.output.as_str())
                .fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
            let within = (expected.min.get() as u64..=expected.max.get() as u64).contains(&count);
            ensure!(within, EffectContractInvalid, "an output type was produced too often or not often enough");
        }
        Ok(())
    }
}

impl ExpectedOutput {
    fn read(node: Node<'_>) -> Result<Self, Fault> {
        let invalid = Code::EffectContractInvalid;
        let missing = || node.fault(invalid, "an output lacks a required member");
        let names = &[("type", true), ("min", true), ("max", true), ("verification", false)];
        let [output, min, max, verification] = closed(node, names, invalid)?;
        let output = output.and_then(Node::string).filter(|name| !name.is_empty());
        let min = OutputCount::read(min.ok_or_else(missing)?, invalid)?;
        let max = OutputCount::read(max.ok_or_else(missing)?, invalid)?;
        ensure!(min <= max, EffectContractInvalid, "an output's least count is above its greatest");
        Ok(Self {
            output: output.ok_or_else(|| node.fault(invalid, "an output's type is a nonempty string"))?,
            min,
            max,
            verification: verification.map(Verification::read).transpose()?,
        })
    }
}

impl Verification {
    fn read(node: Node<'_>) -> Result<Self, Fault> {
        let invalid = Code::EffectContractInvalid;
        let missing = || node.fault(invalid, "a verification lacks a required member");
        let [verifier, expected] = closed(node, &[("verifier_id", true), ("expected", true)], invalid)?;
        let expected = expected.ok_or_else(missing)?;
        ensure!(expected.kind() == Kind::Object, EffectContractInvalid, "what a verifier is to find is an object");
        Ok(Self {
            verifier_id: Reason::read(verifier.ok_or_else(missing)?, invalid)?,
            expected: Opaque::read(expected, invalid)?,
        })
    }
}

/// The same refusal under the one code that a contract has.
fn refused(fault: Fault) -> Fault {
    Fault::new(Code::EffectContractInvalid, fault.message().to_owned())
}
