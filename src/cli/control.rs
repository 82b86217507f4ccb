//! `wq control`.

use clap::{Subcommand, ValueEnum};

use super::administer::publish;
use super::publish::Published;
use super::targets::reason;
use super::{Failure, Global, Reply};
use crate::protocol::json::Writer;
use crate::protocol::operation::{Control, Operation, Switch};
use crate::protocol::request::RequestKind;
use crate::protocol::{Generation, Wire as _};
use crate::report::label;

/// Pause or resume admission or grants, or make another credential generation the current one.
///
/// Existing Work, Claims, reservations and charges stay as they are; a paused queue can still drain. The second form,
/// --name with --paused or --generation, says the same as the subcommands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// What to change.
    #[arg(long, value_name = "CONTROL", value_enum, requires = "reason")]
    name: Option<Name>,
    /// The value of a pause, to be said in full.
    #[arg(long, value_name = "true|false", requires = "name", conflicts_with = "generation")]
    paused: Option<bool>,
    /// The generation to make current, 1 to 256 bytes: a label, never a secret.
    #[arg(long, value_name = "LABEL", requires = "name")]
    generation: Option<String>,
    /// Why, a code of 1 to 128 of [A-Za-z0-9_.:-].
    #[arg(long, value_name = "CODE", requires = "name")]
    reason: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Stop admitting new Work, or stop granting.
    Pause(Pause),
    /// Admit or grant again.
    Resume(Pause),
    /// Switch to another credential generation. One that was replaced never returns.
    Credential(Credential),
}

#[derive(Clone, Debug, clap::Args)]
struct Pause {
    /// What to stop or to resume.
    #[arg(value_name = "WHAT", value_enum)]
    what: What,
    /// Why, a code of 1 to 128 of [A-Za-z0-9_.:-].
    #[arg(long, value_name = "CODE")]
    reason: String,
}

#[derive(Clone, Debug, clap::Args)]
struct Credential {
    /// The generation to make current, 1 to 256 bytes: a label, never a secret.
    #[arg(long, value_name = "LABEL")]
    generation: String,
    /// Why, a code of 1 to 128 of [A-Za-z0-9_.:-].
    #[arg(long, value_name = "CODE")]
    reason: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// New Work.
    Admission,
    /// New Claims and start markers.
    Grants,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Name {
    AdmissionPaused,
    GrantsPaused,
    CredentialGeneration,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Reply, Failure> {
    let control = asked(args)?;
    let (published, _) = publish(global, RequestKind::Control, |_, _| Ok(Operation::Control(control.clone())))?;
    Ok(Reply::done(if global.json { json(&published, &control) } else { text(&published, &control) }))
}

fn asked(args: &Args) -> Result<Control, Failure> {
    let (switch, given) = match (&args.action, args.name) {
        (Some(_), Some(_)) => return Err(usage("a subcommand and --name are two ways to say one thing")),
        (None, None) => return Err(usage("nothing was named that is to change")),
        (Some(Action::Pause(pause)), None) => (pause.what.switch(true), &pause.reason),
        (Some(Action::Resume(pause)), None) => (pause.what.switch(false), &pause.reason),
        (Some(Action::Credential(asked)), None) => (generation(&asked.generation)?, &asked.reason),
        (None, Some(name)) => (named(name, args)?, args.reason.as_ref().ok_or_else(|| usage("--reason is missing"))?),
    };
    Ok(Control { switch, reason: reason(given)? })
}

fn named(name: Name, args: &Args) -> Result<Switch, Failure> {
    match (name, args.paused, &args.generation) {
        (Name::AdmissionPaused, Some(paused), None) => Ok(Switch::AdmissionPaused(paused)),
        (Name::GrantsPaused, Some(paused), None) => Ok(Switch::GrantsPaused(paused)),
        (Name::CredentialGeneration, None, Some(label)) => generation(label),
        (Name::CredentialGeneration, ..) => Err(usage("credential_generation takes --generation alone")),
        _ => Err(usage("a pause takes --paused=true or --paused=false, and no --generation")),
    }
}

fn generation(label: &str) -> Result<Switch, Failure> {
    let generation = Generation::new(label.to_owned()).map_err(|fault| Failure::flag(&fault, "--generation"))?;
    Ok(Switch::CredentialGeneration(generation))
}

fn usage(message: &'static str) -> Failure {
    Failure::usage(message, "Write it as `wq control pause grants --reason CODE`; see --help for the other forms.")
}

impl What {
    fn switch(self, paused: bool) -> Switch {
        match self {
            Self::Admission => Switch::AdmissionPaused(paused),
            Self::Grants => Switch::GrantsPaused(paused),
        }
    }
}

fn json(published: &Published, control: &Control) -> String {
    let projection = &published.publication.current.projection;
    let mut writer = Writer::new();
    writer.object(|members| {
        published.members(members);
        // As the queue stands now, which a repeated request may find changed again.
        members.name("admission_paused", |w| w.bool(projection.admission_paused()));
        members.name("control", |w| control.write(w));
        members.name("credential_generation", |w| projection.generation().write(w));
        members.name("grants_paused", |w| w.bool(projection.grants_paused()));
    });
    writer.finish()
}

fn text(published: &Published, control: &Control) -> String {
    let (because, line) = (control.reason.as_str(), published.line());
    let done = match &control.switch {
        Switch::AdmissionPaused(true) => "admission paused".to_owned(),
        Switch::AdmissionPaused(false) => "admission resumed".to_owned(),
        Switch::GrantsPaused(true) => "grants paused".to_owned(),
        Switch::GrantsPaused(false) => "grants resumed".to_owned(),
        Switch::CredentialGeneration(generation) => format!("credential generation {}", label(generation.as_str())),
    };
    format!("{done}, because {because}; Work, Claims, reservations and charges stay as they are\n{line}")
}
