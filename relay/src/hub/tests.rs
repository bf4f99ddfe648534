use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use rendezvous_service::net::Stream as Socket;
use rendezvous_wire::frame::peek::Kind;
use rendezvous_wire::id::{CredentialId, EnvironmentId, RegistrationId};
use rendezvous_wire::key::KeyDigest;
use rendezvous_wire::ticket::{Claims, Role};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::connection::halves::split;
use crate::connection::outbox::{Bounds, Outbox};

/// Enough for two threads to meet at the lock.
const ROUNDS: usize = 2000;

fn claims(role: Role, sub: &str) -> Claims {
    Claims {
        aud: "boot".to_owned(),
        iat: 0,
        exp: u64::MAX,
        jti: "j".to_owned(),
        role,
        env: EnvironmentId::new("env").unwrap(),
        reg: RegistrationId::new("registration").unwrap(),
        generation: 1,
        sub: CredentialId::new(sub).unwrap(),
        ends: None,
        key: (role == Role::Harness).then_some(KeyDigest([1; 32])),
    }
}

fn link(hub: &Hub, role: Role, socket: TcpStream) -> Arc<Link> {
    let bounds = Bounds {
        lane: 1 << 20,
        connection: 1 << 20,
        total: 1 << 20,
    };
    let (_read, write) = split(Socket::Plain(socket));
    let link = Link::new(
        hub.next_connection(),
        role,
        Outbox::new(write, bounds),
        hub.totals.clone(),
    );
    let link = Arc::new(link);
    hub.register(link.clone());
    link
}

#[tokio::test]
async fn the_end_of_a_stream_never_comes_before_its_beginning() {
    let boot = BootId::new("boot").unwrap();
    let hub = Hub::new(Config::new("ws://relay.test"), boot);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let executor = link(&hub, Role::Executor, TcpStream::connect(address).await.unwrap());
    let harness = link(&hub, Role::Harness, TcpStream::connect(address).await.unwrap());
    let now = Instant::now();
    hub.core(|core| core.executor_up(executor.id, &claims(Role::Executor, "exec"), now))
        .unwrap();
    for round in 0..ROUNDS {
        let connection = hub.next_connection();
        lock(&hub.links).insert(connection, harness.clone());
        let claims = claims(Role::Harness, &format!("cred{round}"));
        hub.core(|core| core.harness_up(connection, &claims, now)).unwrap();
        let stream = StreamId::new(format!("s{round}")).unwrap();
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                // Refused when the harness left first.
                let _ = hub.core(|core| core.bind(connection, &stream, Some(Kind::Resume), now));
            });
            start.wait();
            hub.core(|core| core.connection_down(connection, now));
        });
        assert_eq!(executor.stream_count(), 0, "round {round}");
        hub.unregister(connection);
    }
}
