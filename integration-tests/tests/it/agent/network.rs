//! The agent with a network of its own: what its rules allow is reached through the executor's proxy, and nothing else.

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::model::{Call, Model};
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::stock::{self, Mode, Version};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::check;

pub(crate) async fn rules(cx: Context, version: Version, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let routes = axum::Router::new().fallback(|| async { "reached" });
    let _server = AbortOnDropHandle::new(tokio::spawn(async move {
        let _ = axum::serve(listener, routes).await;
    }));
    let through = |host: &str| {
        Call::exec(format!(
            "curl -sS -m 20 --noproxy '' -x $HTTP_PROXY http://{host}/; echo rc-$?"
        ))
    };
    let script = [
        through(&address.to_string()),
        through("denied.test"),
        through("unknown.test"),
        Call::exec(format!("curl -sS -m 20 --noproxy '*' http://{address}/; echo rc-$?")),
    ];
    let model = Model::play(script.map(Into::into)).await?;
    let mut harness = site.stock_harness_in(Mode::ManagedNetwork, version, "harness", &model)?;
    stock::finish(&mut harness).await?;
    site.near_is_untouched()?;

    check::contains(&model.output(0, 0)?, "reached").context("an allowed host")?;
    for (turn, reason) in [(1, r#""reason":"denied""#), (2, r#""reason":"not_allowed""#)] {
        let output = model.output(turn, 0)?;
        check::contains(&output, r#""status":"blocked""#)?;
        check::contains(&output, reason)?;
    }
    let around = model.output(3, 0)?;
    ensure!(!around.contains("reached"), "the proxy can be passed by: {around}");
    check::contains(&around, "rc-7").context("past the proxy")
}
