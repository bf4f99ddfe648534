use rendezvous_registry::store::Standing;

use super::*;

stories!(
    lists_in_pages,
    an_id_is_used_once,
    deleting_takes_everything_along,
    numbers_grow_across_deletion,
    many_open_at_once,
);

async fn lists_in_pages(world: World) {
    for id in ["b", "A", "a", "_", "c-1"] {
        world.environment(id).await;
    }
    let mut ids: Vec<String> = Vec::new();
    loop {
        let after = ids.last().cloned().unwrap_or_default();
        let page = world.store.environments(&after, 2).await.unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 2);
        ids.extend(page.into_iter().map(|environment| environment.id.to_string()));
    }
    assert_eq!(ids, ["A", "_", "a", "b", "c-1"]);
}

async fn an_id_is_used_once(world: World) {
    let id = world.environment("e").await;
    let again = world.store.create_environment(&id, "", NOW).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    let other = EnvironmentId::new("other").unwrap();
    assert_eq!(world.store.status(&other, NOW).await.unwrap(), None);
    let gone = world.store.delete_environment(&other, NOW).await;
    assert!(matches!(gone, Err(StoreError::NotFound)), "{gone:?}");
}

async fn deleting_takes_everything_along(world: World) {
    let id = world.environment("e").await;
    let kept = world.environment("kept").await;
    let scoped = world.credential(Role::Harness, Some(&id)).await;
    let others = [
        world.credential(Role::Harness, Some(&kept)).await,
        world.credential(Role::Executor, None).await,
    ];
    let relay = world.relay("boot").await;
    let registration = world.register(&id, 1).await;
    let up = presence(&id, &registration, 1);
    world
        .store
        .executors_up(&relay, std::slice::from_ref(&up), NOW)
        .await
        .unwrap();
    world.store.delete_environment(&id, at(1)).await.unwrap();

    assert_eq!(world.store.status(&id, at(1)).await.unwrap(), None);
    let revoked = world.store.credential(&scoped.id).await.unwrap().unwrap();
    assert_eq!(revoked.revoked, Some(at(1)));
    for other in others {
        assert_eq!(world.store.credential(&other.id).await.unwrap().unwrap(), other);
    }
    assert_eq!(
        world.messages(&relay).await,
        [
            ToRelay::Forget {
                environment: id.clone(),
                generation: up.generation,
            },
            ToRelay::Revoke { credential: scoped.id }
        ]
    );
    let standing = world.store.executors_up(&relay, &[up], at(1)).await.unwrap();
    assert_eq!(standing, [Standing::Unknown]);
}

async fn numbers_grow_across_deletion(world: World) {
    let id = world.environment("e").await;
    for number in 1..5 {
        world.register(&id, number).await;
    }
    let last = world.register(&id, 9).await.1;
    world.store.delete_environment(&id, at(1)).await.unwrap();
    let again = world.store.create_environment(&id, "", at(2)).await.unwrap();
    assert!(again.generation > last, "{} > {last}", again.generation);
    assert_eq!(
        world.store.status(&id, at(2)).await.unwrap().unwrap().environment,
        again
    );
}

/// Migrations and the first key are made once, whoever comes first.
async fn many_open_at_once(world: World) {
    let fresh = match world.database.url.split_once(':').unwrap().0 {
        "sqlite" => Database::sqlite(),
        _ => Database::postgres(),
    };
    let opened = (0..6).map(async |_| {
        let world = World::open(fresh.clone()).await;
        let candidate = rendezvous_registry::ticket::generate(NOW).unwrap();
        let keys = world.store.signing_keys(&candidate).await.unwrap();
        keys.into_iter().map(|key| key.kid).collect::<Vec<_>>()
    });
    let mut kids = futures_util::future::join_all(opened).await;
    kids.dedup();
    assert_eq!(kids.len(), 1, "{kids:?}");
    assert_eq!(kids[0].len(), 1);
}
