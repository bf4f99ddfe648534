//! What a refusal leads to.

use std::time::Duration;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::cloud::{Answer, Cloud, PLACE, Seen};
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::{Context, wait};
use serde_json::json;
use tokio::time::Instant;

use super::{account, expect_seen, gives_up, keyed, serving, start};

/// What an executor does after a refused upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    DialsAgain,
    RegistersAgain,
    GivesUp(i32),
}

const UPGRADES: [(u16, Then); 12] = [
    (302, Then::DialsAgain),
    (400, Then::GivesUp(69)),
    (401, Then::GivesUp(77)),
    (403, Then::GivesUp(77)),
    (404, Then::GivesUp(69)),
    (408, Then::DialsAgain),
    (409, Then::RegistersAgain),
    (410, Then::GivesUp(69)),
    (429, Then::DialsAgain),
    (500, Then::DialsAgain),
    (502, Then::DialsAgain),
    (503, Then::DialsAgain),
];

pub(crate) async fn upgrades(cx: Context, end: End) -> Result<()> {
    for (status, then) in UPGRADES {
        let mut cloud = Cloud::start(account()).await?;
        cloud.answer_upgrades([Answer::status(status)]);
        let executor = start(&cx, keyed(&cx, end, &cloud.url(), &account())?)?;
        expect_seen!(cloud, Seen::Register(arrival) if arrival.status == 200 => ());
        let refused = expect_seen!(cloud, Seen::Upgrade(arrival) if arrival.status == status => arrival);
        if then == Then::RegistersAgain {
            expect_seen!(cloud, Seen::Register(arrival) if arrival.status == 200 => ());
        }
        if let Then::GivesUp(code) = then {
            gives_up(executor, end, code).await?;
        } else {
            let dialled = expect_seen!(cloud, Seen::Upgrade(arrival) if arrival.status == 101 => arrival);
            ensure!(dialled.request.target == refused.request.target, "{dialled:?}");
        }
    }
    // Ours waits for as long as it is asked to.
    if end == End::Ours {
        let mut cloud = Cloud::start(account()).await?;
        let wait = 4;
        cloud.answer_upgrades([Answer {
            retry_after: Some(wait),
            ..Answer::status(503)
        }]);
        let _executor = start(&cx, keyed(&cx, end, &cloud.url(), &account())?)?;
        expect_seen!(cloud, Seen::Register(_) => ());
        expect_seen!(cloud, Seen::Upgrade(arrival) if arrival.status == 503 => ());
        let asked = Instant::now();
        expect_seen!(cloud, Seen::Upgrade(arrival) if arrival.status == 101 => ());
        ensure!(
            asked.elapsed() > Duration::from_millis(wait * 1000 - 500),
            "{:?}",
            asked.elapsed()
        );
    }
    Ok(())
}

/// A stock executor gives up at once; ours only when a repetition cannot help.
pub(crate) async fn registrations(cx: Context, end: End) -> Result<()> {
    for (status, code) in [
        (302, Some(69)),
        (400, Some(64)),
        (401, Some(77)),
        (403, Some(77)),
        (404, Some(64)),
        (408, None),
        (409, Some(69)),
        (410, Some(64)),
        (429, None),
        (500, None),
        (503, None),
    ] {
        let mut cloud = Cloud::start(account()).await?;
        cloud.answer_registers([Answer::status(status)]);
        let executor = start(&cx, keyed(&cx, end, &cloud.url(), &account())?)?;
        expect_seen!(cloud, Seen::Register(arrival) if arrival.status == status => ());
        match code.or_else(|| (end != End::Ours).then_some(1)) {
            Some(code) => drop(gives_up(executor, end, code).await?),
            None => drop(cloud.connected().await?),
        }
    }
    Ok(())
}

/// Least time that a place is dialled in vain before another one is asked for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Our executor dials a place that is gone for a while, then asks for another one, and serves there.
pub(crate) async fn gone_for_good(cx: Context) -> Result<()> {
    let mut cloud = Cloud::start(account()).await?;
    let executor = serving(&cx, End::Ours, &mut cloud).await?;
    let moved = format!("{}{PLACE}", cloud.client_url().trim_end_matches("/client")).replace("127.0.0.1", "localhost");
    cloud.answer_registers([Answer::registered(json!({"registration_id": "reg-2", "url": moved}))]);
    cloud.answer_upgrades(std::iter::repeat_n(Answer::status(503), 1000));

    cloud.cut();
    expect_seen!(cloud, Seen::Gone(_) => ());
    let lost = Instant::now();
    let mut dials = 0;
    loop {
        match cloud.next().await? {
            Seen::Upgrade(arrival) if arrival.status == 503 => dials += 1,
            Seen::Register(arrival) if arrival.status == 200 => break,
            other => anyhow::bail!("{other:?}"),
        }
    }
    ensure!(dials >= 4, "{dials} dials");
    ensure!(lost.elapsed() >= PATIENCE, "given up after {:?}", lost.elapsed());
    cloud.forget_upgrades();
    loop {
        match cloud.next().await? {
            // One may have been answered before.
            Seen::Upgrade(arrival) if arrival.status == 503 => {}
            Seen::Upgrade(arrival) if arrival.status == 101 => {
                let host = arrival.request.headers.get("host").map(String::as_str);
                ensure!(host.is_some_and(|host| host.starts_with("localhost:")), "{arrival:?}");
                break;
            }
            other => anyhow::bail!("{other:?}"),
        }
    }
    executor.stdout().contains("registration=reg-2", wait::SOON).await
}
