//! A relay that cannot be trusted, amid a stream that is reliable: whatever it does costs time, and nothing else.

use std::collections::HashMap;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::site::{RelayKind, Site};
use rendezvous_integration_tests::tap::{Sender, Tap};
use rendezvous_integration_tests::{Context, Program, wait};
use rendezvous_wire::frame::{Body, Frame};
use rendezvous_wire::id::StreamId;

use super::{finish_counter, site_saw, start_counter};
use crate::runner::{Case, When};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("resume::attacks::forged_resets", When::Always, forged_resets),
        Case::new("resume::attacks::replayed_resumes", When::Always, replayed_resumes),
        Case::new("resume::attacks::forged_acknowledgements", When::Always, forged_acks),
        Case::new("resume::attacks::stolen_stream_id", When::Always, stolen_stream_id),
        Case::new("resume::attacks::lossy_relay", When::Always, lossy_relay),
    ]
}

/// A site whose relay is the tap, and a harness whose command writes through it.
struct Scene {
    site: Site,
    tap: Tap,
    harness: Program,
    stream: StreamId,
}

impl Scene {
    async fn start(cx: &Context) -> Result<Self> {
        let mut site = Site::start_without_executor(cx, End::Ours, RelayKind::StandAlone).await?;
        let honest = site.relay.as_ref().context("no relay")?.address()?;
        let tap = Tap::listen(honest).await?;
        site.link.lead_to(tap.address());
        site.start_executor().await?;
        let harness = start_counter(cx, &site, &[]).await?;
        let stream = tap
            .wait("a frame of the harness", wait::SOON, |frames| {
                let (_, frame) = frames.iter().find(|(sender, _)| *sender == Sender::Harness)?;
                Some(Frame::decode(frame.clone()).ok()?.stream_id)
            })
            .await?;
        Ok(Self {
            site,
            tap,
            harness,
            stream,
        })
    }

    /// The proved resumes of one end so far, as they were sent.
    fn resumes(&self, of: Sender) -> Vec<Bytes> {
        let frames = self.tap.frames().into_iter();
        let own = frames.filter(|(sender, _)| *sender == of).map(|(_, frame)| frame);
        own.filter(is_resume).collect()
    }

    async fn wait_resumes(&self, of: Sender, count: usize) -> Result<()> {
        self.tap
            .wait("a resume", wait::SOON, |frames| {
                let own = frames
                    .iter()
                    .filter(|(sender, frame)| *sender == of && is_resume(frame));
                (own.count() >= count).then_some(())
            })
            .await
    }

    fn reset(&self) -> Bytes {
        Frame::reset(self.stream.clone(), "forged").to_bytes()
    }

    /// The output goes on behind what happened.
    async fn goes_on(&self, marks: usize) -> Result<()> {
        let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
        let now = lines(&self.harness.stdout().bytes());
        let more = |text: &[u8]| (lines(text) > now + marks * 25).then_some(());
        let seen = self.harness.stdout().wait(wait::SOON, more).await;
        seen.context("the output stands still")
    }

    /// The command ends well, over the one stream that there ever was.
    async fn finish(mut self, resumes: usize) -> Result<()> {
        finish_counter(&self.site, &mut self.harness).await?;
        site_saw(&self.site, 1, resumes)?;
        let frames = self.tap.frames();
        let handshakes = frames.iter().filter(|(_, frame)| {
            Frame::decode(frame.clone()).is_ok_and(|frame| matches!(frame.body, Body::Handshake { .. }))
        });
        ensure!(handshakes.count() == 2, "there was another handshake");
        Ok(())
    }
}

fn is_resume(frame: &Bytes) -> bool {
    Frame::decode(frame.clone()).is_ok_and(|frame| matches!(frame.body, Body::Reattach { .. }))
}

