//! Decisions, with a resolver and a referee of the test's own.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::decision::Answer;
use super::*;

/// Answers what it is told, and keeps what it hears.
#[derive(Debug, Default)]
struct Judge {
    verdict: Option<Verdict>,
    asked: AtomicUsize,
    heard: Mutex<Vec<Notice>>,
}

impl Referee for Judge {
    fn ask(&self, _: Protocol, _: &Target) -> Option<Answer> {
        let verdict = self.verdict.clone()?;
        self.asked.fetch_add(1, Ordering::Relaxed);
        Some(Box::pin(async { verdict }))
    }

    fn notice(&self, notice: Notice) {
        self.heard.lock().unwrap().push(notice);
    }
}

impl Judge {
    fn outcomes(&self) -> Vec<Outcome> {
        self.heard
            .lock()
            .unwrap()
            .drain(..)
            .map(|notice| notice.outcome)
            .collect()
    }
}

fn gate(rules: Rules, verdict: Option<Verdict>, resolver: Resolver) -> (Gate, Arc<Judge>) {
    let judge = Arc::new(Judge {
        verdict,
        ..Judge::default()
    });
    let referee: Arc<dyn Referee> = Arc::clone(&judge) as _;
    (
        Gate {
            rules,
            referee,
            resolver,
            questions: Semaphore::new(MAX_QUESTIONS),
        },
        judge,
    )
}

/// Gives each row of addresses once, then the last one for ever.
fn resolver(rows: &'static [&'static [&'static str]]) -> Resolver {
    let turn = AtomicUsize::new(0);
    Arc::new(move |_| {
        let row = rows[turn.fetch_add(1, Ordering::Relaxed).min(rows.len() - 1)];
        Box::pin(async move { Ok(row.iter().map(|address| address.parse().unwrap()).collect()) })
    })
}

fn allowing(pattern: &str) -> Rules {
    let mut rules = Rules::default();
    rules.allow(pattern).unwrap();
    rules
}

fn wish(protocol: Protocol, target: &str, method: Option<&str>) -> Wish {
    Wish {
        protocol,
        target: Target::parse(target, Some(80)).unwrap(),
        method: method.map(ToOwned::to_owned),
        has_body: false,
        client: "127.0.0.1:9".parse().unwrap(),
    }
}

const PUBLIC: &str = "93.184.216.34";
const PRIVATE: &str = "10.1.2.3";

#[tokio::test]
async fn a_name_is_resolved_once_and_its_checked_address_is_dialled() {
    let (gate, _) = gate(allowing("*.test"), None, resolver(&[&[PUBLIC], &[PRIVATE]]));
    let connect = wish(Protocol::Connect, "rebinding.test", None);
    let way = gate.admit(&connect).await.unwrap();
    assert_eq!(way.addresses, [PUBLIC.parse::<IpAddr>().unwrap()]);
    // The next answer is another one, and it is looked at again.
    assert_eq!(gate.admit(&connect).await, Err(Outcome::Local));
}

#[tokio::test]
async fn one_private_address_among_public_ones_or_none_at_all_is_refused() {
    const ROWS: [&[&[&str]]; 4] = [
        &[&[PUBLIC, PRIVATE]],
        &[&["127.0.0.1"]],
        &[&["::ffff:10.0.0.1"]],
        &[&[]],
    ];
    for rows in ROWS {
        let (gate, judge) = gate(allowing("*"), None, resolver(rows));
        assert_eq!(
            gate.admit(&wish(Protocol::Http, "x.test", Some("GET"))).await,
            Err(Outcome::Local)
        );
        assert_eq!(judge.outcomes(), [Outcome::Local]);
    }
    let failing: Resolver = Arc::new(|_| Box::pin(async { Err(io::ErrorKind::NotFound.into()) }));
    let (gate, _) = gate(allowing("*"), None, failing);
    assert_eq!(
        gate.admit(&wish(Protocol::Http, "x.test", None)).await,
        Err(Outcome::Local)
    );
}

#[tokio::test]
async fn with_local_addresses_allowed_a_private_one_is_dialled() {
    let mut rules = Rules::new(Mode::Full, true);
    rules.allow("*.test").unwrap();
    let (gate, _) = gate(rules, None, resolver(&[&[PRIVATE]]));
    assert!(gate.admit(&wish(Protocol::Http, "x.test", None)).await.is_ok());
}

#[tokio::test]
async fn a_denied_address_is_not_dialled_under_another_name() {
    const ROWS: [&[&[&str]]; 2] = [&[&[PUBLIC, PRIVATE]], &[&["::ffff:10.1.2.3"]]];
    for rows in ROWS {
        for verdict in [None, Some(Verdict::Allow)] {
            let mut rules = Rules::new(Mode::Full, true);
            rules.deny(PRIVATE).unwrap();
            if verdict.is_none() {
                rules.allow("*").unwrap();
            }
            let (gate, judge) = gate(rules, verdict, resolver(rows));
            assert_eq!(
                gate.admit(&wish(Protocol::Http, "x.test", None)).await,
                Err(Outcome::Denied)
            );
            assert_eq!(judge.outcomes(), [Outcome::Denied]);
        }
    }
}

#[tokio::test]
async fn nothing_opens_what_this_program_itself_listens_at() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let own = own::Listening::at(at);
    for verdict in [None, Some(Verdict::Allow)] {
        for name in ["own.test", "localhost", "127.0.0.1", "[::ffff:127.0.0.1]"] {
            let mut rules = Rules::new(Mode::Full, true);
            if verdict.is_none() {
                for pattern in ["*", "localhost", "127.0.0.1"] {
                    rules.allow(pattern).unwrap();
                }
            }
            let (gate, _) = gate(rules, verdict.clone(), resolver(&[&["127.0.0.1"]]));
            let mut wish = wish(Protocol::Connect, name, None);
            wish.target.port = at.port();
            assert_eq!(gate.admit(&wish).await, Err(Outcome::Local), "{name}");
        }
    }
    let way = Way {
        addresses: vec![at.ip()],
        port: at.port(),
    };
    let refused = way.dial().await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    drop(own);
    assert!(way.dial().await.is_ok());
}

