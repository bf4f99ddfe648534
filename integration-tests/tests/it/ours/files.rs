//! `harness cp` both ways, and what it says when it can't.

use anyhow::{Result, ensure};
use rendezvous_integration_tests::Context;
use rendezvous_integration_tests::executor::End;
use rendezvous_integration_tests::site::{RelayKind, Site};

use super::harness;

pub(crate) async fn play(cx: Context, executor: End) -> Result<()> {
    let site = Site::start(&cx, executor, RelayKind::Embedded).await?;
    let access = site.access();
    let content: Vec<u8> = (0..3_000_000_u32)
        .map(|i| i.wrapping_mul(2_246_822_519).to_be_bytes()[1])
        .collect();
    let near = cx.folder().join("near file");
    std::fs::write(&near, &content)?;
    let near = near.to_string_lossy().into_owned();
    let far = format!(":{}", site.workspace.join("far file").display());

    harness(&cx, &access, &["cp", &near, &far], b"").await?.success()?;
    ensure!(
        std::fs::read(site.content.join("far file"))? == content,
        "the file arrived changed"
    );

    let back = cx.folder().join("back");
    harness(&cx, &access, &["cp", &far, &back.to_string_lossy()], b"")
        .await?
        .success()?;
    ensure!(std::fs::read(&back)? == content, "the file came back changed");

    let missing = format!(":{}", site.workspace.join("missing").display());
    let target = cx.folder().join("target");
    let refused = harness(&cx, &access, &["cp", &missing, &target.to_string_lossy()], b"").await?;
    ensure!(refused.code == 1, "exit code {}: {}", refused.code, refused.stderr);
    ensure!(!target.exists(), "a failed copy left a file behind");
    site.near_is_untouched()
}
