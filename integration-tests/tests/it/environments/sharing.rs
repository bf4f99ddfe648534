//! Who comes while an executor is being reached shares the attempt; a fault is mended once for all; nothing happens here
//! instead of there.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::join_all;
use rendezvous_harness::environments::Status;
use rendezvous_harness::{Environment, HarnessError, LinkState};
use rendezvous_integration_tests::executor::{self, End};
use rendezvous_integration_tests::link::{Link, Party};
use rendezvous_integration_tests::{Context, Program, wait};

use super::{ENDS, listener, output, stdio_server, uri};
use crate::runner::{Case, When};

/// Callers at once.
const CALLERS: usize = 16;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("environments::no_fall_back", When::Always, no_fall_back),
        Case::new("environments::programs_start_late", When::Always, programs_start_late),
    ];
    cases.extend(ENDS.map(|end| {
        let name = format!("environments::{}::sharing", end.name());
        Case::new(name, When::Always, move |cx| sharing(cx, end))
    }));
    cases
}

/// A listener behind a link.
async fn behind(cx: &Context, end: End, link: &Link) -> Result<Program> {
    let folders = (cx.subfolder("workspace")?, cx.subfolder("far-content")?);
    let (server, url) = executor::listen(cx, end, &folders.0, &folders.1).await?;
    let address: SocketAddr = url.trim_start_matches("ws://").parse()?;
    link.lead_to(address);
    Ok(server)
}

async fn all(environment: &Environment) -> Vec<Result<String>> {
    join_all((0..CALLERS).map(|_| output(environment, &["echo", "here"]))).await
}

async fn all_succeed(environment: &Environment) -> Result<()> {
    for result in all(environment).await {
        ensure!(result? == "here\n");
    }
    Ok(())
}

async fn sharing(cx: Context, end: End) -> Result<()> {
    let link = Link::bind().await?;
    let server = behind(&cx, end, &link).await?;
    let environment = listener(&format!("ws://{}", link.address()));
    all_succeed(&environment).await.context("the first calls")?;
    ensure!(
        link.arrived(Party::Other) == 1,
        "{} connections",
        link.arrived(Party::Other)
    );

    // The connection is lost: another takes its place, and the session goes on. It may be refused once or twice, until the
    // executor has noticed the loss; but nobody who comes opens one.
    let session = environment.harness().await?.context("a session")?;
    link.cut(Party::Other);
    let mut state = session.link_state();
    wait::until_true("a second connection", wait::SOON, || link.arrived(Party::Other) >= 2).await?;
    state.wait_for(|state| matches!(state, LinkState::Connected)).await?;
    let before = link.arrived(Party::Other);
    all_succeed(&environment).await.context("calls after a cut")?;
    ensure!(
        link.arrived(Party::Other) == before,
        "{} more connections",
        link.arrived(Party::Other) - before
    );
    let same = environment.harness().await?.context("the session")?;
    ensure!(
        same.status().await.is_ok() && session.status().await.is_ok(),
        "the session is lost"
    );

    while_the_connection_is_lost(&environment, &link).await?;

    // The executor is another one, which does not know the session: that is lost, and one other opened for all.
    drop(server);
    let _server = behind(&cx, end, &link).await?;
    link.cut(Party::Other);
    state.wait_for(|state| matches!(state, LinkState::Failed(_))).await?;
    ensure!(matches!(
        environment.status().await,
        Status::Failed(HarnessError::Lost(_))
    ));
    let before = link.arrived(Party::Other);
    all_succeed(&environment).await.context("calls at another executor")?;
    ensure!(
        link.arrived(Party::Other) == before + 1,
        "{} more connections",
        link.arrived(Party::Other) - before
    );
    ensure!(session.status().await.is_err(), "the lost session works");
    Ok(())
}

/// Calls that come while the connection is lost wait for it, and open no other session.
async fn while_the_connection_is_lost(environment: &Environment, link: &Link) -> Result<()> {
    let session = environment.harness().await?.context("a session")?;
    // A question that is on its way ends with the connection.
    link.hold(Party::Other, true);
    let lose = async {
        link.refuse(Party::Other, true);
        link.cut(Party::Other);
    };
    let started = std::time::Instant::now();
    let (status, ()) = tokio::join!(environment.status(), lose);
    ensure!(matches!(status, Status::Recovering { .. }), "{status:?}");
    ensure!(
        started.elapsed() < std::time::Duration::from_secs(9),
        "it was asked for too long"
    );
    link.hold(Party::Other, false);
    let back = async {
        let mut state = session.link_state();
        state
            .wait_for(|state| matches!(state, LinkState::Recovering { .. }))
            .await?;
        link.refuse(Party::Other, false);
        anyhow::Ok(())
    };
    let (calls, back) = tokio::join!(all_succeed(environment), back);
    calls.context("calls while the connection is lost")?;
    back?;
    let same = environment.harness().await?.context("the session")?;
    ensure!(same.link_state().same_channel(&session.link_state()), "another session");
    Ok(())
}

/// While an executor cannot be reached, calls fail and do nothing here; when it can be, they work.
async fn no_fall_back(cx: Context) -> Result<()> {
    let link = Link::bind().await?;
    let environment = listener(&format!("ws://{}", link.address()));
    let marker = cx.folder().join("marker");
    let touch = ["touch", &marker.to_string_lossy()].map(ToOwned::to_owned);
    let touch = [touch[0].as_str(), touch[1].as_str()];
    for result in join_all((0..CALLERS).map(|_| output(&environment, &touch))).await {
        let error = result.err().context("it ran somewhere")?;
        let error = error.downcast::<HarnessError>()?;
        ensure!(
            matches!(error, HarnessError::Unreachable(_)) && error.exit_code() == 69,
            "{error:?}"
        );
        ensure!(error.is_retryable(), "{error:?}");
    }
    ensure!(
        link.arrived(Party::Other) == 1,
        "{} attempts",
        link.arrived(Party::Other)
    );
    let error = environment.files().read_file(&uri(cx.folder())?).await;
    ensure!(error.as_ref().is_err_and(|error| !error.is_refused()), "{error:?}");
    ensure!(!marker.exists(), "it ran here");
    let _server = behind(&cx, End::Ours, &link).await?;
    all_succeed(&environment).await
}

/// A program starts with the first call, once for all callers, and ends with the environment.
async fn programs_start_late(cx: Context) -> Result<()> {
    let folder = cx.subfolder("work")?;
    let environment = Environment::remote("program", stdio_server(&cx, End::Ours, &folder)?);
    ensure!(matches!(environment.status().await, Status::Unused));
    let parents = join_all((0..CALLERS).map(|_| output(&environment, &["sh", "-c", "echo $PPID"]))).await;
    let parents = parents.into_iter().collect::<Result<Vec<_>>>()?;
    ensure!(parents.iter().all(|parent| *parent == parents[0]), "{parents:?}");
    ensure!(matches!(environment.status().await, Status::Ready));
    let process = format!("/proc/{}", parents[0].trim());
    ensure!(std::fs::exists(&process)?, "{process}");
    drop(environment);
    wait::until_true("the program's end", wait::SOON, || {
        !std::path::Path::new(&process).exists()
    })
    .await
}
