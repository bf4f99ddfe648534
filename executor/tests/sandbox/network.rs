//! Programs whose network is their proxy.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use rendezvous_host::process::{Spec, StartError, Stdio};
use rendezvous_host::proxy::{
    Answer, Attached, INSIDE, Locally, Mode, Notice, Protocol, Proxy, Referee, Rules, Slots, Target, overlay, variables,
};
use rendezvous_host::sandbox::{Intent, Network, Policy, Profile, Sandbox, SandboxError, Tools};

use crate::support::{self, World};

#[derive(Debug)]
struct Nobody;

impl Referee for Nobody {
    fn ask(&self, _: Protocol, _: &Target) -> Option<Answer> {
        None
    }

    fn notice(&self, _: Notice) {}
}

/// A proxy inside of a sandbox that lets these hosts pass.
pub(crate) fn proxy(allowed: &[&str]) -> Attached {
    let mut rules = Rules::new(Mode::Full, true);
    for pattern in allowed {
        rules.allow(pattern).expect("a pattern");
    }
    Attached::Inside {
        proxy: Proxy::new(rules, Arc::new(Nobody), &Slots::default()),
        socks: true,
    }
}

/// Answers everybody who connects with one line, which tells that it was reached.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    at
}

fn answer(mut stream: std::net::TcpStream) -> std::io::Result<()> {
    use std::io::{Read as _, Write as _};
    let _some = stream.read(&mut [0; 4096])?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nREACHED\n")
}

/// A program with the variables of its proxy.
fn spec(world: &World, script: &str, more: &[(&str, &str)]) -> Spec {
    let mut spec = world.spec(&["/bin/sh", "-c", script]);
    overlay(&mut spec.env, variables(INSIDE, Locally::Proxied));
    let more = more
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    spec.env.extend(more);
    spec
}

