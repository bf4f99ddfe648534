//! More streams than an executor takes, and a harness that never reads.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rendezvous_integration_tests::peer::{self, Peer, made_up_key};
use rendezvous_integration_tests::{Context, wait};
use rendezvous_wire::frame::Body;
use rendezvous_wire::key::PublicKey;
use rendezvous_wire::limits::{MAX_STREAMS, MAX_STREAMS_PER_HARNESS};
use tokio::time::Instant;

use super::yard::{PROMPT, Yard, expect, open_stream, stream_works};

/// What is sent to the harness that never reads.
const FLOOD: usize = 128 * 1024 * 1024;
/// Payload of one record.
const RECORD: usize = 61_456;
/// Connections of one harness key that a relay lets through to one executor.
const CONNECTIONS_OF_ONE_KEY: usize = MAX_STREAMS / 4 * 3;

pub(crate) async fn one_stream_too_many(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let mut executor = yard.executor(&made_up_key(1)).await?;
    let mut harnesses = Vec::new();
    let (greedy, other) = (made_up_key(9), made_up_key(10));
    for number in 0..MAX_STREAMS {
        let key = if number < MAX_STREAMS_PER_HARNESS {
            &greedy
        } else {
            &other
        };
        if number == MAX_STREAMS_PER_HARNESS {
            no_more_of(&yard, &greedy, CONNECTIONS_OF_ONE_KEY - number).await?;
        }
        let mut harness = come(&yard, key).await.with_context(|| format!("harness {number}"))?;
        let stream = open_stream(&mut executor, &mut harness)
            .await
            .with_context(|| format!("stream {number}"))?;
        harnesses.push((harness, stream));
    }
    let dialled = Peer::dial(&yard.harness_url_for(&other).await?).await?;
    ensure!(
        dialled.as_ref().err() == Some(&503),
        "stream {}: {dialled:?}",
        MAX_STREAMS + 1
    );
    for (seq, (harness, stream)) in harnesses.iter_mut().enumerate() {
        stream_works(&mut executor, harness, stream, u32::try_from(seq)?).await?;
    }
    // One leaves, one can come.
    let (left, stream) = harnesses.pop().context("a harness")?;
    drop(left);
    let reset = expect(&mut executor, |body| matches!(body, Body::Reset { .. })).await?;
    ensure!(reset.stream_id == stream, "the reset is for another stream");
    let mut next = come(&yard, &other).await?;
    open_stream(&mut executor, &mut next).await?;
    yard.memory_is_bounded()
}

/// A key may connect so many more times; the next time it is told so.
async fn no_more_of(yard: &Yard, key: &PublicKey, more: usize) -> Result<()> {
    let mut silent = Vec::new();
    for _ in 0..more {
        silent.push(Peer::open(&yard.harness_url_for(key).await?).await?);
    }
    let dialled = Peer::dial(&yard.harness_url_for(key).await?).await?;
    ensure!(dialled.as_ref().err() == Some(&429), "one more of a key: {dialled:?}");
    Ok(())
}

/// A harness that finds a place, if need be once those who have just left are missed.
async fn come(yard: &Yard, key: &PublicKey) -> Result<Peer> {
    let dial = || async {
        let url = yard.harness_url_for(key).await.ok()?;
        Peer::dial(&url).await.ok()?.ok()
    };
    wait::until("a place on the executor's connection", wait::SOON, dial).await
}

pub(crate) async fn harness_never_reads(cx: Context) -> Result<()> {
    let yard = Yard::open(&cx).await?;
    let mut executor = yard.executor(&made_up_key(1)).await?;
    let mut deaf = yard.harness().await?;
    let deaf_stream = open_stream(&mut executor, &mut deaf).await?;
    let mut honest = yard.harness().await?;
    let honest_stream = open_stream(&mut executor, &mut honest).await?;
    let rest = yard.registry.program.resident()?;

    let mut slowest = Duration::ZERO;
    let mut sent = 0;
    let mut seq = 0;
    let mut cut = false;
    while sent < FLOOD {
        let flood = peer::data(&deaf_stream, seq, vec![5; RECORD]);
        executor.send(flood).await?;
        sent += RECORD;
        if seq % 100 == 0 {
            let begin = Instant::now();
            executor.send(peer::data(&honest_stream, seq, vec![6; 100])).await?;
            expect(&mut honest, |body| matches!(body, Body::Data { .. })).await?;
            slowest = slowest.max(begin.elapsed());
        }
        seq += 1;
        if !cut {
            // The relay gives up the deaf harness at some point and says so.
            if let Ok(event) = executor.next(Duration::from_micros(1)).await {
                ensure!(
                    matches!(&event, peer::Event::Frame(frame) if frame.stream_id == deaf_stream),
                    "{event:?}"
                );
                cut = true;
            }
        }
    }
    ensure!(slowest < PROMPT, "the other harness waited {slowest:?}");
    let grown = yard.registry.program.resident()?.saturating_sub(rest);
    ensure!(
        grown < 48 * 1024 * 1024,
        "the relay's memory grew by {} MiB",
        grown / 1024 / 1024
    );
    if !cut {
        let reset = expect(&mut executor, |body| matches!(body, Body::Reset { .. })).await?;
        ensure!(reset.stream_id == deaf_stream, "the reset is for another stream");
    }
    stream_works(&mut executor, &mut honest, &honest_stream, seq).await?;
    drop(deaf);
    Ok(())
}