#[tokio::test]
async fn the_address_of_no_machine_is_refused_whatever_rules_say() {
    for target in ["0.0.0.0", "0.0.0.1", "[::]", "[::ffff:0.0.0.0]", "0"] {
        let mut rules = Rules::new(Mode::Full, true);
        rules.allow("*").unwrap();
        let (gate, _) = gate(rules, None, resolver(&[&[PUBLIC]]));
        let wish = wish(Protocol::Connect, target, None);
        assert_eq!(gate.admit(&wish).await, Err(Outcome::Local), "{target}");
    }
}

#[tokio::test]
async fn no_more_addresses_than_the_bound_are_kept() {
    let many: Resolver = Arc::new(|_| Box::pin(async { Ok(vec![PUBLIC.parse().unwrap(); MAX_ADDRESSES * 10]) }));
    let (gate, _) = gate(allowing("*"), None, many);
    let way = gate.admit(&wish(Protocol::Http, "x.test", None)).await.unwrap();
    assert_eq!(way.addresses.len(), MAX_ADDRESSES);
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_hangs_is_not_waited_for() {
    let hanging: Resolver = Arc::new(|_| Box::pin(std::future::pending()));
    let (gate, _) = gate(allowing("*"), None, hanging);
    assert_eq!(
        gate.admit(&wish(Protocol::Http, "x.test", None)).await,
        Err(Outcome::Local)
    );
}

#[tokio::test]
async fn only_the_unknown_is_asked_about_and_nothing_is_remembered() {
    let rules = {
        let mut rules = allowing("known.test");
        rules.deny("bad.test").unwrap();
        rules
    };
    let (gate, judge) = gate(rules, Some(Verdict::Allow), resolver(&[&[PUBLIC]]));
    for (target, expected) in [
        ("known.test", Ok(())),
        ("bad.test", Err(Outcome::Denied)),
        ("127.0.0.1", Err(Outcome::Local)),
        ("localhost", Err(Outcome::Local)),
    ] {
        assert_eq!(
            gate.admit(&wish(Protocol::Http, target, None)).await.map(drop),
            expected,
            "{target}"
        );
    }
    assert_eq!(judge.asked.load(Ordering::Relaxed), 0);
    judge.outcomes();
    for _ in 0..2 {
        gate.admit(&wish(Protocol::Socks5, "asked.test", None)).await.unwrap();
    }
    assert_eq!(judge.asked.load(Ordering::Relaxed), 2);
    assert_eq!(judge.outcomes(), [Outcome::AllowedByClient, Outcome::AllowedByClient]);
}

/// Is asked, and never answers.
#[derive(Debug, Default)]
struct Silent(AtomicUsize);

impl Referee for Silent {
    fn ask(&self, _: Protocol, _: &Target) -> Option<Answer> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(Box::pin(std::future::pending()))
    }

    fn notice(&self, _: Notice) {}
}

