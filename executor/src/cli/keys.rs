//! `executor identity …`: looks after the file with the executor's keys.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use rendezvous_identity::file::{Key, Keys};
use rendezvous_identity::{Passphrase, time};
use rendezvous_service::exit::Failure;
use rendezvous_wire::fingerprint::Fingerprint;
use rendezvous_wire::quantity;
use serde_json::{Value, json};

use super::identity::{FileArgs, unusable};

/// Shows, makes and replaces this executor's key.
///
/// A running executor goes on with the keys that it has; it takes what changes here when it is started again.
#[derive(Debug, Args)]
pub(super) struct KeysArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the fingerprint, by which people tell this executor from others, and the earlier keys
    Show {
        #[command(flatten)]
        file: FileArgs,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the file with a new key, before the executor is started, and print its fingerprint
    Create {
        #[command(flatten)]
        file: FileArgs,
    },
    /// Put a new key in the place of the current one, and print its fingerprint
    ///
    /// Harnesses that know the old key find the new one by themselves, as long as the old one is kept: the executor proves with
    /// it that the new one is its own.
    Rotate {
        #[command(flatten)]
        file: FileArgs,
        /// How long the old key is kept to prove the new one: a number and s, m, h, d or w; 0: not at all
        #[arg(long, value_name = "DURATION", default_value = "365d", value_parser = quantity::duration)]
        keep: Duration,
    },
    /// Remove earlier keys, because somebody else may have them; harnesses that know only those must accept the new one
    #[command(group = ArgGroup::new("which").args(["fingerprint", "all"]).required(true))]
    Forget {
        #[command(flatten)]
        file: FileArgs,
        /// The earlier key
        fingerprint: Option<Fingerprint>,
        /// All earlier keys
        #[arg(long)]
        all: bool,
    },
    /// Encrypt the file, with another passphrase than before or for the first time
    #[command(group = ArgGroup::new("next").args(["new_passphrase_file", "remove"]).required(true))]
    Passphrase {
        #[command(flatten)]
        file: FileArgs,
        /// File with the new passphrase, `-` for stdin
        #[arg(long, value_name = "FILE")]
        new_passphrase_file: Option<PathBuf>,
        /// Decrypt the file
        #[arg(long)]
        remove: bool,
    },
}

impl KeysArgs {
    /// Whether the passphrase is wanted from the environment.
    pub(super) fn wants_passphrase(&self) -> bool {
        let (Command::Show { file, .. }
        | Command::Create { file }
        | Command::Rotate { file, .. }
        | Command::Forget { file, .. }
        | Command::Passphrase { file, .. }) = &self.command;
        file.wants_passphrase()
    }
}

pub(super) fn run(args: KeysArgs) -> Result<(), Failure> {
    let now = time::now();
    match args.command {
        Command::Show { file, json } => {
            let file = file.file()?;
            let keys = file.open().map_err(unusable)?;
            let path = file.path().display().to_string();
            say(&if json {
                format!("{:#}", to_json(&path, &keys))
            } else {
                to_text(&path, &keys)
            })
        }
        Command::Create { file } => {
            let keys = file.file()?.create(now).map_err(unusable)?;
            say(&keys.current().fingerprint().to_string())
        }
        Command::Rotate { file, keep } => {
            let keys = file.file()?.rotate(now, keep).map_err(unusable)?;
            say(&keys.current().fingerprint().to_string())
        }
        Command::Forget { file, fingerprint, .. } => {
            file.file()?.forget(fingerprint).map_err(unusable)?;
            Ok(())
        }
        Command::Passphrase {
            file,
            new_passphrase_file,
            ..
        } => {
            let both_read_stdin = file.reads_stdin() && new_passphrase_file.as_deref().is_some_and(|file| file == "-");
            if both_read_stdin {
                return Err(Failure::usage("stdin cannot give both passphrases"));
            }
            let file = file.file()?;
            let next = new_passphrase_file.as_deref().map(Passphrase::read).transpose();
            file.encrypt(next.map_err(Failure::usage)?).map_err(unusable)?;
            Ok(())
        }
    }
}

fn to_text(path: &str, keys: &Keys) -> String {
    let current = keys.current();
    let mut text = format!(
        "fingerprint  {}\ncreated      {}\nfile         {path}",
        current.fingerprint(),
        time::rfc3339(current.created()),
    );
    for key in keys.earlier() {
        text.push_str(&format!("\nearlier      {}", key.fingerprint()));
        if let Some(retired) = key.retired() {
            text.push_str(&format!(" (kept until {})", time::rfc3339(retired.until)));
        }
    }
    text
}

fn to_json(path: &str, keys: &Keys) -> Value {
    let describe = |key: &Key| {
        let mut described = json!({
            "fingerprint": key.fingerprint(),
            "created": time::rfc3339(key.created()),
        });
        if let Some(retired) = key.retired() {
            described["retired"] = time::rfc3339(retired.at).into();
            described["keptUntil"] = time::rfc3339(retired.until).into();
        }
        described
    };
    let mut value = describe(keys.current());
    value["file"] = path.into();
    value["earlier"] = keys.earlier().iter().map(describe).collect();
    value
}

fn say(text: &str) -> Result<(), Failure> {
    let written = writeln!(std::io::stdout(), "{text}");
    written.map_err(|error| Failure::new(rendezvous_service::exit::Exit::Runtime, error))
}
