use rendezvous_registry::store::{NewAuthorization, Presented};

use super::*;

stories!(
    the_newest_is_current,
    one_of_many_wins,
    an_authorization_is_used_once,
    an_authorization_is_bound,
    an_authorization_ends,
    an_authorization_ends_with_its_credential,
    an_authorization_does_not_outlive_its_credential,
    an_authorization_ends_with_its_registration,
    one_of_many_presentations_is_first,
);

async fn the_newest_is_current(world: World) {
    let id = world.environment("e").await;
    let relay = world.relay("boot").await;
    let first = world.register(&id, 1).await;
    assert!(world.messages(&relay).await.is_empty());
    let second = world.register(&id, 2).await;
    assert_eq!(second.1, first.1 + 1);
    assert_eq!(
        world.messages(&relay).await,
        [ToRelay::Supersede {
            environment: id.clone(),
            generation: second.1
        }]
    );
    let status = world.again().await.store.status(&id, NOW).await.unwrap().unwrap();
    assert_eq!(status.environment.generation, second.1);
    let current = status.registration.unwrap();
    assert_eq!(
        (current.id, current.generation, current.key, current.identity),
        (second.0, second.1, key(2), claim(2))
    );

    let late = registration(&id, 3, first.1);
    let conflict = world.store.register(&late, NOW).await;
    assert!(matches!(conflict, Err(StoreError::Conflict)), "{conflict:?}");
    let nowhere = registration(&EnvironmentId::new("none").unwrap(), 3, 1);
    let missing = world.store.register(&nowhere, NOW).await;
    assert!(matches!(missing, Err(StoreError::NotFound)), "{missing:?}");
    assert!(world.messages(&relay).await.is_empty(), "a lost race tells nobody");
}

async fn one_of_many_wins(world: World) {
    let id = world.environment("e").await;
    let expected = world
        .store
        .status(&id, NOW)
        .await
        .unwrap()
        .unwrap()
        .environment
        .generation;
    let other = world.again().await;
    let tasks: Vec<_> = (0..16)
        .map(|number| {
            let store = if number % 2 == 0 {
                world.store.clone()
            } else {
                other.store.clone()
            };
            let new = registration(&id, number, expected);
            tokio::spawn(async move { (new.id.clone(), store.register(&new, NOW).await) })
        })
        .collect();
    let mut winners = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            (winner, Ok(_)) => winners.push(winner),
            (_, Err(StoreError::Conflict)) => {}
            (_, other) => panic!("{other:?}"),
        }
    }
    let status = world.store.status(&id, NOW).await.unwrap().unwrap();
    assert_eq!(winners, [status.registration.unwrap().id]);
}

/// An environment with a registration, and an authorization for it as it is presented.
struct Granted {
    world: World,
    credential: Credential,
    presented: Presented,
}

async fn granted(world: World) -> Granted {
    let credential = world.credential(Role::Harness, None).await;
    granted_to(world, credential).await
}

async fn granted_to(world: World, credential: Credential) -> Granted {
    let id = world.environment("e").await;
    let (registration, _) = world.register(&id, 1).await;
    let new = NewAuthorization {
        digest: Digest::of("secret"),
        environment: id.clone(),
        registration: registration.clone(),
        key: key(7).digest(),
        credential: credential.id.clone(),
        expires: at(60),
    };
    world.store.authorize(&new, NOW).await.unwrap();
    let presented = Presented {
        digest: new.digest,
        environment: id,
        registration: registration.to_string(),
        key: new.key,
        stream: "stream".to_owned(),
    };
    Granted {
        world,
        credential,
        presented,
    }
}

impl Granted {
    async fn consume(&self, when: Timestamp) -> bool {
        self.world.store.consume(&self.presented, when).await.unwrap()
    }
}

async fn an_authorization_is_used_once(world: World) {
    let mut granted = granted(world).await;
    assert!(granted.consume(at(1)).await);
    assert!(granted.consume(at(10)).await, "the same stream asks again");
    granted.presented.stream = "other".to_owned();
    assert!(!granted.consume(at(2)).await, "another stream");
    granted.presented.stream = String::new();
    assert!(!granted.consume(at(2)).await, "a stream without a name");
    granted.presented.stream = "stream".to_owned();
    assert!(!granted.consume(at(11)).await, "too late to ask again");
    assert!(!granted.consume(at(12)).await);
}

async fn an_authorization_is_bound(world: World) {
    let granted = granted(world).await;
    let other = granted.world.environment("other").await;
    let (registration, _) = granted.world.register(&other, 1).await;
    let wrong = [
        Presented {
            digest: Digest::of("guess"),
            ..granted.presented.clone()
        },
        Presented {
            environment: other.clone(),
            ..granted.presented.clone()
        },
        Presented {
            registration: registration.to_string(),
            ..granted.presented.clone()
        },
        Presented {
            registration: String::new(),
            ..granted.presented.clone()
        },
        Presented {
            key: key(8).digest(),
            ..granted.presented.clone()
        },
        Presented {
            environment: other,
            registration: registration.to_string(),
            ..granted.presented.clone()
        },
    ];
    for presented in wrong {
        assert!(
            !granted.world.store.consume(&presented, at(1)).await.unwrap(),
            "{presented:?}"
        );
    }
    assert!(granted.consume(at(1)).await, "a wrong presentation uses nothing up");
}

async fn an_authorization_ends(world: World) {
    let granted = granted(world).await;
    assert!(!granted.consume(at(60)).await);
    assert!(granted.consume(at(59)).await);
    assert!(
        granted.consume(at(65)).await,
        "the same stream may ask again after the end"
    );
}

async fn an_authorization_ends_with_its_credential(world: World) {
    let granted = granted(world).await;
    granted
        .world
        .store
        .revoke_credential(&granted.credential.id, at(1))
        .await
        .unwrap();
    assert!(!granted.consume(at(1)).await);
}

async fn an_authorization_does_not_outlive_its_credential(world: World) {
    let mut short = credential(Role::Harness, None);
    short.expires = Some(at(30));
    world.store.create_credential(&short).await.unwrap();
    let granted = granted_to(world, short).await;
    assert!(!granted.consume(at(30)).await);
    assert!(granted.consume(at(29)).await);
}

async fn an_authorization_ends_with_its_registration(world: World) {
    let granted = granted(world).await;
    granted.world.register(&granted.presented.environment, 2).await;
    assert!(!granted.consume(at(1)).await);
    let new = NewAuthorization {
        digest: Digest::of("late"),
        environment: granted.presented.environment.clone(),
        registration: RegistrationId::new(&granted.presented.registration).unwrap(),
        key: granted.presented.key,
        credential: granted.credential.id.clone(),
        expires: at(60),
    };
    let late = granted.world.store.authorize(&new, NOW).await;
    assert!(matches!(late, Err(StoreError::NotFound)), "{late:?}");
}

async fn one_of_many_presentations_is_first(world: World) {
    let granted = granted(world).await;
    let other = granted.world.again().await;
    let tasks: Vec<_> = (0..16)
        .map(|number| {
            let store = if number % 2 == 0 {
                granted.world.store.clone()
            } else {
                other.store.clone()
            };
            let presented = Presented {
                stream: format!("stream {number}"),
                ..granted.presented.clone()
            };
            tokio::spawn(async move { store.consume(&presented, at(1)).await.unwrap() })
        })
        .collect();
    let mut valid = 0;
    for task in tasks {
        valid += u32::from(task.await.unwrap());
    }
    assert_eq!(valid, 1);
}
