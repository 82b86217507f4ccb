//! Turns: several dispatcher processes ask at once, and each answer is read back from what the process printed.

use std::process::Output;

use super::super::Failure;
use super::stage::Stage;
use super::story::lost;
use crate::engine::Projection;
use crate::protocol::Code;
use crate::protocol::json::{Value, Writer, parse};
use crate::report::label;

/// One answer to one dispatcher.
pub(super) struct Turn {
    pub(super) process: String,
    request_id: String,
    reason: String,
    lost_attempts: i64,
    pub(super) claims: Vec<Granted>,
}

/// One Claim of a turn.
pub(super) struct Granted {
    pub(super) claim_id: String,
    work_id: String,
    pub(super) account: String,
    pub(super) task: String,
    pub(super) why: String,
    /// Order of the grant in the chain.
    ordinal: u32,
}

/// Lets `count` dispatcher processes ask at once. One that lost every race repeats the same request.
pub(super) fn compete(stage: &Stage, round: u32, count: u8) -> Result<Vec<Output>, Failure> {
    let ask = |process: u8| {
        let id = request_id(round, process);
        stage.wq(&["dispatch-next", "--max-claims", "4", "--max-dispatches", "2", "--request-id", &id], true)
    };
    let mut outputs = stage.together((1..=count).map(ask).collect())?;
    for (process, output) in (1..=count).zip(&mut outputs) {
        if output.status.code() == Some(i32::from(Code::PublicationUnresolved.exit())) {
            *output = stage.together(vec![ask(process)])?.remove(0);
        }
    }
    Ok(outputs)
}

fn request_id(round: u32, process: u8) -> String {
    format!("demo-round-{round}-dispatcher-{process}")
}

/// Reads what the processes printed, with the explanations that the queue keeps of each Claim.
pub(super) fn read(outputs: &[Output], projection: &Projection) -> Result<Vec<Turn>, Failure> {
    let turns = outputs.iter().enumerate().map(|(index, output)| {
        let text = String::from_utf8_lossy(&output.stdout);
        let answer = parse(text.trim_end()).map_err(|_| lost("a dispatcher process failed"))?;
        let word = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(Value::Array(claims)) = answer.get("claims") else { return Err(lost("a dispatcher gave no answer")) };
        let claims = claims
            .iter()
            .map(|claim| claim.get("claim_id").and_then(Value::as_str).unwrap_or_default())
            .map(|id| granted(projection, id));
        Ok(Turn {
            process: format!("dispatcher {}", index + 1),
            request_id: word("request_id"),
            reason: word("reason"),
            lost_attempts: answer.get("lost_attempts").and_then(Value::as_integer).unwrap_or(0),
            claims: claims.collect::<Result<_, _>>()?,
        })
    });
    let mut turns: Vec<Turn> = turns.collect::<Result<_, Failure>>()?;
    turns.sort_by_key(|turn| turn.claims.first().map_or(u32::MAX, |claim| claim.ordinal));
    Ok(turns)
}

fn granted(projection: &Projection, id: &str) -> Result<Granted, Failure> {
    let claim = projection.claim(id).ok_or_else(|| lost("a granted Claim is not in the ledger"))?;
    let (work, explanation) = (projection.work_of(claim), &claim.explanation);
    let account = work.work.fairness_key.to_string();
    let why = format!(
        "account {} stood at pass {}, {} of its Claims open",
        label(&account),
        explanation.key_pass,
        explanation.capacity_before.account
    );
    Ok(Granted {
        claim_id: id.to_owned(),
        work_id: claim.claim.work_id.to_string(),
        task: work.work.node_key.to_string(),
        ordinal: explanation.position.commit,
        account,
        why,
    })
}

impl Turn {
    /// The turn for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let retried = match self.lost_attempts {
            0 => String::new(),
            1 => ", after losing 1 race".to_owned(),
            lost => format!(", after losing {lost} races"),
        };
        if self.claims.is_empty() {
            return vec![format!("  {}: no grant, {}{retried}", self.process, self.reason)];
        }
        let tasks: Vec<String> = self.claims.iter().map(|claim| label(&claim.task)).collect();
        vec![format!("  {}: {}; stopped by {}{retried}", self.process, tasks.join(", "), self.reason)]
    }

    /// The turn for programs.
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.object(|members| {
            members.name("claims", |w| {
                w.array(&self.claims, |w, claim| {
                    w.object(|one| {
                        one.name("claim_id", |w| w.string(&claim.claim_id));
                        one.name("fairness_key", |w| w.string(&claim.account));
                        one.name("node_key", |w| w.string(&claim.task));
                        one.name("why", |w| w.string(&claim.why));
                        one.name("work_id", |w| w.string(&claim.work_id));
                    });
                });
            });
            members.name("lost_attempts", |w| w.integer(self.lost_attempts));
            members.name("process", |w| w.string(&self.process));
            members.name("reason", |w| w.string(&self.reason));
            members.name("request_id", |w| w.string(&self.request_id));
        });
    }
}
