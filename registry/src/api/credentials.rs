//! `/v1/credentials`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use rendezvous_wire::id::{CredentialId, EnvironmentId};
use serde::{Deserialize, Serialize};

use super::environments::{Page, name};
use super::{ApiError, authorize, body};
use crate::app::App;
use crate::credential::{IssueError, Issued, issue};
use crate::store::{Role, StoreError};
use crate::view::{CredentialView, IssuedView};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    role: Role,
    #[serde(default)]
    environment: Option<EnvironmentId>,
    #[serde(default)]
    name: String,
    /// Seconds from now.
    #[serde(default)]
    expires_in: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(super) struct List {
    credentials: Vec<CredentialView>,
}

pub(super) async fn create(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<(StatusCode, Json<IssuedView>), ApiError> {
    let (parts, payload) = request.into_parts();
    authorize(&app, &parts, Role::Admin, None).await?;
    let create: Create = body::read(payload).await?;
    let name = name(create.name)?;
    let lifetime = create.expires_in.map(|seconds| Duration::from_secs(seconds.into()));
    let issued = issue(
        &*app.store,
        create.role,
        create.environment,
        name,
        lifetime,
        app.clock.now(),
    )
    .await;
    let Issued { credential, token } = issued.map_err(|error| match error {
        IssueError::Store(StoreError::NotFound) => ApiError::not_found("there is no such environment"),
        IssueError::Store(other) => other.into(),
        IssueError::Random(error) => ApiError::internal(&error),
        rule @ (IssueError::Scope(_) | IssueError::Lifetime) => ApiError::invalid(rule),
    })?;
    tracing::info!(credential = %credential.id, role = %credential.role, "credential created");
    Ok((StatusCode::CREATED, Json(IssuedView::new(credential, token))))
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    query: Result<Query<Page>, QueryRejection>,
    request: Request,
) -> Result<Json<List>, ApiError> {
    let (parts, _) = request.into_parts();
    authorize(&app, &parts, Role::Admin, None).await?;
    let page = Page::of(query)?;
    let credentials = app.store.credentials(&page.after, page.limit).await?;
    Ok(Json(List {
        credentials: credentials.into_iter().map(CredentialView::from).collect(),
    }))
}

pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<StatusCode, ApiError> {
    let (parts, _) = request.into_parts();
    authorize(&app, &parts, Role::Admin, None).await?;
    let Path(text) = path.map_err(ApiError::invalid)?;
    let id = CredentialId::new(text).map_err(ApiError::invalid)?;
    match app.store.revoke_credential(&id, app.clock.now()).await {
        Ok(()) => {
            app.changed.notify_waiters();
            tracing::info!(credential = %id, "credential revoked");
            Ok(StatusCode::NO_CONTENT)
        }
        Err(StoreError::NotFound) => Err(ApiError::not_found(format!("there is no credential {id}"))),
        Err(other) => Err(other.into()),
    }
}
