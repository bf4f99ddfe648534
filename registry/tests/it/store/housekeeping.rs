use rendezvous_registry::store::{
    CREDENTIAL_RETENTION, MAX_RELAY_MESSAGES, NewAuthorization, RELAY_RETENTION, SWEEP_BATCH,
};
use rendezvous_registry::ticket;

use super::*;

stories!(
    the_first_key_stays,
    what_ended_goes_in_batches,
    relays_and_credentials_are_kept_for_a_while,
    a_queue_has_an_end,
    answers_pings_until_closed,
);

async fn the_first_key_stays(world: World) {
    let first = ticket::generate(NOW).unwrap();
    let kept = world.store.signing_keys(&first).await.unwrap();
    let second = ticket::generate(NOW).unwrap();
    let found = world.again().await.store.signing_keys(&second).await.unwrap();
    for keys in [kept, found] {
        assert_eq!(keys.len(), 1);
        assert_eq!((&keys[0].kid, &keys[0].x), (&first.kid, &first.x));
        assert_eq!(*keys[0].pkcs8, *first.pkcs8);
    }
}

async fn what_ended_goes_in_batches(world: World) {
    let id = world.environment("e").await;
    let (registration, _) = world.register(&id, 1).await;
    let extra = 3;
    for number in 0..SWEEP_BATCH + extra {
        let new = NewAuthorization {
            digest: Digest::of(&number.to_string()),
            environment: id.clone(),
            registration: registration.clone(),
            key: key(1).digest(),
            credential: CredentialId::new("c").unwrap(),
            expires: at(60),
        };
        world.store.authorize(&new, NOW).await.unwrap();
    }
    assert_eq!(
        world.store.sweep(at(70)).await.unwrap(),
        0,
        "a repetition may still come"
    );
    let batch = u64::try_from(SWEEP_BATCH).unwrap();
    assert_eq!(world.store.sweep(at(71)).await.unwrap(), batch);
    assert_eq!(world.store.sweep(at(71)).await.unwrap(), u64::try_from(extra).unwrap());
    assert_eq!(world.store.sweep(at(71)).await.unwrap(), 0);
}

async fn relays_and_credentials_are_kept_for_a_while(world: World) {
    let relay = world.relay("boot").await;
    let made = world.credential(Role::Executor, None).await;
    let message = ToRelay::Revoke {
        credential: made.id.clone(),
    };
    world.store.send(&relay, &message, NOW).await.unwrap();
    let relay_end = at(15).after(RELAY_RETENTION);
    assert_eq!(world.store.sweep(relay_end).await.unwrap(), 0);
    assert_eq!(
        world
            .store
            .sweep(relay_end.after(Duration::from_millis(1)))
            .await
            .unwrap(),
        1
    );
    assert!(world.store.pending(&relay, 1).await.unwrap().is_empty());
    let credential_end = at(3600).after(CREDENTIAL_RETENTION).after(Duration::from_millis(1));
    assert_eq!(world.store.sweep(credential_end).await.unwrap(), 1);
    assert_eq!(world.store.credential(&made.id).await.unwrap(), None);
}

async fn a_queue_has_an_end(world: World) {
    let id = world.environment("e").await;
    let relay = world.relay("boot").await;
    // A deletion queues one message for each credential of the environment, and one for itself.
    let extra = 7;
    let scoped = usize::try_from(MAX_RELAY_MESSAGES).unwrap() + extra - 1;
    for _ in 0..scoped {
        world.credential(Role::Harness, Some(&id)).await;
    }
    world.store.delete_environment(&id, NOW).await.unwrap();
    assert_eq!(world.store.sweep(NOW).await.unwrap(), extra as u64);
    let oldest = &world.store.pending(&relay, 1).await.unwrap()[0].1;
    assert!(
        matches!(oldest, Some(ToRelay::Revoke { .. })),
        "the oldest message went first"
    );
}

async fn answers_pings_until_closed(world: World) {
    world.store.ping().await.unwrap();
    world.store.close().await;
    assert!(matches!(world.store.ping().await, Err(error) if error.is_retryable()));
}
