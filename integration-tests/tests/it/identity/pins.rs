//! What a harness does with keys that it knows, and with others.

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::executor::{self, End};
use rendezvous_integration_tests::peer::{self, Event, Peer};
use rendezvous_integration_tests::stock::Version;
use rendezvous_integration_tests::{Context, wait};
use rendezvous_transport::connector::Connector;
use rendezvous_transport::policy::{ClearText, RegistryUrl};
use rendezvous_transport::registry::{Client, Options};
use rendezvous_transport::tls::Trust;
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::EnvironmentId;
use rendezvous_wire::identity::IdentityClaim;
use rendezvous_wire::secret::Secret;
use serde_json::{Value, json};

use super::{ENVIRONMENT, House, member, text};

/// A restarted executor is the same one, for the registry, the harness and people.
pub(super) async fn restart(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    let mut executor = house.executor(&[]).await?;
    let fingerprint = house.fingerprint(&[]).await?;
    let key = house.executor_key().await?;
    ensure!(
        key["fingerprint"] == fingerprint.as_str() && key["persistent"] == true,
        "{key}"
    );
    ensure!(key["standing"] == "new", "{key}");
    ensure!(house.known().await? == [fingerprint.as_str()]);
    executor.kill().await?;
    let _executor = house.executor(&[]).await?;
    ensure!(house.fingerprint(&[]).await? == fingerprint);
    house.works(&["--strict-executor-keys"]).await?;
    let key = house.executor_key().await?;
    ensure!(key["standing"] == "known" && key["since"].is_string(), "{key}");
    ensure!(house.known().await? == [fingerprint.as_str()]);

    let shown = house
        .registry
        .manage(&["environment", "show", ENVIRONMENT, "--json"])
        .await?
        .success()?;
    let shown: Value = serde_json::from_slice(&shown.stdout)?;
    let registration = &shown["registration"];
    ensure!(registration["executor_fingerprint"] == fingerprint.as_str(), "{shown}");
    ensure!(registration["executor_key_persistent"] == true, "{shown}");
    let shown = house
        .registry
        .manage(&["environment", "show", ENVIRONMENT])
        .await?
        .success()?;
    ensure!(
        shown.text().contains(&format!("{fingerprint} (persistent)")),
        "{}",
        shown.text()
    );
    Ok(())
}

/// Whoever has the registry can lead a harness to an executor of its own; one that has been there before is not led.
pub(super) async fn swapped_key(cx: Context) -> Result<()> {
    let mut house = House::open(&cx).await?;
    let mut executor = house.executor(&[]).await?;
    house.works(&[]).await?;
    let known = house.fingerprint(&[]).await?;
    executor.kill().await?;
    house.fall().await?;
    let file = cx.folder().join("another-identity");
    let identity = ["--identity-file", text(&file)?];
    let other = house.executor_called("executor of somebody else", &identity).await?;
    let shown = house.fingerprint(&identity).await?;

    let registry = house.access().registry;
    let accept = format!("harness -e {ENVIRONMENT} --registry-url {registry} known-executors accept {shown}");
    let words = ["THE KEY HAS CHANGED", &known, &shown, "persistent", &accept];
    house.is_refused(&[], 77, &words).await?;
    // Nobody came to the other executor, not even for a handshake.
    ensure!(!other.stderr().text().contains("harness"), "{}", other.stderr().text());
    // A harness that knows nothing, or does not want to know, falls for it.
    house.works(&["--known-executors", "none"]).await?;
    other.stderr().contains("harness admitted", wait::SOON).await?;

    let wrong = house.harness(&["known-executors", "accept", &known]).await?;
    ensure!(wrong.code == 77 && wrong.stderr.contains(&shown), "{wrong:?}");
    house.is_refused(&[], 77, &["THE KEY HAS CHANGED"]).await?;
    house.harness(&["known-executors", "accept", &shown]).await?.success()?;
    house.works(&["--strict-executor-keys"]).await?;
    ensure!(house.known().await? == [shown]);
    Ok(())
}

/// A registry can say that a key comes after the known one. It is asked for a proof that it does not have.
pub(super) async fn false_successor(cx: Context) -> Result<()> {
    let mut house = House::open(&cx).await?;
    let mut executor = house.executor(&[]).await?;
    house.works(&[]).await?;
    executor.kill().await?;
    house.fall().await?;
    let registered = house.harness(&["known-executors", "list"]).await?.success()?;
    let known = std::fs::read_to_string(house.known_executors())?;
    let key = pinned(&known)?;

    let client = Client::new(&Options {
        url: RegistryUrl::parse(house.registry.url(), ClearText::Loopback)?,
        credential: Secret::new(house.executor_token.clone()),
        account: None,
        connector: Connector::direct(Trust::new(None)?),
    })?;
    let claim = IdentityClaim {
        persistent: true,
        previous: vec![key],
    };
    let place = client
        .register_as(&EnvironmentId::new(ENVIRONMENT)?, &peer::made_up_key(7), &claim)
        .await?;
    // The relay of the registry that was there before may still be named.
    let mut urls = std::iter::once(&place.url).chain(&place.alternatives);
    let mut other = loop {
        let url = urls.next().context("no relay that answers")?;
        if let Ok(peer) = Peer::open(url.expose()).await {
            break peer;
        }
    };
    // A refused handshake may be a bad moment of the relay's: the harness asks three times.
    let watching = tokio::spawn(async move {
        let mut seen = Vec::new();
        while seen.len() < 2 * 3 {
            match other.next(wait::SOON).await? {
                Event::Frame(Frame { stream_id, body, .. }) => {
                    if matches!(body, Body::Handshake { .. }) {
                        other.send(Frame::reset(stream_id, "no")).await?;
                    }
                    seen.push(body);
                }
                other => anyhow::bail!("{other:?}"),
            }
        }
        anyhow::Ok(seen)
    });
    let words = ["THE KEY HAS CHANGED", "does not confirm", "no request was sent"];
    house.is_refused(&[], 77, &words).await?;
    let seen = watching.await??;
    let is_one_attempt = |frames: &[Body]| matches!(frames, [Body::Resume { .. }, Body::Handshake { .. }]);
    ensure!(seen.chunks(2).all(is_one_attempt), "{seen:?}");
    ensure!(house.harness(&["known-executors", "list"]).await?.text() == registered.text());
    Ok(())
}

