//! Ways out of a sandbox. Each is tried in one, where it must fail, and without one, where it must work: otherwise its
//! failure would prove nothing.

mod attacks;
mod scene;

use rendezvous_host::process::{Spec, Stdio};

use self::attacks::{ATTACKS, Attack, ESCAPED};
use self::scene::Scene;
use crate::support::Outcome;

const PIPES: Stdio = Stdio::Pipes { stdin: false };

async fn attempt(attack: &Attack, stdio: Stdio, is_confined: bool) -> (bool, Outcome) {
    let scene = Scene::new();
    let spec = Spec {
        stdio,
        env: scene.variables(),
        ..scene.world.spec(&["/bin/sh", "-c", attack.script])
    };
    let spec = if is_confined {
        scene.world.confine(spec, &scene.intent()).await
    } else {
        spec
    };
    let before = scene.picture();
    let outcome = scene.world.finish(spec).await;
    let has_changed = is_confined && before != scene.picture();
    (outcome.out.contains(ESCAPED) || has_changed, outcome)
}

/// The attacks whose outcome is not as expected.
async fn odd_ones(stdio: Stdio, is_confined: bool) -> Vec<String> {
    let mut odd = Vec::new();
    for attack in ATTACKS {
        if attack.needs_terminal && stdio != Stdio::Terminal {
            continue;
        }
        let (escaped, outcome) = attempt(attack, stdio, is_confined).await;
        if escaped == is_confined {
            odd.push(format!("{}: {outcome:?}", attack.name));
        }
    }
    odd
}

#[tokio::test]
async fn programs_on_pipes_do_not_get_out() {
    let escaped = odd_ones(PIPES, true).await;
    assert!(escaped.is_empty(), "{escaped:#?}");
}

#[tokio::test]
async fn programs_on_terminals_do_not_get_out() {
    let escaped = odd_ones(Stdio::Terminal, true).await;
    assert!(escaped.is_empty(), "{escaped:#?}");
}

#[tokio::test]
async fn every_attack_works_without_a_sandbox() {
    assert!(nix::unistd::geteuid().is_root(), "some attacks are root's");
    let failed = odd_ones(Stdio::Terminal, false).await;
    assert!(failed.is_empty(), "{failed:#?}");
}
