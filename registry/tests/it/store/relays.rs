use rendezvous_registry::store::{RelayHello, Standing};

use super::*;

stories!(
    presence_follows_the_executor,
    presence_ends_with_the_lease,
    only_the_current_registration_is_present,
    a_newer_connection_outlives_the_older,
    a_run_has_one_session_and_one_credential,
    a_restarted_relay_ends_the_presence_of_its_earlier_run,
    the_least_loaded_comes_first,
    messages_wait_in_order,
    questions_get_one_answer,
);

async fn presence_follows_the_executor(world: World) {
    let id = world.environment("e").await;
    let relay = world.relay("boot").await;
    let registration = world.register(&id, 1).await;
    let up = presence(&id, &registration, 1);
    let live = async || world.store.status(&id, at(5)).await.unwrap().unwrap().live;
    assert_eq!(live().await, None);
    let standing = world
        .store
        .executors_up(&relay, std::slice::from_ref(&up), at(3))
        .await
        .unwrap();
    assert_eq!(standing, [Standing::Current]);
    let found = live().await.unwrap();
    assert_eq!(
        (found.relay, found.public_url, found.accepting, found.since),
        (relay.clone(), "wss://boot".to_owned(), true, at(3))
    );
    world.store.executor_down(&relay, &up, at(4)).await.unwrap();
    assert_eq!(live().await, None);
    let environment = world.store.status(&id, at(5)).await.unwrap().unwrap().environment;
    assert_eq!(environment.last_seen, Some(at(4)));
}

async fn presence_ends_with_the_lease(world: World) {
    let id = world.environment("e").await;
    let relay = world.relay("boot").await;
    let registration = world.register(&id, 1).await;
    let up = presence(&id, &registration, 1);
    world.store.executors_up(&relay, &[up], NOW).await.unwrap();
    let live = async |when| world.store.status(&id, when).await.unwrap().unwrap().live;
    assert!(live(at(14)).await.is_some());
    assert_eq!(live(at(15)).await, None);
    assert!(
        world
            .store
            .relay_renew(&relay, "first", 1, false, at(30))
            .await
            .unwrap()
    );
    assert!(!live(at(29)).await.unwrap().accepting);
    assert_eq!(live(at(30)).await, None);
}

async fn only_the_current_registration_is_present(world: World) {
    let id = world.environment("e").await;
    let relay = world.relay("boot").await;
    let first = world.register(&id, 1).await;
    let stale = presence(&id, &first, 1);
    world
        .store
        .executors_up(&relay, std::slice::from_ref(&stale), NOW)
        .await
        .unwrap();
    let second = world.register(&id, 2).await;
    let live = async || world.store.status(&id, NOW).await.unwrap().unwrap().live;
    assert_eq!(
        live().await,
        None,
        "the older executor does not stand for the newer registration"
    );
    let nowhere = presence(&EnvironmentId::new("none").unwrap(), &first, 1);
    let standing = world
        .store
        .executors_up(&relay, &[stale, nowhere, presence(&id, &second, 2)], NOW)
        .await
        .unwrap();
    assert_eq!(
        standing,
        [
            Standing::Superseded { generation: second.1 },
            Standing::Unknown,
            Standing::Current
        ]
    );
    assert!(live().await.is_some());
}

async fn a_newer_connection_outlives_the_older(world: World) {
    let id = world.environment("e").await;
    let relays = [world.relay("boot-1").await, world.relay("boot-2").await];
    let registration = world.register(&id, 1).await;
    let connection = |number| presence(&id, &registration, number);
    let live = async || {
        world
            .store
            .status(&id, NOW)
            .await
            .unwrap()
            .unwrap()
            .live
            .map(|live| live.relay)
    };
    world
        .store
        .executors_up(&relays[0], &[connection(1), connection(2)], NOW)
        .await
        .unwrap();
    world
        .store
        .executor_down(&relays[0], &connection(1), NOW)
        .await
        .unwrap();
    assert_eq!(live().await.as_ref(), Some(&relays[0]));
    world
        .store
        .executors_up(&relays[1], &[connection(1)], NOW)
        .await
        .unwrap();
    world
        .store
        .executor_down(&relays[0], &connection(2), NOW)
        .await
        .unwrap();
    assert_eq!(live().await.as_ref(), Some(&relays[1]));
}

