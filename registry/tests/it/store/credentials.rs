use super::*;

stories!(
    a_token_finds_its_credential,
    scopes_must_exist,
    revoking_is_final_and_told,
    use_is_noted,
    lists_in_pages,
);

async fn a_token_finds_its_credential(world: World) {
    let id = world.environment("e").await;
    for role in [Role::Admin, Role::Executor, Role::Harness, Role::Relay] {
        let scope = role.may_be_scoped().then_some(&id);
        let made = world.credential(role, scope).await;
        let found = world
            .again()
            .await
            .store
            .credential_by_digest(made.digest)
            .await
            .unwrap();
        assert_eq!(found, Some(made));
    }
    let unknown = world.store.credential_by_digest(Digest::of("x")).await.unwrap();
    assert_eq!(unknown, None);
}

async fn scopes_must_exist(world: World) {
    let id = EnvironmentId::new("none").unwrap();
    let made = world
        .store
        .create_credential(&credential(Role::Harness, Some(&id)))
        .await;
    assert!(matches!(made, Err(StoreError::NotFound)), "{made:?}");
    let first = world.credential(Role::Harness, None).await;
    let twin = Credential {
        id: CredentialId::new("cred_twin").unwrap(),
        ..first
    };
    let made = world.store.create_credential(&twin).await;
    assert!(matches!(made, Err(StoreError::Conflict)), "{made:?}");
}

async fn revoking_is_final_and_told(world: World) {
    let relays = [world.relay("boot-1").await, world.relay("boot-2").await];
    let made = world.credential(Role::Executor, None).await;
    let admin = world.credential(Role::Admin, None).await;
    assert!(made.is_live(at(3599)) && !made.is_live(at(3600)));
    for when in [at(1), at(2)] {
        world.store.revoke_credential(&made.id, when).await.unwrap();
    }
    world.store.revoke_credential(&admin.id, at(3)).await.unwrap();
    let found = world.store.credential(&made.id).await.unwrap().unwrap();
    assert_eq!(found.revoked, Some(at(1)));
    assert!(!found.is_live(at(1)));
    for relay in &relays {
        let messages = world.messages(relay).await;
        let revoke = ToRelay::Revoke {
            credential: made.id.clone(),
        };
        assert_eq!(messages[..2], [revoke.clone(), revoke]);
    }
    let since = |time| world.store.revoked_since(time, "", 10);
    assert_eq!(since(at(1)).await.unwrap(), std::slice::from_ref(&made.id));
    assert!(since(at(2)).await.unwrap().is_empty());
    let after = world.store.revoked_since(at(0), made.id.as_str(), 10).await.unwrap();
    assert!(after.is_empty());
    let unknown = CredentialId::new("none").unwrap();
    let revoked = world.store.revoke_credential(&unknown, NOW).await;
    assert!(matches!(revoked, Err(StoreError::NotFound)), "{revoked:?}");
}

async fn use_is_noted(world: World) {
    let made = world.credential(Role::Executor, None).await;
    world.store.touch_credential(&made.id, at(7)).await.unwrap();
    let found = world.store.credential(&made.id).await.unwrap().unwrap();
    assert_eq!(found.last_used, Some(at(7)));
}

async fn lists_in_pages(world: World) {
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(world.credential(Role::Relay, None).await);
    }
    made.sort_by(|one, two| one.id.cmp(&two.id));
    let first = world.store.credentials("", 3).await.unwrap();
    let rest = world.store.credentials(first[2].id.as_str(), 3).await.unwrap();
    assert_eq!([first, rest].concat(), made);
}
