//! The program `relay`, with a registry that speaks as much as it has to.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::Full;
use rendezvous_service::listener::Server;
use rendezvous_service::tls::ServerConfigLoader;
use rendezvous_wire::control::{FromRelay, ToRelay};
use rendezvous_wire::ticket::{Role, relay_url};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};
use tokio_util::sync::CancellationToken;

use crate::world::{PATIENCE, Signer, claims_for, open};

const TOKEN: &str = "relay-token-1";

struct Program {
    child: Child,
    registry: TcpListener,
    log: Lines<BufReader<ChildStderr>>,
    files: tempfile::TempDir,
}

/// Where the credential is, and how the program is told.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A file like any other.
    File,
    /// In the folder that a service manager makes, with this mode.
    Credentials(u32),
}

impl Program {
    async fn start(place: Place, mode: u32) -> Self {
        let files = tempfile::tempdir().expect("a folder");
        let folder = files.path().join("folder");
        std::fs::create_dir(&folder).expect("a folder");
        let credential = folder.join("credential");
        std::fs::write(&credential, format!("{TOKEN}\n")).expect("a file");
        std::fs::set_permissions(&credential, std::fs::Permissions::from_mode(mode)).expect("a mode");
        let registry = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut command = Command::new(env!("CARGO_BIN_EXE_relay"));
        if let Place::Credentials(mode) = place {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).expect("a mode");
            command.env("CREDENTIALS_DIRECTORY", &folder);
        }
        let mut child = command
            .args(["serve", "--public-url", "ws://relay.test", "--listen", "127.0.0.1:0"])
            .args(["--admin-listen", "127.0.0.1:0", "--registry"])
            .arg(format!("http://{}/base", registry.local_addr().expect("an address")))
            .arg("--credential-file")
            .arg(&credential)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a program");
        Self {
            log: BufReader::new(child.stderr.take().expect("stderr")).lines(),
            child,
            registry,
            files,
        }
    }

    /// The next connection of the relay.
    async fn dialled(&self) -> TcpStream {
        let accepted = timeout(PATIENCE, self.registry.accept()).await;
        accepted.expect("in time").expect("a stream").0
    }

    /// Answers the next control connection with this status.
    async fn refuse(&self, status: u16) {
        let mut stream = self.dialled().await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let read = timeout(PATIENCE, stream.read_buf(&mut head)).await;
            assert_ne!(read.expect("in time").expect("a request"), 0);
        }
        let answer = format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.expect("a relay that listens");
    }

    /// The next control connection, after its hello.
    async fn control(&self) -> Control {
        let stream = self.dialled().await;
        let socket = accept_hdr_async(stream, check).await.expect("an upgrade");
        let mut control = Control { socket };
        assert!(matches!(control.next().await, FromRelay::Hello { public_url, .. } if public_url == "ws://relay.test"));
        control
    }

    async fn exit_code(&mut self) -> Option<i32> {
        timeout(PATIENCE, self.child.wait())
            .await
            .expect("in time")
            .expect("a status")
            .code()
    }

    /// Where the admin listener is.
    async fn admin(&mut self) -> SocketAddr {
        let line = said(&mut self.log, "serving health and metrics address=").await;
        let (_, address) = line.split_once("address=").expect("an address");
        address.parse().expect("an address")
    }

    async fn ready(admin: SocketAddr) -> bool {
        let mut socket = TcpStream::connect(admin).await.expect("the admin listener");
        let request = b"GET /readyz HTTP/1.1\r\nhost: relay\r\nconnection: close\r\n\r\n";
        socket.write_all(request).await.expect("a request");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.expect("an answer");
        answer.starts_with("HTTP/1.1 200")
    }
}

/// The next line of the log with `text`.
async fn said(log: &mut Lines<BufReader<ChildStderr>>, text: &str) -> String {
    loop {
        let line = timeout(PATIENCE, log.next_line())
            .await
            .expect("in time")
            .expect("text");
        let line = line.unwrap_or_else(|| panic!("nothing said {text}"));
        if line.contains(text) {
            return line;
        }
    }
}