async fn a_run_has_one_session_and_one_credential(world: World) {
    let id = world.environment("e").await;
    let relay = world.relay("boot").await;
    let registration = world.register(&id, 1).await;
    world
        .store
        .executors_up(&relay, &[presence(&id, &registration, 1)], NOW)
        .await
        .unwrap();
    let second = RelayHello {
        session: "second".to_owned(),
        ..hello("boot")
    };
    world.store.relay_hello(&second, at(15)).await.unwrap();
    assert_eq!(
        world.store.status(&id, NOW).await.unwrap().unwrap().live,
        None,
        "presence is told anew"
    );
    assert!(!world.store.relay_renew(&relay, "first", 0, true, at(15)).await.unwrap());
    assert!(
        world
            .store
            .relay_renew(&relay, "second", 0, true, at(15))
            .await
            .unwrap()
    );
    let thief = RelayHello {
        credential: CredentialId::new("cred_other").unwrap(),
        ..hello("boot")
    };
    let stolen = world.store.relay_hello(&thief, at(15)).await;
    assert!(matches!(stolen, Err(StoreError::Conflict)), "{stolen:?}");
    let unknown = BootId::new("unknown").unwrap();
    let up = world
        .store
        .executors_up(&unknown, &[presence(&id, &registration, 1)], NOW)
        .await;
    assert!(matches!(up, Err(StoreError::NotFound)), "{up:?}");
}

async fn a_restarted_relay_ends_the_presence_of_its_earlier_run(world: World) {
    let id = world.environment("e").await;
    let relay = world.relay("boot").await;
    let registration = world.register(&id, 1).await;
    let up = presence(&id, &registration, 1);
    world.store.executors_up(&relay, &[up], NOW).await.unwrap();
    let live = async || world.store.status(&id, NOW).await.unwrap().unwrap().live;
    let says_hello = async |boot_id: &str, public_url: &str, credential: &str| {
        let hello = RelayHello {
            public_url: public_url.to_owned(),
            credential: CredentialId::new(credential).unwrap(),
            ..hello(boot_id)
        };
        world.store.relay_hello(&hello, at(15)).await.unwrap();
    };
    let own = hello("boot").credential;
    says_hello("other-place", "wss://elsewhere", own.as_str()).await;
    says_hello("other-relay", "wss://boot", "cred_other").await;
    assert_eq!(live().await.unwrap().relay, relay, "others change nothing");
    says_hello("restarted", "wss://boot", own.as_str()).await;
    assert_eq!(live().await, None);
}

async fn the_least_loaded_comes_first(world: World) {
    for (boot_id, executors, accepting) in [("a", 5, true), ("b", 0, false), ("c", 2, true)] {
        let relay = world.relay(boot_id).await;
        world
            .store
            .relay_renew(&relay, "first", executors, accepting, at(15))
            .await
            .unwrap();
    }
    let order = async |when| -> Vec<String> {
        let relays = world.store.relays(when).await.unwrap();
        relays.into_iter().map(|relay| relay.boot_id.to_string()).collect()
    };
    assert_eq!(order(at(14)).await, ["c", "a", "b"]);
    assert!(order(at(15)).await.is_empty());
}

async fn messages_wait_in_order(world: World) {
    let relays = [world.relay("boot-1").await, world.relay("boot-2").await];
    let message = |number| ToRelay::Probe {
        probe: number,
        registration: RegistrationId::new("r").unwrap(),
    };
    for number in 0..5 {
        world.store.send(&relays[0], &message(number), NOW).await.unwrap();
    }
    assert!(world.messages(&relays[1]).await.is_empty());
    assert_eq!(world.store.pending(&relays[0], 2).await.unwrap().len(), 2);
    let expected: Vec<_> = (0..5).map(message).collect();
    assert_eq!(world.messages(&relays[0]).await, expected);
    let nowhere = world.store.send(&BootId::new("none").unwrap(), &message(0), NOW).await;
    assert!(matches!(nowhere, Err(StoreError::NotFound)), "{nowhere:?}");
}

async fn questions_get_one_answer(world: World) {
    let relay = world.relay("boot").await;
    let message = ToRelay::Probe {
        probe: 7,
        registration: RegistrationId::new("r").unwrap(),
    };
    world.store.ask(7, &relay, &message, NOW).await.unwrap();
    assert_eq!(world.messages(&relay).await, [message]);
    assert_eq!(world.store.answered(7).await.unwrap(), None);
    world.store.answer(7, false).await.unwrap();
    world.store.answer(7, true).await.unwrap();
    assert_eq!(world.store.answered(7).await.unwrap(), Some(false));
    world.store.answer(8, true).await.unwrap();
    assert_eq!(world.store.answered(8).await.unwrap(), None);
}
