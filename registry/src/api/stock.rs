//! The three calls of the stock protocol. Their bytes and the reactions to each status are in `proto/README.md`,
//! "Registry API".

use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use axum::http::request::Parts;
use rendezvous_wire::id::{EnvironmentId, RegistrationId};
use rendezvous_wire::key::KeyDigest;
use rendezvous_wire::ticket::{Claims, Role as TicketRole};

use super::ApiError;
use crate::app::App;
use crate::clock::Timestamp;
use crate::store::Credential;
use crate::token;

mod connect;
mod register;
mod validate;

pub(super) use connect::connect;
pub(super) use register::register;
pub(super) use validate::validate;

/// The environment in the path.
type EnvironmentPath = Result<Path<String>, PathRejection>;

/// Checks the id before anything else is looked at.
fn environment(path: EnvironmentPath) -> Result<EnvironmentId, ApiError> {
    let Path(text) = path.map_err(ApiError::invalid)?;
    EnvironmentId::new(text.trim()).map_err(ApiError::invalid)
}

fn split(request: Request) -> (Parts, axum::body::Body) {
    request.into_parts()
}

/// The first whole second that is not before `end`: nobody is cut early.
fn whole_seconds(end: Timestamp) -> u64 {
    end.after(Duration::from_millis(999)).seconds()
}

/// What a ticket is made of.
struct Ticket<'a> {
    role: TicketRole,
    audience: &'a str,
    environment: &'a EnvironmentId,
    registration: &'a RegistrationId,
    generation: u64,
    credential: &'a Credential,
    key: Option<KeyDigest>,
    expires: Timestamp,
}

fn sign(app: &App, ticket: &Ticket<'_>, now: Timestamp) -> Result<String, ApiError> {
    let claims = Claims {
        aud: ticket.audience.to_owned(),
        iat: now.seconds(),
        exp: ticket.expires.seconds(),
        jti: token::id(""),
        role: ticket.role,
        env: ticket.environment.clone(),
        reg: ticket.registration.clone(),
        generation: ticket.generation,
        sub: ticket.credential.id.clone(),
        ends: ticket.credential.expires.map(whole_seconds),
        key: ticket.key,
    };
    app.signer.sign(&claims).map_err(|error| ApiError::internal(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_that_ends_within_a_second_is_good_for_all_of_it_at_a_relay() {
        let at = |millis| whole_seconds(Timestamp::from_millis(millis));
        assert_eq!([at(1000), at(1001), at(1999), at(2000)], [1, 2, 2, 2]);
    }
}
