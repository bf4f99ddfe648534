//! One tenant's bad handshakes at a real executor do not lock the others out.

use anyhow::{Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::model::{Call, Model};
use rendezvous_integration_tests::peer::{self, Peer, made_up_key};
use rendezvous_integration_tests::registry::Role;
use rendezvous_integration_tests::site::{ENVIRONMENT, RelayKind, Site};
use rendezvous_integration_tests::stock::{self, Version};

use crate::check;
use crate::ours::shell;

/// More than an executor tolerates on one connection.
const ATTEMPTS: usize = 20;

pub(crate) async fn ours(cx: Context) -> Result<()> {
    let site = Site::start(&cx, End::Ours, RelayKind::Embedded).await?;
    attack(&site).await?;
    let finished = shell(&cx, &site.access(), "echo served").await?.success()?;
    ensure!(finished.text() == "served\n", "{}", finished.text());
    Ok(())
}

pub(crate) async fn stock_0_145(cx: Context) -> Result<()> {
    stock_executor(cx, Version::V0_145).await
}

pub(crate) async fn stock_0_171(cx: Context) -> Result<()> {
    stock_executor(cx, Version::V0_171).await
}

async fn stock_executor(cx: Context, version: Version) -> Result<()> {
    let site = Site::start(&cx, End::Stock(version), RelayKind::Embedded).await?;
    attack(&site).await?;
    let model = Model::play([Call::exec("echo served").into()]).await?;
    let mut harness = site.stock_harness(version, "harness", &model)?;
    stock::finish(&mut harness).await?;
    check::once(&model.output(0, 0)?, "served")
}

/// A harness with a credential of its own sends handshakes that no executor can read.
async fn attack(site: &Site) -> Result<()> {
    let token = site.registry.credential(Role::Harness, Some(ENVIRONMENT)).await?;
    let mut sent = 0;
    for _ in 0..ATTEMPTS {
        let bundle = peer::connect(site.registry.url(), ENVIRONMENT, &token, &made_up_key(9)).await?;
        match Peer::dial(bundle.url.expose()).await? {
            Ok(mut peer) => {
                let stream = peer::stream_id()?;
                peer.send(peer::resume(&stream)).await?;
                peer.send(peer::handshake(&stream, vec![7; 3604])).await?;
                // The executor's reset, or the end of the connection.
                peer.next(super::yard::PROMPT).await?;
                sent += 1;
            }
            Err(status) => {
                ensure!(status == 429, "a harness with bad handshakes gets {status}");
                ensure!(sent > 0, "refused before its first handshake");
                return Ok(());
            }
        }
    }
    anyhow::bail!("{ATTEMPTS} bad handshakes of one credential were all let through")
}