#[tokio::test]
async fn only_what_the_proxy_lets_pass_is_reached() {
    let world = World::new();
    let (allowed, denied) = (server().to_string(), server().to_string());
    let intent = world.workspace_write();
    let script = r#"
        echo allowed $(curl -sS -m 10 http://$ALLOWED/)
        echo tunnel $(curl -sS -m 10 --proxytunnel http://$ALLOWED/)
        echo socks $(curl -sS -m 10 --proxy $ALL_PROXY http://$ALLOWED/)
        echo denied $(curl -sS -m 10 http://$DENIED/)
        echo direct $(curl -sS -m 10 --noproxy '*' http://$ALLOWED/ 2>&1)
        echo x > written && echo wrote
    "#;
    let port_only = |target: &str| target.rsplit(':').next().expect("a port").to_owned();
    let pattern = format!("127.0.0.1:{}", port_only(&allowed));
    for stdio in [Stdio::Pipes { stdin: false }, Stdio::Terminal] {
        let spec = Spec {
            stdio,
            ..spec(&world, script, &[("ALLOWED", &allowed), ("DENIED", &denied)])
        };
        let spec = world.confine_managed(spec, &intent).await;
        let outcome = world.finish_with(spec, Some(proxy(&[&pattern]))).await;
        let lines: Vec<&str> = outcome.out.lines().collect();
        assert_eq!(
            lines[..3],
            ["allowed REACHED", "tunnel REACHED", "socks REACHED"],
            "{outcome:?}"
        );
        assert!(
            lines[3].contains("blocked") && lines[3].contains("not_allowed"),
            "{outcome:?}"
        );
        assert!(lines[4].starts_with("direct curl: (7)"), "{outcome:?}");
        assert_eq!(lines[5], "wrote", "{outcome:?}");
    }
}

/// Ways past a proxy, by themselves: each says so when it has worked.
const PAST: [(&str, &str); 9] = [
    (
        "TCP",
        r#"perl -MIO::Socket::INET -e 'print "PAST" if IO::Socket::INET->new(PeerAddr => $ENV{TCP}, Timeout => 5)'"#,
    ),
    (
        "UDP",
        r#"perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => "udp", PeerAddr => $ENV{UDP}); $s and $s->send("x")'"#,
    ),
    (
        "UDP without connect",
        r#"perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0); ($h, $p) = split /:/, $ENV{UDP}; send(S, "x", 0, pack_sockaddr_in($p, inet_aton($h)))'"#,
    ),
    (
        "DNS",
        r#"perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0); ($h, $p) = split /:/, $ENV{UDP}; send(S, "\0\1\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1", 0, pack_sockaddr_in($p, inet_aton($h)))'"#,
    ),
    (
        "IPv6",
        r#"perl -MIO::Socket::IP -e 'print "PAST" if IO::Socket::IP->new(PeerHost => "::1", PeerPort => (split /:/, $ENV{TCP6})[-1], Timeout => 5)'"#,
    ),
    (
        "raw",
        r#"perl -MSocket -e 'socket(S, AF_INET, SOCK_RAW, 1) and print "PAST"'"#,
    ),
    ("a new network", "unshare -Urn true && echo PAST"),
    (
        "another program's network",
        "nsenter --net=/proc/$OUTER/ns/net true && echo PAST",
    ),
    (
        "the machine's own hypervisor",
        r#"perl -MSocket -e 'socket(S, 40, SOCK_STREAM, 0) and print "PAST"'"#,
    ),
];

#[tokio::test]
async fn there_is_no_way_past_it() {
    let world = World::new();
    let tcp = server().to_string();
    let six = TcpListener::bind("[::1]:0").expect("a port");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    udp.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
    let (six_at, udp_at) = (
        six.local_addr().expect("an address"),
        udp.local_addr().expect("an address"),
    );
    let outer = std::process::id().to_string();
    let more = [
        ("TCP", tcp.as_str()),
        ("TCP6", &six_at.to_string()),
        ("UDP", &udp_at.to_string()),
        ("OUTER", &outer),
    ];
    let mut kept = Vec::new();
    let mut open = Vec::new();
    for is_managed in [true, false] {
        for (name, script) in PAST {
            let spec = spec(&world, script, &more);
            let (spec, proxy) = if is_managed {
                let spec = world.confine_managed(spec, &world.workspace_write()).await;
                (spec, Some(proxy(&["*"])))
            } else {
                (spec, None)
            };
            let outcome = world.finish_with(spec, proxy).await;
            let arrived = udp.recv(&mut [0; 64]).is_ok();
            if outcome.out.contains("PAST") || arrived {
                if is_managed { &mut kept } else { &mut open }.push(name);
            }
        }
    }
    assert!(kept.is_empty(), "{kept:?} worked");
    // Otherwise that they fail would prove nothing. A kernel may have no sockets of a hypervisor.
    open.retain(|name| !name.contains("hypervisor"));
    assert_eq!(open.len(), PAST.len() - 1, "{open:?} alone worked without a sandbox");
}

#[tokio::test]
async fn it_is_its_own_network_where_a_program_may_serve_itself() {
    let world = World::new();
    let script = r#"perl -MIO::Socket::INET -e '
        $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8000", Listen => 1) or die "listen: $!";
        $c = IO::Socket::INET->new("127.0.0.1:8000") or die "connect: $!";
        print "SERVED" if $l->accept'; cat /proc/net/tcp | wc -l"#;
    // Two of them do not meet.
    for _ in 0..2 {
        let spec = world
            .confine_managed(spec(&world, script, &[]), &world.workspace_write())
            .await;
        let outcome = world.finish_with(spec, Some(proxy(&[]))).await;
        assert!(outcome.out.starts_with("SERVED"), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_network_alone_can_be_managed() {
    let world = World::new();
    let allowed = server().to_string();
    let script = "curl -sS -m 10 http://$ALLOWED/; curl -sS -m 10 --noproxy '*' http://$ALLOWED/; echo x > $OUT/new && echo wrote";
    let out = world.outside.to_string_lossy().into_owned();
    for profile in [
        Profile::Disabled,
        Profile::External {
            network: Network::Restricted,
        },
    ] {
        let intent = Intent {
            profile,
            ..world.workspace_write()
        };
        let spec = spec(&world, script, &[("ALLOWED", &allowed), ("OUT", &out)]);
        let spec = world.confine_managed(spec, &intent).await;
        let outcome = world.finish_with(spec, Some(proxy(&["127.0.0.1"]))).await;
        assert_eq!(outcome.out, "REACHED\nwrote\n", "{outcome:?}");
    }
}

#[tokio::test]
async fn without_bubblewrap_it_is_refused() {
    let world = World::new();
    let sandbox = Sandbox::new(Tools {
        bubblewrap: None,
        helper: support::helper(),
    });
    let open = Intent {
        profile: Profile::Disabled,
        ..world.workspace_write()
    };
    let readable = world.intent(&[(
        rendezvous_host::sandbox::Place::Root,
        rendezvous_host::sandbox::Access::Read,
    )]);
    for intent in [world.workspace_write(), open, readable] {
        let policy = Policy::resolve(&intent).expect("a policy").managed();
        assert!(matches!(
            sandbox.jail(policy).await,
            Err(SandboxError::Unenforceable(_))
        ));
    }
}

#[tokio::test]
async fn a_proxy_inside_needs_a_sandbox_with_a_network() {
    let world = World::new();
    let confined = world.confine(world.spec(&["true"]), &world.workspace_write()).await;
    for spec in [world.spec(&["true"]), confined] {
        let started = world.processes.start_with("p", spec, Some(proxy(&[]))).await;
        assert!(
            matches!(started, Err(StartError::Spawn(_) | StartError::Sandbox(_))),
            "{started:?}"
        );
    }
}
