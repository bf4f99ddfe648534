//! `/v1/environments` and `/v1/relays`.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use rendezvous_wire::id::EnvironmentId;
use serde::{Deserialize, Serialize};

use super::{ApiError, authorize, body};
use crate::app::App;
use crate::store::{MAX_PAGE, Role, StoreError};
use crate::view::{EnvironmentView, RelayView};

/// Longest name of an environment or credential, in bytes.
pub(super) const MAX_NAME: usize = 256;

/// A page of a list: what comes after an id.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// The last id of the page before.
    #[serde(default)]
    pub after: String,
    /// Rows, 1 to [`MAX_PAGE`].
    #[serde(default = "largest_page")]
    pub limit: u32,
}

const fn largest_page() -> u32 {
    MAX_PAGE
}

impl Page {
    pub(super) fn of(query: Result<Query<Self>, QueryRejection>) -> Result<Self, ApiError> {
        let Query(page) = query.map_err(ApiError::invalid)?;
        if !(1..=MAX_PAGE).contains(&page.limit) {
            return Err(ApiError::invalid(format!("limit must be 1 to {MAX_PAGE}")));
        }
        if page.after.contains('\0') || page.after.len() > MAX_NAME {
            return Err(ApiError::invalid("after must be an id"));
        }
        Ok(page)
    }
}

/// A name that both databases store and every terminal shows.
pub(super) fn name(text: String) -> Result<String, ApiError> {
    if text.len() > MAX_NAME || text.chars().any(char::is_control) {
        return Err(ApiError::invalid(format!(
            "name must be at most {MAX_NAME} bytes without control characters"
        )));
    }
    Ok(text)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    id: EnvironmentId,
    #[serde(default)]
    name: String,
}

#[derive(Debug, Serialize)]
pub(super) struct List {
    environments: Vec<EnvironmentView>,
}

#[derive(Debug, Serialize)]
pub(super) struct Relays {
    relays: Vec<RelayView>,
}

pub(super) async fn create(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<(StatusCode, Json<EnvironmentView>), ApiError> {
    let (parts, payload) = request.into_parts();
    authorize(&app, &parts, Role::Admin, None).await?;
    let create: Create = body::read(payload).await?;
    let name = name(create.name)?;
    match app.store.create_environment(&create.id, &name, app.clock.now()).await {
        Ok(environment) => Ok((StatusCode::CREATED, Json(environment.into()))),
        Err(StoreError::Conflict) => Err(ApiError::exists(format!("environment {} exists", create.id))),
        Err(other) => Err(other.into()),
    }
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    query: Result<Query<Page>, QueryRejection>,
    request: Request,
) -> Result<Json<List>, ApiError> {
    let (parts, _) = request.into_parts();
    authorize(&app, &parts, Role::Admin, None).await?;
    let page = Page::of(query)?;
    let environments = app.store.environments(&page.after, page.limit).await?;
    Ok(Json(List {
        environments: environments.into_iter().map(EnvironmentView::from).collect(),
    }))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<EnvironmentView>, ApiError> {
    let (parts, _) = request.into_parts();
    authorize(&app, &parts, Role::Admin, None).await?;
    let id = id(path)?;
    let status = app.store.status(&id, app.clock.now()).await?;
    Ok(Json(status.ok_or_else(|| ApiError::no_environment(&id))?.into()))
}

pub(super) async fn remove(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<StatusCode, ApiError> {
    let (parts, _) = request.into_parts();
    authorize(&app, &parts, Role::Admin, None).await?;
    let id = id(path)?;
    match app.store.delete_environment(&id, app.clock.now()).await {
        Ok(()) => {
            app.changed.notify_waiters();
            tracing::info!(environment = %id, "environment deleted");
            Ok(StatusCode::NO_CONTENT)
        }
        Err(StoreError::NotFound) => Err(ApiError::no_environment(&id)),
        Err(other) => Err(other.into()),
    }
}

pub(super) async fn relays(State(app): State<Arc<App>>, request: Request) -> Result<Json<Relays>, ApiError> {
    let (parts, _) = request.into_parts();
    authorize(&app, &parts, Role::Admin, None).await?;
    let relays = app.store.relays(app.clock.now()).await?;
    Ok(Json(Relays {
        relays: relays.into_iter().map(RelayView::from).collect(),
    }))
}

fn id(path: Result<Path<String>, PathRejection>) -> Result<EnvironmentId, ApiError> {
    let Path(text) = path.map_err(ApiError::invalid)?;
    EnvironmentId::new(text).map_err(ApiError::invalid)
}