/// Each end is told that the stream is over.
async fn forged_resets(cx: Context) -> Result<()> {
    let scene = Scene::start(&cx).await?;
    for (round, victim) in [Sender::Harness, Sender::Executor, Sender::Harness]
        .into_iter()
        .enumerate()
    {
        scene.tap.inject(victim, scene.reset())?;
        scene.wait_resumes(Sender::Harness, round + 1).await?;
        scene.goes_on(1).await?;
    }
    scene.finish(2).await
}

/// The resumes of before, to both ends, and an answer reflected to where it came from.
async fn replayed_resumes(cx: Context) -> Result<()> {
    let scene = Scene::start(&cx).await?;
    scene.tap.inject(Sender::Executor, scene.reset())?;
    scene.wait_resumes(Sender::Executor, 1).await?;
    scene.goes_on(1).await?;
    let (asked, answered) = (scene.resumes(Sender::Harness), scene.resumes(Sender::Executor));
    let count = answered.len();
    for frame in asked.iter().chain(&answered) {
        for to in [Sender::Harness, Sender::Executor] {
            for _ in 0..10 {
                scene.tap.inject(to, frame.clone())?;
            }
        }
    }
    scene.goes_on(2).await?;
    ensure!(
        scene.resumes(Sender::Executor).len() == count,
        "the executor answered a resume of before"
    );
    scene.finish(1).await
}

/// Everything is said to have arrived long ago, and what arrives is held back for a while.
async fn forged_acks(cx: Context) -> Result<()> {
    let scene = Scene::start(&cx).await?;
    let mut dropped = 0;
    scene.tap.change(move |_, bytes| {
        let Ok(mut frame) = Frame::decode(bytes.clone()) else {
            return vec![bytes];
        };
        if let Body::Data { .. } | Body::Ack = frame.body {
            dropped += 1;
            if dropped % 3 == 0 {
                return Vec::new();
            }
            (frame.ack, frame.ack_bits) = (frame.ack.saturating_add(40), u32::MAX);
            return vec![frame.to_bytes()];
        }
        vec![bytes]
    });
    scene.goes_on(1).await?;
    scene.tap.be_honest();
    scene.goes_on(1).await?;
    scene.finish(0).await
}

/// Somebody who knows the stream's name, and not its keys, asks for it through the relay that should refuse him.
async fn stolen_stream_id(cx: Context) -> Result<()> {
    let scene = Scene::start(&cx).await?;
    let stream = scene.stream.clone();
    let forged = |epoch: u64| {
        let body = Body::Reattach {
            next_seq: 0,
            epoch,
            proof: [7; 32],
        };
        Frame::new(stream.clone(), body).to_bytes()
    };
    let answered = scene.resumes(Sender::Executor).len();
    for epoch in [1, 1 << 20, u64::MAX] {
        scene.tap.inject(Sender::Harness, forged(epoch))?;
        scene.tap.inject(Sender::Executor, forged(epoch))?;
    }
    scene.goes_on(2).await?;
    ensure!(
        scene.resumes(Sender::Executor).len() == answered,
        "the executor answered a thief"
    );
    scene.finish(0).await
}

/// Frames are lost, repeated, changed and delivered out of turn.
async fn lossy_relay(cx: Context) -> Result<()> {
    let scene = Scene::start(&cx).await?;
    let mut count = 0u32;
    let mut held: HashMap<Sender, Vec<Bytes>> = HashMap::new();
    scene.tap.change(move |sender, bytes| {
        let held = held.entry(sender).or_default();
        count += 1;
        match count % 11 {
            3 => Vec::new(),
            5 => vec![bytes.clone(), bytes],
            7 => {
                let mut changed = bytes.to_vec();
                if let Some(last) = changed.last_mut() {
                    *last ^= 1;
                }
                vec![changed.into()]
            }
            9 => {
                held.push(bytes);
                Vec::new()
            }
            _ => std::iter::once(bytes).chain(held.drain(..)).collect(),
        }
    });
    scene.goes_on(4).await?;
    scene.tap.be_honest();
    scene.finish(0).await
}