#[tokio::test(start_paused = true)]
async fn open_questions_of_a_proxy_are_bounded() {
    let silent = Arc::new(Silent::default());
    let gate = Arc::new(Gate {
        rules: Rules::default(),
        referee: Arc::clone(&silent) as _,
        resolver: resolver(&[&[PUBLIC]]),
        questions: Semaphore::new(MAX_QUESTIONS),
    });
    let ask = |name: &str| {
        let (gate, wish) = (Arc::clone(&gate), wish(Protocol::Http, name, None));
        tokio::spawn(async move { gate.admit(&wish).await })
    };
    let mut open: Vec<_> = (0..MAX_QUESTIONS).map(|_| ask("x.test")).collect();
    tokio::task::yield_now().await;
    let denied = Err(Outcome::DeniedByClient("not_allowed".into()));
    assert_eq!(ask("x.test").await.unwrap(), denied);
    assert_eq!(silent.0.load(Ordering::Relaxed), MAX_QUESTIONS);
    // Who gives up makes room.
    let last = open.pop().unwrap();
    last.abort();
    let _aborted = last.await;
    let next = ask("x.test");
    tokio::task::yield_now().await;
    assert!(!next.is_finished());
    assert_eq!(silent.0.load(Ordering::Relaxed), MAX_QUESTIONS + 1);
}

#[tokio::test]
async fn a_client_cannot_open_what_is_local() {
    let (gate, judge) = gate(Rules::default(), Some(Verdict::Allow), resolver(&[&[PRIVATE]]));
    assert_eq!(
        gate.admit(&wish(Protocol::Http, "asked.test", None)).await,
        Err(Outcome::Local)
    );
    assert_eq!(judge.outcomes(), [Outcome::Local]);
}

#[tokio::test]
async fn verdicts_are_passed_on_unless_their_reasons_make_no_sense() {
    for (verdict, expected) in [
        (None, Outcome::NotAllowed),
        (Some(Verdict::Deny("no".into())), Outcome::DeniedByClient("no".into())),
        (Some(Verdict::Ask("who".into())), Outcome::AskedByClient("who".into())),
        (
            Some(Verdict::Deny("a\nb".into())),
            Outcome::DeniedByClient("not_allowed".into()),
        ),
    ] {
        let (gate, _) = gate(Rules::default(), verdict, resolver(&[&[PUBLIC]]));
        assert_eq!(gate.admit(&wish(Protocol::Http, "x.test", None)).await, Err(expected));
    }
}

#[tokio::test]
async fn the_limited_mode_takes_plain_reads_only() {
    let mut rules = Rules::new(Mode::Limited, false);
    rules.allow("x.test").unwrap();
    let (gate, judge) = gate(rules, None, resolver(&[&[PUBLIC]]));
    assert!(gate.admit(&wish(Protocol::Http, "x.test", Some("GET"))).await.is_ok());
    judge.outcomes();
    for (protocol, method, told) in [
        (Protocol::Http, Some("POST"), vec![Outcome::Allowed, Outcome::Method]),
        (
            Protocol::Connect,
            Some("CONNECT"),
            vec![Outcome::Allowed, Outcome::Tunnel],
        ),
        (Protocol::Socks5, None, vec![Outcome::Method]),
    ] {
        let refused = gate.admit(&wish(protocol, "x.test", method)).await.unwrap_err();
        assert_eq!(Some(&refused), told.last());
        assert_eq!(judge.outcomes(), told);
    }
    let with_body = Wish {
        has_body: true,
        ..wish(Protocol::Http, "x.test", Some("GET"))
    };
    assert_eq!(gate.admit(&with_body).await, Err(Outcome::Method));
}