#[expect(clippy::result_large_err, reason = "the callback's signature is tungstenite's")]
fn check(request: &Request, response: Response) -> Result<Response, ErrorResponse> {
    assert_eq!(request.uri().path(), "/base/v1/relay/control");
    assert_eq!(request.headers()["authorization"], format!("Bearer {TOKEN}"));
    Ok(response)
}

struct Control {
    socket: WebSocketStream<TcpStream>,
}

impl Control {
    async fn next(&mut self) -> FromRelay {
        loop {
            match timeout(PATIENCE, self.socket.next()).await.expect("in time") {
                Some(Ok(Message::Text(text))) => match serde_json::from_str(&text).expect("a message") {
                    FromRelay::Renew { accepting: true, .. } => {}
                    message => return message,
                },
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn send(&mut self, message: &ToRelay) {
        let text = serde_json::to_string(message).expect("JSON");
        self.socket
            .send(Message::text(text))
            .await
            .expect("a relay that listens");
    }
}

#[tokio::test]
async fn serves_after_the_welcome_survives_the_registry_and_drains() {
    let mut program = Program::start(Place::File, 0o600).await;
    let admin = program.admin().await;
    let stdout = program.child.stdout.take().expect("stdout");
    let mut lines = BufReader::new(stdout).lines();
    let mut control = program.control().await;
    assert!(!Program::ready(admin).await, "no keys yet");
    // A message of a newer registry is skipped.
    let newer = Message::text(r#"{"type":"from_the_future","x":1}"#);
    control.socket.send(newer).await.expect("a relay that listens");
    let signer = Signer::new("k1");
    let welcome = ToRelay::Welcome {
        keys: vec![signer.public.clone()],
        revoked: vec![],
    };
    control.send(&welcome).await;
    let line = timeout(PATIENCE, lines.next_line())
        .await
        .expect("in time")
        .expect("a line")
        .expect("a line");
    let address = line
        .strip_prefix("relay listening on ws://")
        .expect("the line that scripts wait for")
        .to_owned();
    assert!(Program::ready(admin).await);

    let claims = claims_for(Role::Executor, "exec", "");
    let url = relay_url(&format!("ws://{address}"), &claims.env, &signer.sign(&claims));
    let mut executor = open(&url).await.expect("an executor");
    let FromRelay::ExecutorUp(up) = control.next().await else {
        panic!()
    };

    // The registry goes away and comes back: the executor has noticed nothing and is named again.
    drop(control);
    let mut control = program.control().await;
    said(&mut program.log, "live streams go on").await;
    assert_eq!(control.next().await, FromRelay::ExecutorUp(up.clone()));
    control.send(&welcome).await;

    let pid = Pid::from_raw(i32::try_from(program.child.id().expect("a pid")).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::TERM).expect("a signal");
    assert_eq!(executor.closed().await, (1001, "relay_draining".into()));
    let mut refusing = false;
    loop {
        match control.next().await {
            FromRelay::Renew { accepting, .. } => refusing |= !accepting,
            message => break assert_eq!(message, FromRelay::ExecutorDown(up)),
        }
    }
    assert!(refusing, "the registry was told before the connections were closed");
    assert_eq!(program.exit_code().await, Some(0));
}

#[tokio::test]
async fn takes_its_credential_from_the_service_manager() {
    let mut program = Program::start(Place::Credentials(0o500), 0o440).await;
    program.control().await;
    program.child.kill().await.expect("a program");
    // So that the folder can be removed.
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(program.files.path().join("folder"), mode).expect("a mode");
}

#[tokio::test]
async fn a_refused_credential_ends_with_77_unless_it_was_good_before() {
    for status in [401, 403] {
        let mut program = Program::start(Place::File, 0o600).await;
        program.refuse(status).await;
        assert_eq!(program.exit_code().await, Some(77), "{status}");
        let mut stdout = String::new();
        let mut pipe = program.child.stdout.take().expect("stdout");
        pipe.read_to_string(&mut stdout).await.expect("stdout");
        assert_eq!(stdout, "", "nothing was announced");
        let mut last = String::new();
        while let Some(line) = program.log.next_line().await.expect("stderr") {
            last = line;
        }
        assert!(
            last.starts_with("relay: ") && last.contains("credential"),
            "{status}: {last}"
        );
    }

    // Anything else may pass.
    let mut program = Program::start(Place::File, 0o600).await;
    program.refuse(503).await;
    let mut control = program.control().await;
    let welcome = ToRelay::Welcome {
        keys: vec![Signer::new("k1").public],
        revoked: vec![],
    };
    control.send(&welcome).await;
    let mut lines = BufReader::new(program.child.stdout.take().expect("stdout")).lines();
    let line = timeout(PATIENCE, lines.next_line()).await.expect("in time");
    assert!(line.expect("a line").is_some(), "it was welcome");

    drop(control);
    program.refuse(401).await;
    program.control().await;
}

/// A relay that is told to use this registry, and its log.
fn relay_of(registry: &str, credential: &Path, more: &[&str]) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_relay"))
        .args(["serve", "--public-url", "ws://relay.test", "--listen", "127.0.0.1:0"])
        .args(["--registry", registry, "--credential-file"])
        .arg(credential)
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("a program");
    let log = BufReader::new(child.stderr.take().expect("stderr")).lines();
    (child, log)
}

/// Until it was welcome once, there is nothing that could go on.
#[tokio::test]
async fn a_registry_that_cannot_be_used_is_told_with_what_to_do() {
    let files = tempfile::tempdir().expect("a folder");
    let (credential, cert, key) = (
        files.path().join("c"),
        files.path().join("cert"),
        files.path().join("key"),
    );
    std::fs::write(&credential, TOKEN).expect("a file");
    std::fs::set_permissions(&credential, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    std::fs::write(&cert, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    let tls = ServerConfigLoader::load(&cert, &key).expect("a pair");
    let any = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind(any, Some(Arc::new(tls))).expect("a port");
    let at = server.local_addr();
    let handler = |_, _| {
        let mut answer = http::Response::new(Full::<bytes::Bytes>::default());
        *answer.status_mut() = http::StatusCode::NOT_FOUND;
        std::future::ready(answer)
    };
    tokio::spawn(server.serve(handler, CancellationToken::new()));
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let clear = silent.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = silent.accept().await {
            // A web server that was spoken to in another language.
            let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let ca = cert.to_str().expect("a path");
    for (registry, more, words) in [
        (
            "http://127.0.0.1:1".to_owned(),
            &[][..],
            &["cannot be reached", "refused"][..],
        ),
        (format!("https://{at}"), &[], &["not trusted", "--ca-file"]),
        (format!("https://{at}"), &["--ca-file", ca], &["404", "--registry"]),
        (format!("https://{clear}"), &[], &["no TLS connection", "https"]),
        (format!("http://{at}"), &[], &["does it serve https"]),
    ] {
        let (_child, mut log) = relay_of(&registry, &credential, more);
        for _ in 0..2 {
            let line = said(&mut log, "WARN").await;
            assert!(line.contains(&registry) && line.contains("wait="), "{line}");
            assert!(words.iter().all(|word| line.contains(word)), "{words:?}: {line}");
            assert!(!line.contains("live streams"), "{line}");
        }
    }
}

#[tokio::test]
async fn configuration_mistakes_end_with_64() {
    // Others may read the credential.
    for (place, mode) in [
        (Place::File, 0o644),
        (Place::File, 0o440),
        (Place::Credentials(0o755), 0o440),
        (Place::Credentials(0o500), 0o460),
    ] {
        let mut program = Program::start(place, mode).await;
        assert_eq!(program.exit_code().await, Some(64), "{place:?} {mode:o}");
    }
    for arguments in [
        &["serve"][..],
        &[
            "serve",
            "--registry",
            "http://127.0.0.1",
            "--public-url",
            "http://x",
            "--credential-file",
            "/dev/null",
        ],
        &[
            "serve",
            "--registry",
            "not a url",
            "--public-url",
            "ws://x",
            "--credential-file",
            "/dev/null",
        ],
    ] {
        let run = Command::new(env!("CARGO_BIN_EXE_relay"))
            .args(arguments)
            .stderr(Stdio::null())
            .status();
        let status = timeout(Duration::from_secs(20), run)
            .await
            .expect("in time")
            .expect("a status");
        assert_eq!(status.code(), Some(64), "{arguments:?}");
    }
}
