use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::process::{Executor, bare, command, with_token};
use crate::world::{ENVIRONMENT, Seen, World};

fn registered(status: u16) -> Seen {
    Seen::Register("Bearer the-token".to_owned(), status)
}

fn upgraded(registration: u32, status: u16) -> Seen {
    Seen::Upgrade(format!("reg-{registration}"), status)
}

async fn expect(world: &mut World, expected: impl IntoIterator<Item = Seen>) {
    for expected in expected {
        assert_eq!(world.next().await, expected);
    }
}

#[tokio::test]
async fn registers_connects_and_leaves() {
    let mut world = World::new();
    for signal in [Signal::TERM, Signal::INT] {
        let mut executor = Executor::start(with_token(&world));
        let line = executor.line().await.expect("line");
        assert!(
            line.starts_with("executor registered environment=env-1 registration=reg-"),
            "{line}"
        );
        assert!(matches!(world.next().await, Seen::Register(..)));
        assert!(matches!(world.next().await, Seen::Upgrade(_, 101)));
        executor.signal(signal);
        assert_eq!(world.next().await, Seen::Gone(Some(1001)));
        assert_eq!(executor.line().await, None, "nothing else is printed");
        let (code, log) = executor.end().await;
        assert_eq!(code, Some(0), "{log}");
        assert!(!log.contains("the-token") && !log.contains("secret-ticket"), "{log}");
        world = World::new();
    }
}

#[tokio::test]
async fn final_answers_end_it_with_a_code_and_a_reason() {
    let in_use = r#"{"error":{"code":"environment_in_use","message":"held"}}"#;
    for (status, body, code, reason) in [
        (401, "", 77, "credential"),
        (403, "", 77, "credential"),
        (404, "", 64, "does not know"),
        (400, "", 64, "400"),
        (409, in_use, 69, "another executor"),
        (302, "", 69, "302"),
        (200, "{}", 69, "malformed"),
    ] {
        let world = World::new();
        world.answer_registers([(status, "", body)]);
        let (ended, log) = Executor::start(with_token(&world)).end().await;
        assert_eq!(ended, Some(code), "{status}: {log}");
        let last = log.lines().last().expect("a line");
        assert!(
            last.starts_with("executor: ") && last.contains(reason),
            "{status}: {log}"
        );
    }
}

#[tokio::test]
async fn passing_failures_are_retried_and_told() {
    let mut world = World::new();
    world.answer_registers([(503, "", ""), (429, "2", ""), (500, "", "")]);
    world.put_off_upgrade(503, "3");
    let start = Instant::now();
    let mut executor = Executor::start(with_token(&world));
    let expected = [503, 429, 500, 200].map(registered);
    expect(&mut world, expected).await;
    // 0.5 s at least, then two because the registry asked for them, then two of the third step.
    assert!(start.elapsed() >= Duration::from_millis(4500), "{:?}", start.elapsed());
    expect(&mut world, [upgraded(1, 503)]).await;
    let start = Instant::now();
    expect(&mut world, [upgraded(1, 101)]).await;
    // A little less, because the answer was on its way before it was seen here.
    assert!(start.elapsed() >= Duration::from_millis(2900), "{:?}", start.elapsed());
    executor.line().await.expect("registered at last");
    executor.says("cannot connect to the relay, trying again").await;
    let log = executor.stderr();
    assert_eq!(log.matches("cannot register, trying again").count(), 3, "{log}");
}

#[tokio::test]
async fn an_unreachable_registry_is_retried() {
    // Bound, so that nobody else gets the port, and not listening.
    let closed = tokio::net::TcpSocket::new_v4().expect("socket");
    closed.bind(([127, 0, 0, 1], 0).into()).expect("bind");
    let addr = closed.local_addr().expect("address");
    let mut command = command(&format!("http://{addr}"));
    command.env("CODEX_API_KEY", "the-token");
    let executor = Executor::start(command);
    executor.says("cannot connect to the registry").await;
    executor.signal(Signal::TERM);
    assert_eq!(executor.end().await.0, Some(0));
}

#[tokio::test]
async fn a_lost_connection_is_dialled_again_without_registering() {
    let mut world = World::new();
    let mut executor = Executor::start(with_token(&world));
    executor.line().await.expect("line");
    expect(&mut world, [registered(200), upgraded(1, 101)]).await;
    world.answer_upgrades([503, 429]);
    world.cut();
    expect(
        &mut world,
        [Seen::Gone(None), upgraded(1, 503), upgraded(1, 429), upgraded(1, 101)],
    )
    .await;
}

#[tokio::test]
async fn relays_that_cannot_be_used_keep_nobody_from_the_others() {
    let mut world = World::new();
    let good = world.relay_url("reg-1");
    world.name_relays(["ws://192.0.2.1/clear-text".to_owned(), good, "no URL".to_owned()]);
    world.answer_upgrades([503]);
    let mut executor = Executor::start(with_token(&world));
    expect(&mut world, [registered(200), upgraded(1, 503), upgraded(1, 101)]).await;
    executor.line().await.expect("registered");
    let log = executor.stderr();
    assert_eq!(log.matches("a relay that cannot be used").count(), 2, "{log}");

    let world = World::new();
    world.name_relays(["ws://192.0.2.1/clear-text".to_owned()]);
    let (ended, log) = Executor::start(with_token(&world)).end().await;
    assert_eq!(ended, Some(64), "{log}");
    assert!(log.contains("--allow-insecure"), "{log}");
}

