//! `registry credential …`

use std::time::Duration;

use clap::Subcommand;
use rendezvous_service::exit::{Exit, Failure};
use rendezvous_wire::id::{CredentialId, EnvironmentId};

use super::{DatabaseArgs, failed, lifetime, or_dash, say, say_json, say_table};
use crate::clock::Clock;
use crate::credential::{IssueError, issue};
use crate::store::{Access, MAX_PAGE, Role, Store, StoreError};
use crate::view::{CredentialView, IssuedView};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make a credential and print its token, once; makes the database when it is missing
    Create {
        /// What its holder is
        #[arg(long, value_enum)]
        role: Role,
        /// The only environment it reaches; for executors and harnesses
        #[arg(long, value_name = "ID")]
        environment: Option<EnvironmentId>,
        /// How long it lives, such as 30d; for ever without
        #[arg(long, value_name = "TIME", value_parser = lifetime::parse)]
        expires: Option<Duration>,
        /// What people call it
        #[arg(long, default_value = "")]
        name: String,
        /// Print a JSON object with the token and the id instead of the token alone
        #[arg(long)]
        json: bool,
    },
    /// List credentials, without their tokens
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a credential and cut its connections
    Revoke {
        /// The credential's id
        id: CredentialId,
    },
}

pub(super) async fn run(command: Command, database: &DatabaseArgs) -> Result<(), Failure> {
    let access = match command {
        Command::Create { .. } => Access::Create,
        _ => Access::Existing,
    };
    let store = database.open(access).await?;
    let result = perform(command, &*store).await;
    store.close().await;
    result
}

async fn perform(command: Command, store: &dyn Store) -> Result<(), Failure> {
    let now = Clock::system().now();
    match command {
        Command::Create {
            role,
            environment,
            expires,
            name,
            json,
        } => {
            let issued = issue(store, role, environment, name, expires, now)
                .await
                .map_err(refused)?;
            if json {
                say_json(&IssuedView::new(issued.credential, issued.token))
            } else {
                say(issued.token.expose())
            }
        }
        Command::List { json } => list(store, json).await,
        Command::Revoke { id } => match store.revoke_credential(&id, now).await {
            Ok(()) => Ok(()),
            Err(StoreError::NotFound) => Err(Failure::new(Exit::Runtime, format!("there is no credential {id}"))),
            Err(other) => Err(failed(other)),
        },
    }
}

fn refused(error: IssueError) -> Failure {
    match error {
        IssueError::Store(StoreError::NotFound) => Failure::new(
            Exit::Runtime,
            "there is no such environment; make it with `registry environment create`",
        ),
        IssueError::Store(error) => failed(error),
        IssueError::Random(error) => Failure::new(Exit::Runtime, error),
        rule @ (IssueError::Scope(_) | IssueError::Lifetime) => Failure::usage(rule),
    }
}

async fn list(store: &dyn Store, json: bool) -> Result<(), Failure> {
    let mut views: Vec<CredentialView> = Vec::new();
    loop {
        let after = views.last().map_or("", |view| view.id.as_str());
        let page = store.credentials(after, MAX_PAGE).await.map_err(failed)?;
        if page.is_empty() {
            break;
        }
        views.extend(page.into_iter().map(CredentialView::from));
    }
    if json {
        return say_json(&views);
    }
    let rows: Vec<_> = views.into_iter().map(row).collect();
    say_table(["ID", "ROLE", "ENVIRONMENT", "STATE", "LAST USED", "NAME"], &rows)
}

fn row(view: CredentialView) -> [String; 6] {
    let state = match (view.revoked, view.expires) {
        (Some(revoked), _) => format!("revoked {revoked}"),
        (None, Some(expires)) => format!("until {expires}"),
        (None, None) => "live".to_owned(),
    };
    [
        view.id,
        view.role.to_string(),
        or_dash(view.environment),
        state,
        or_dash(view.last_used),
        or_dash(Some(view.name)),
    ]
}
