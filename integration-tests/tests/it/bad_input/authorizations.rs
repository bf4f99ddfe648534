//! Authorizations that are replayed, bound to something else, or expired.

use std::time::Duration;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::peer::{self, made_up_key};
use rendezvous_integration_tests::site::ENVIRONMENT;
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::limits::AUTHORIZATION_LIFETIME;
use rendezvous_wire::registry::{ConnectResponse, ValidateResponse};
use serde_json::json;

use super::yard::Yard;

/// What an executor asks about.
struct Question<'a> {
    registration: &'a str,
    key: PublicKey,
    authorization: &'a str,
    stream: &'a str,
}

impl Question<'_> {
    async fn ask(&self, yard: &Yard) -> Result<bool> {
        let url = format!("{}/cloud/environment/{ENVIRONMENT}/validate", yard.registry.url());
        let body = json!({"executor_registration_id": self.registration, "harness_public_key": self.key,
            "harness_key_authorization": self.authorization});
        let request = reqwest::Client::new()
            .post(url)
            .bearer_auth(&yard.executor_token)
            .header(rendezvous_wire::registry::STREAM_ID_HEADER, self.stream)
            .json(&body);
        let response = request.send().await?;
        ensure!(response.status() == 200, "status {}", response.status());
        Ok(response.json::<ValidateResponse>().await?.valid)
    }
}

fn question<'a>(bundle: &'a ConnectResponse, stream: &'a str) -> Question<'a> {
    Question {
        registration: &bundle.executor_registration_id,
        key: made_up_key(2),
        authorization: bundle.harness_key_authorization.expose(),
        stream,
    }
}

pub(crate) async fn bound_and_used_once(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let _executor = yard.executor(&made_up_key(1)).await?;
    let connect = async || peer::connect(yard.registry.url(), ENVIRONMENT, &yard.harness_token, &made_up_key(2)).await;

    let bundle = connect().await?;
    let other_key = Question {
        key: made_up_key(3),
        ..question(&bundle, "s1")
    };
    ensure!(!other_key.ask(&yard).await?, "bound to another key, and valid");
    let other_registration = Question {
        registration: "made-up",
        ..question(&bundle, "s1")
    };
    ensure!(
        !other_registration.ask(&yard).await?,
        "bound to another registration, and valid"
    );
    for forged in [
        "",
        "x",
        &"x".repeat(4096),
        &"x".repeat(9000),
        &format!("{}x", bundle.harness_key_authorization.expose()),
    ] {
        let forged = Question {
            authorization: forged,
            ..question(&bundle, "s1")
        };
        ensure!(!forged.ask(&yard).await?, "a forged authorization is valid");
    }

    ensure!(
        question(&bundle, "s1").ask(&yard).await?,
        "a good authorization is refused"
    );
    ensure!(
        question(&bundle, "s1").ask(&yard).await?,
        "the same question again is refused"
    );
    ensure!(
        !question(&bundle, "s2").ask(&yard).await?,
        "replayed on another stream, and valid"
    );

    // A newer registration ends the authorizations of the older one.
    let bundle = connect().await?;
    drop(_executor);
    let _newer = yard.executor(&made_up_key(4)).await?;
    ensure!(
        !question(&bundle, "s3").ask(&yard).await?,
        "an authorization of an older registration is valid"
    );
    Ok(())
}

pub(crate) async fn expire(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let _executor = yard.executor(&made_up_key(1)).await?;
    let bundle = peer::connect(yard.registry.url(), ENVIRONMENT, &yard.harness_token, &made_up_key(2)).await?;
    // Nothing announces the end of a lifetime.
    tokio::time::sleep(AUTHORIZATION_LIFETIME + Duration::from_secs(1)).await;
    ensure!(
        !question(&bundle, "s1").ask(&yard).await?,
        "an expired authorization is valid"
    );
    Ok(())
}