/// The status of `/readyz`.
async fn readiness(addr: SocketAddr) -> String {
    let mut stream = TcpStream::connect(addr).await.expect("connect");
    let request = "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("write");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("read");
    answer.split(' ').nth(1).expect("a status").to_owned()
}

#[tokio::test]
async fn is_ready_while_its_connection_is_up() {
    let world = World::new();
    let mut command = with_token(&world);
    command.args(["--admin-listen", "127.0.0.1:0"]);
    let mut executor = Executor::start(command);
    let addr = executor.admin().await;
    executor.line().await.expect("line");
    assert_eq!(readiness(addr).await, "200");
    world.answer_upgrades([503; 64]);
    world.cut();
    executor.says("relay connection is lost").await;
    assert_eq!(readiness(addr).await, "503");
    world.accept_upgrades();
    executor.says_times("relay connection is up", 2).await;
    assert_eq!(readiness(addr).await, "200");
}

#[tokio::test]
async fn a_spoiled_ticket_leads_to_a_new_registration_at_once() {
    for status in [401, 403, 404, 410] {
        let mut world = World::new();
        let mut executor = Executor::start(with_token(&world));
        executor.line().await.expect("line");
        expect(&mut world, [registered(200), upgraded(1, 101)]).await;
        // A registration that answers nonsense now is the registry's fault, and waited out.
        world.answer_registers([(302, "", "")]);
        world.answer_upgrades([status]);
        world.cut();
        expect(
            &mut world,
            [
                Seen::Gone(None),
                upgraded(1, status),
                registered(302),
                registered(200),
                upgraded(2, 101),
            ],
        )
        .await;
        let line = executor.line().await.expect("line");
        assert!(line.ends_with("registration=reg-2"), "{line}");
    }
}

#[tokio::test]
async fn a_fresh_ticket_that_is_refused_is_replaced_but_not_at_once() {
    let mut world = World::new();
    world.answer_upgrades([401, 401]);
    let start = Instant::now();
    let _executor = Executor::start(with_token(&world));
    let expected = [
        registered(200),
        upgraded(1, 401),
        registered(200),
        upgraded(2, 401),
        registered(200),
        upgraded(3, 101),
    ];
    expect(&mut world, expected).await;
    // Half of one second and half of two at least.
    assert!(start.elapsed() >= Duration::from_millis(1500), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_revoked_credential_ends_it_later_too() {
    let mut world = World::new();
    let mut executor = Executor::start(with_token(&world));
    executor.line().await.expect("line");
    expect(&mut world, [registered(200), upgraded(1, 101)]).await;
    world.answer_registers([(401, "", "")]);
    world.answer_upgrades([401]);
    world.cut();
    let (code, log) = executor.end().await;
    assert_eq!(code, Some(77), "{log}");
}

#[tokio::test]
async fn wrong_command_lines_end_with_64() {
    let world = World::new();
    for arguments in [
        &["--nonsense"][..],
        &["--remote", "ftp://x"],
        &["--remote", "http://192.0.2.1"],
        &["--remote", "https://user:hunter2@127.0.0.1"],
        &["--environment-id", "a b"],
        &["--ca-file", "/nonexistent"],
        &["--token-file", "/nonexistent"],
        &["--log-filter", "=="],
        &["--credential-fd", "1"],
        &["--credential-fd", "77"],
    ] {
        let overridden = arguments[0];
        let mut command = bare();
        for (flag, value) in [("--remote", world.url()), ("--environment-id", ENVIRONMENT.to_owned())] {
            if flag != overridden {
                command.args([flag, &value]);
            }
        }
        command.args(arguments);
        if overridden != "--token-file" && overridden != "--credential-fd" {
            command.env("EXECUTOR_TOKEN", "the-token");
        }
        let (code, log) = Executor::start(command).end().await;
        assert_eq!(code, Some(64), "{arguments:?}: {log}");
        assert!(!log.contains("hunter2"), "{log}");
    }
    let (code, log) = Executor::start(command(&world.url())).end().await;
    assert_eq!(code, Some(77), "{log}");
    assert!(log.contains("EXECUTOR_TOKEN"), "{log}");
}

#[tokio::test]
async fn usage_names_what_each_way_of_serving_needs() {
    let remote = "--remote <URL> --environment-id <ID>\n";
    for (arguments, usages) in [
        (&["--help"][..], &[remote, "executor [OPTIONS] --listen [<URL>]\n"][..]),
        (&["--remote", "http://127.0.0.1:1"], &[remote]),
        (&["forward"], &[remote]),
        (&["forward", "--help"], &[remote]),
    ] {
        let mut command = bare();
        command.args(arguments);
        let output = command.output().await.expect("an executor");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(usages.iter().all(|usage| text.contains(usage)), "{arguments:?}: {text}");
    }
}

/// They are there for an executor that listens.
#[tokio::test]
async fn variables_of_listeners_do_not_hinder() {
    let world = World::new();
    let mut command = with_token(&world);
    command.env("EXECUTOR_WS_TOKEN_FILE", "/nowhere");
    Executor::start(command).line().await.expect("registered");
}
