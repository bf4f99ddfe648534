//! An executor gets a new key, and those who knew the old one find it.

use anyhow::{Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::executor::{self, End};
use rendezvous_integration_tests::stock::Version;

use super::{ENVIRONMENT, House, text};

pub(super) async fn successor(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    let mut executor = house.executor(&[]).await?;
    let first = house.fingerprint(&[]).await?;
    house.works(&[]).await?;
    let rotated = house.identity(&["rotate"]).await?.success()?.text();
    let second = rotated.trim();
    ensure!(second != first && house.fingerprint(&[]).await? == second);
    let shown = house.identity(&["show"]).await?.success()?.text();
    ensure!(shown.contains(&format!("{first} (kept until ")), "{shown}");
    // It goes on with the old one until it is started again.
    house.works(&["--strict-executor-keys"]).await?;
    ensure!(house.known().await? == [first.as_str()]);

    executor.kill().await?;
    let _executor = house.executor(&[]).await?;
    // Where the new key cannot be remembered, nothing is said to its holder.
    let lock = house.known_executors().with_file_name("known_executors.lock");
    std::fs::remove_file(&lock)?;
    std::fs::create_dir(&lock)?;
    let finished = house.harness(&["run", "--", "echo", "it works"]).await?;
    ensure!(
        finished.code != 0 && finished.stdout.is_empty() && finished.stderr.contains("known_executors"),
        "{finished:?}"
    );
    std::fs::remove_dir(&lock)?;
    let finished = house
        .works(&["--strict-executor-keys", "--executor-fingerprint", &first])
        .await?;
    ensure!(
        finished.stderr.contains("has a new key") && finished.stderr.contains(&first),
        "{finished:?}"
    );
    ensure!(house.known().await? == [second]);
    // From then on it is the key that is known, and the old one is not.
    let finished = house.works(&["--executor-fingerprint", second]).await?;
    ensure!(finished.stderr.is_empty(), "{finished:?}");
    house
        .is_refused(&["--executor-fingerprint", &first], 77, &[&first])
        .await
}

/// Two rotations later, the first key still leads to the third.
pub(super) async fn long_absence(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    let mut executor = house.executor(&[]).await?;
    let first = house.fingerprint(&[]).await?;
    house.works(&[]).await?;
    let away = cx.folder().join("known-by-who-was-away");
    std::fs::copy(house.known_executors(), &away)?;
    for _ in 0..2 {
        house.identity(&["rotate", "--keep", "1d"]).await?.success()?;
        executor.kill().await?;
        executor = house.executor(&[]).await?;
        house.works(&["--strict-executor-keys"]).await?;
    }
    let third = house.fingerprint(&[]).await?;
    let away = ["--strict-executor-keys", "--known-executors", text(&away)?];
    let finished = house.works(&away).await?;
    ensure!(finished.stderr.contains(&first), "{finished:?}");
    ensure!(house.works(&away).await?.stderr.is_empty());
    ensure!(std::fs::read_to_string(away[2])?.contains(&third));
    Ok(())
}

/// A key that is not kept proves nothing.
pub(super) async fn forgotten_key(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    let mut executor = house.executor(&[]).await?;
    house.works(&[]).await?;
    let first = house.fingerprint(&[]).await?;
    house.identity(&["rotate"]).await?.success()?;
    let unknown = house
        .identity(&["forget", "0000-0000-0000-0000-0000-0000-0000"])
        .await?;
    ensure!(
        unknown.code == 64 && unknown.stderr.contains("no earlier key"),
        "{unknown:?}"
    );
    house.identity(&["forget", &first]).await?.success()?;
    executor.kill().await?;
    let _executor = house.executor(&[]).await?;
    house.is_refused(&[], 77, &["THE KEY HAS CHANGED", &first]).await?;
    let second = house.fingerprint(&[]).await?;
    house
        .harness(&["known-executors", "accept", &second])
        .await?
        .success()?;
    house.works(&["--strict-executor-keys"]).await?;
    Ok(())
}

/// Who brings a stock exec-server to the relay ends the channel, and has a key that lasts.
pub(super) async fn forwarder(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    let options = executor::Options::new(&cx, house.registry.url(), ENVIRONMENT, &house.executor_token)?;
    let stock = End::Stock(Version::ALL[1]);
    let (_listener, url) = executor::listen(&cx, stock, &options.workspace, &options.content).await?;
    let mut forwarder = executor::forward(&cx, &options, &url).await?;
    let first = house.fingerprint(&[]).await?;
    let key = house.executor_key().await?;
    ensure!(
        key["fingerprint"] == first.as_str() && key["standing"] == "new",
        "{key}"
    );
    house.identity(&["rotate"]).await?.success()?;
    forwarder.kill().await?;
    let _forwarder = executor::forward(&cx, &options, &url).await?;
    let finished = house.works(&["--strict-executor-keys"]).await?;
    ensure!(finished.stderr.contains("has a new key"), "{finished:?}");
    ensure!(house.known().await? == [house.fingerprint(&[]).await?]);
    Ok(())
}