/// The digest of the only key in a file of known executors.
fn pinned(text: &str) -> Result<rendezvous_wire::key::KeyDigest> {
    let line = text.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let key: rendezvous_wire::key::PublicKey = serde_json::from_value(json!({
        "suite": rendezvous_wire::key::SUITE,
        "x25519_public_key": words.get(4),
        "mlkem768_public_key": words.get(5),
    }))?;
    Ok(key.digest())
}

/// A key that lasts is not followed by one that does not.
pub(super) async fn ephemeral_executor(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    let mut executor = house.executor(&[]).await?;
    house.works(&[]).await?;
    executor.kill().await?;
    let mut executor = house.executor(&["--ephemeral-identity"]).await?;
    let remove = format!("harness known-executors remove {ENVIRONMENT}");
    house
        .is_refused(&[], 77, &["THE KEY HAS CHANGED", "ephemeral", &remove])
        .await?;
    house
        .harness(&["known-executors", "remove", ENVIRONMENT])
        .await?
        .success()?;
    let again = house.harness(&["known-executors", "remove", ENVIRONMENT]).await?;
    ensure!(again.code == 1 && again.stderr.contains("knows no key"), "{again:?}");
    is_shown_and_forgotten(&house).await?;
    // The next one is another, and nobody minds.
    executor.kill().await?;
    let _executor = house.executor(&["--ephemeral-identity"]).await?;
    is_shown_and_forgotten(&house).await?;
    house
        .is_refused(&["--strict-executor-keys"], 77, &["is not known"])
        .await
}

/// Stock executors have a new key each time they start.
pub(super) async fn stock_executor(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    for _ in 0..2 {
        let options = executor::Options::new(&cx, house.registry.url(), ENVIRONMENT, &house.executor_token)?;
        let mut executor = executor::start(&cx, End::Stock(Version::ALL[1]), &options)?;
        is_shown_and_forgotten(&house).await?;
        executor.kill().await?;
    }
    Ok(())
}

async fn is_shown_and_forgotten(house: &House) -> Result<()> {
    let key = house.executor_key().await?;
    ensure!(
        key["persistent"] == false && key["standing"] == "notRemembered",
        "{key}"
    );
    let text = house.harness(&["info"]).await?.success()?.text();
    let fingerprint = member(&key, "fingerprint")?;
    ensure!(
        text.contains(&format!("{fingerprint} (ephemeral, not remembered)")),
        "{text}"
    );
    ensure!(house.known().await?.is_empty());
    Ok(())
}

/// Who knows the fingerprint needs no first time.
pub(super) async fn expected_fingerprint(cx: Context) -> Result<()> {
    let house = House::open(&cx).await?;
    let created = house.identity(&["create"]).await?.success()?.text();
    let fingerprint = created.trim();
    let again = house.identity(&["create"]).await?;
    ensure!(again.code == 64 && again.stderr.contains("exists already"), "{again:?}");
    let executor = house.executor(&[]).await?;
    house
        .is_refused(&["--strict-executor-keys"], 77, &["is not known", fingerprint])
        .await?;
    let other = "0000-0000-0000-0000-0000-0000-0000";
    house
        .is_refused(&["--executor-fingerprint", other], 77, &[other, fingerprint])
        .await?;
    house
        .is_refused(&["--executor-fingerprint", "0000"], 64, &["fingerprint"])
        .await?;
    ensure!(house.known().await?.is_empty());
    ensure!(
        !executor.stderr().text().contains("admitted"),
        "{}",
        executor.stderr().text()
    );
    let expected = fingerprint.to_uppercase();
    house
        .works(&["--strict-executor-keys", "--executor-fingerprint", &expected])
        .await?;
    ensure!(house.known().await? == [fingerprint]);
    house
        .is_refused(&["--executor-fingerprint", other], 77, &[other, fingerprint])
        .await?;
    // A file that is broken is no reason to believe anybody.
    std::fs::write(house.known_executors(), "rubbish\n")?;
    house.is_refused(&[], 64, &["line 1"]).await
}
