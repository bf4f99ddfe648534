//! Ways out of a sandbox. Each is tried in one, where it must fail, and without one, where it must work: otherwise its
//! failure would prove nothing.

mod attacks;
mod scene;

use rendezvous_host::process::{Spec, Stdio};

use self::attacks::{ATTACKS, Attack, ESCAPED};
use self::scene::Scene;
use crate::network;
use crate::support::Outcome;

const PIPES: Stdio = Stdio::Pipes { stdin: false };

/// What a program is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wall {
    None,
    Sandbox,
    /// With a network of its own, and a proxy that lets nothing pass.
    Managed,
}

async fn attempt(attack: &Attack, stdio: Stdio, wall: Wall) -> (bool, Outcome) {
    let scene = Scene::new();
    let spec = Spec {
        stdio,
        env: scene.variables(),
        ..scene.world.spec(&["/bin/sh", "-c", attack.script])
    };
    let (spec, proxy) = match wall {
        Wall::None => (spec, None),
        Wall::Sandbox => (scene.world.confine(spec, &scene.intent()).await, None),
        Wall::Managed => {
            let spec = scene.world.confine_managed(spec, &scene.intent()).await;
            (spec, Some(network::proxy(&[])))
        }
    };
    let before = scene.picture();
    let outcome = scene.world.finish_with(spec, proxy).await;
    let has_changed = wall != Wall::None && before != scene.picture();
    (outcome.out.contains(ESCAPED) || has_changed, outcome)
}

/// The attacks whose outcome is not as expected.
async fn odd_ones(stdio: Stdio, wall: Wall) -> Vec<String> {
    let mut odd = Vec::new();
    for attack in ATTACKS {
        if attack.needs_terminal && stdio != Stdio::Terminal {
            continue;
        }
        let (escaped, outcome) = attempt(attack, stdio, wall).await;
        if escaped == (wall != Wall::None) {
            odd.push(format!("{}: {outcome:?}", attack.name));
        }
    }
    odd
}

#[tokio::test]
async fn programs_on_pipes_do_not_get_out() {
    let escaped = odd_ones(PIPES, Wall::Sandbox).await;
    assert!(escaped.is_empty(), "{escaped:#?}");
}

#[tokio::test]
async fn programs_on_terminals_do_not_get_out() {
    let escaped = odd_ones(Stdio::Terminal, Wall::Sandbox).await;
    assert!(escaped.is_empty(), "{escaped:#?}");
}

#[tokio::test]
async fn programs_with_a_managed_network_do_not_get_out() {
    let escaped = odd_ones(PIPES, Wall::Managed).await;
    assert!(escaped.is_empty(), "{escaped:#?}");
}

#[tokio::test]
async fn every_attack_works_without_a_sandbox() {
    assert!(nix::unistd::geteuid().is_root(), "some attacks are root's");
    let failed = odd_ones(Stdio::Terminal, Wall::None).await;
    assert!(failed.is_empty(), "{failed:#?}");
}
