//! `registry environment …`

use clap::Subcommand;
use rendezvous_service::exit::{Exit, Failure};
use rendezvous_wire::id::EnvironmentId;

use super::{DatabaseArgs, failed, or_dash, say, say_json, say_table};
use crate::clock::Clock;
use crate::store::{Access, MAX_PAGE, Store, StoreError};
use crate::view::EnvironmentView;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make an environment; makes the database when it is missing
    Create {
        /// 1 to 64 letters, digits, '_' or '-'
        id: EnvironmentId,
        /// What people call it
        #[arg(long, default_value = "")]
        name: String,
    },
    /// List environments
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show an environment, its registration, and whether its executor is connected
    Show {
        /// The environment
        id: EnvironmentId,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete an environment, cut its connections, and revoke the credentials that reach only it
    Delete {
        /// The environment
        id: EnvironmentId,
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
        Command::Create { id, name } => match store.create_environment(&id, &name, now).await {
            Ok(_) => say(id.as_str()),
            Err(StoreError::Conflict) => Err(Failure::new(Exit::Runtime, format!("environment {id} exists"))),
            Err(other) => Err(failed(other)),
        },
        Command::List { json } => list(store, json).await,
        Command::Show { id, json } => {
            let status = store.status(&id, now).await.map_err(failed)?;
            let view = EnvironmentView::from(status.ok_or_else(|| missing(&id))?);
            if json { say_json(&view) } else { show(view) }
        }
        Command::Delete { id } => match store.delete_environment(&id, now).await {
            Ok(()) => Ok(()),
            Err(StoreError::NotFound) => Err(missing(&id)),
            Err(other) => Err(failed(other)),
        },
    }
}

async fn list(store: &dyn Store, json: bool) -> Result<(), Failure> {
    let mut views: Vec<EnvironmentView> = Vec::new();
    loop {
        let after = views.last().map_or("", |view| view.id.as_str());
        let page = store.environments(after, MAX_PAGE).await.map_err(failed)?;
        if page.is_empty() {
            break;
        }
        views.extend(page.into_iter().map(EnvironmentView::from));
    }
    if json {
        return say_json(&views);
    }
    let rows: Vec<_> = views
        .into_iter()
        .map(|view| [view.id, view.created, or_dash(view.last_seen), or_dash(Some(view.name))])
        .collect();
    say_table(["ID", "CREATED", "LAST SEEN", "NAME"], &rows)
}

fn show(view: EnvironmentView) -> Result<(), Failure> {
    let mut rows = vec![
        ["id".to_owned(), view.id],
        ["name".to_owned(), or_dash(Some(view.name))],
        ["created".to_owned(), view.created],
        ["last seen".to_owned(), or_dash(view.last_seen)],
    ];
    if let Some(registration) = view.registration {
        rows.push(["registration".to_owned(), registration.id]);
        let kind = if registration.executor_key_persistent {
            "persistent"
        } else {
            "ephemeral"
        };
        let key = format!("{} ({kind})", registration.executor_fingerprint);
        rows.push(["executor key".to_owned(), key]);
        for key in registration.previous_fingerprints {
            rows.push(["earlier key".to_owned(), key.to_string()]);
        }
        rows.push(["credential".to_owned(), registration.credential]);
    }
    rows.push(match view.presence {
        Some(presence) => [
            "executor".to_owned(),
            format!("connected to {} since {}", presence.relay_url, presence.since),
        ],
        None => ["executor".to_owned(), "not connected".to_owned()],
    });
    for [name, value] in rows {
        say(&format!("{:14}{value}", format!("{name}:")))?;
    }
    Ok(())
}

fn missing(id: &EnvironmentId) -> Failure {
    Failure::new(Exit::Runtime, format!("there is no environment {id}"))
}
