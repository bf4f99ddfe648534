//! What the registry refuses, and what executors do not take from it.

use std::time::Duration;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::cloud::{Answer, Cloud, Seen, Tamper};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::sigv4::{Account, MAX_SKEW, Refused};
use serde_json::{Value, json};

use super::{account, expect_seen, gives_up, keyed, start};

/// Whoever changes a request on its way, signs with another key, for another place, or at another time is refused.
pub(crate) async fn signature(cx: Context, end: End) -> Result<()> {
    let mut cloud = Cloud::start(account()).await?;
    // Nothing of what is signed may be changed, on either request.
    let tampers: [(&str, Tamper, Refused); 4] = [
        ("target", |request| request.target.push('x'), Refused::Mismatch),
        ("body", |request| request.body.push(b' '), Refused::Mismatch),
        (
            "host",
            |request| drop(request.headers.insert("host".into(), "evil.example".into())),
            Refused::Mismatch,
        ),
        (
            "type",
            |request| drop(request.headers.insert("content-type".into(), "text/plain".into())),
            Refused::Mismatch,
        ),
    ];
    for (what, tamper, expected) in tampers {
        cloud.tamper(Some(tamper));
        refused(&cx, end, &mut cloud, expected, what).await?;
    }
    cloud.tamper(None);
    for (what, account, expected) in [
        (
            "key",
            Account {
                secret_access_key: "other".into(),
                ..account()
            },
            Refused::Mismatch,
        ),
        (
            "name",
            Account {
                access_key_id: "other".into(),
                ..account()
            },
            Refused::UnknownKey,
        ),
        (
            "region",
            Account {
                region: "other".into(),
                ..account()
            },
            Refused::Scope,
        ),
        (
            "service",
            Account {
                service: "other".into(),
                ..account()
            },
            Refused::Scope,
        ),
        (
            "token",
            Account {
                session_token: Some("other".into()),
                ..account()
            },
            Refused::Token,
        ),
    ] {
        cloud.set_account(account);
        refused(&cx, end, &mut cloud, expected, what).await?;
    }
    cloud.set_account(account());
    cloud.set_clock(2 * MAX_SKEW);
    refused(&cx, end, &mut cloud, Refused::Late, "clock").await?;

    // The upgrade is judged for itself.
    cloud.set_clock(Duration::ZERO);
    cloud.tamper(Some(|request| {
        if request.method == "GET" {
            request.target.push('x');
        }
    }));
    let executor = start(&cx, keyed(&cx, end, &cloud.url(), &account())?)?;
    expect_seen!(cloud, Seen::Register(arrival) if arrival.status == 200 => ());
    let verdict = expect_seen!(cloud, Seen::Upgrade(arrival) => arrival.verdict);
    ensure!(verdict == Err(Refused::Mismatch), "{verdict:?}");
    let log = gives_up(executor, end, 77).await?;
    ensure!(end != End::Ours || log.contains("clock"), "{log}");

    cloud.tamper(None);
    let _executor = start(&cx, keyed(&cx, end, &cloud.url(), &account())?)?;
    cloud.connected().await?;
    Ok(())
}

async fn refused(cx: &Context, end: End, cloud: &mut Cloud, expected: Refused, what: &str) -> Result<()> {
    let executor = start(cx, keyed(cx, end, &cloud.url(), &account())?)?;
    let arrival = expect_seen!(cloud, Seen::Register(arrival) => arrival);
    ensure!(arrival.verdict == Err(expected), "{what}: {arrival:?}");
    gives_up(executor, end, 77).await?;
    Ok(())
}

/// An executor does not serve where it was not sent, and not in clear text elsewhere.
pub(crate) async fn reply(cx: Context, end: End) -> Result<()> {
    let mut cloud = Cloud::start(account()).await?;
    for (members, code) in [
        (json!({"environment_id": "other"}), 69),
        (json!({"transport": "other"}), 69),
        (json!({"registration_id": ""}), 69),
        (json!({"registration_id": Value::Null}), 69),
        (json!({"url": " "}), 69),
        (json!({"url": "ws://192.0.2.1/"}), 64),
        (json!({"url": "ws://localhost.example/"}), 64),
        (json!({"url": "http://127.0.0.1/"}), 64),
    ] {
        cloud.answer_registers([Answer::registered(members.clone())]);
        let executor = start(&cx, keyed(&cx, end, &cloud.url(), &account())?)?;
        expect_seen!(cloud, Seen::Register(arrival) if arrival.status == 200 => ());
        let log = gives_up(executor, end, code).await?;
        ensure!(
            end != End::Ours || !log.contains("192.0.2.1"),
            "the URL may hold a secret: {log}"
        );
    }
    // Nothing is sent to another machine without TLS.
    let executor = start(&cx, keyed(&cx, end, "http://192.0.2.1", &account())?)?;
    gives_up(executor, end, 64).await?;
    Ok(())
}
