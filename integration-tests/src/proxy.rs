//! An HTTP proxy that gives tunnels to whoever knows the password, and remembers who asked for what.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::netns::{Namespace, Server};
use crate::upgrade::read_head;

/// How a proxy is set up.
#[derive(Debug)]
pub struct Options {
    /// Where it listens.
    pub listen: SocketAddr,
    /// TLS, if it speaks TLS itself.
    pub tls: Option<Arc<ServerConfig>>,
    /// Who may use it, as `user:password`.
    pub login: String,
    /// The only names that it resolves.
    pub names: HashMap<String, IpAddr>,
}

/// What somebody asked a proxy for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who asked.
    pub by: IpAddr,
    /// `HOST:PORT`, as it was asked for.
    pub target: String,
    /// The answer's status.
    pub status: u16,
}

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    asked: Arc<Mutex<Vec<Asked>>>,
    _server: Server,
}

impl Proxy {
    /// Starts a proxy inside `namespace`, from which it dials, too.
    ///
    /// # Errors
    ///
    /// The address could not be bound.
    pub fn start(namespace: &Namespace, options: Options) -> Result<Self> {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let job = Arc::new(Job {
            authorization: format!("basic {}", STANDARD.encode(&options.login)),
            names: options.names,
            asked: Arc::clone(&asked),
        });
        let acceptor = options.tls.map(TlsAcceptor::from);
        let server = namespace.serve(options.listen, |listener| serve(job, listener, acceptor))?;
        Ok(Self { asked, _server: server })
    }

    /// What was asked for so far.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.asked).clone()
    }

    /// The targets that a machine was given tunnels to, each once, in order of their names.
    pub fn tunnels(&self, by: IpAddr) -> Vec<String> {
        let asked = self.asked();
        let given = asked.into_iter().filter(|asked| asked.by == by && asked.status == 200);
        let mut targets: Vec<String> = given.map(|asked| asked.target).collect();
        targets.sort();
        targets.dedup();
        targets
    }
}

fn lock(asked: &Mutex<Vec<Asked>>) -> MutexGuard<'_, Vec<Asked>> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(job: Arc<Job>, listener: TcpListener, acceptor: Option<TlsAcceptor>) {
    while let Ok((client, peer)) = listener.accept().await {
        let (job, acceptor) = (Arc::clone(&job), acceptor.clone());
        tokio::spawn(async move {
            // Whoever goes in the middle of it is told nothing, and tells nothing.
            let _ = match acceptor {
                None => job.talk(client, peer.ip()).await,
                Some(acceptor) => match acceptor.accept(client).await {
                    Ok(client) => job.talk(client, peer.ip()).await,
                    Err(error) => Err(error.into()),
                },
            };
        });
    }
}

struct Job {
    authorization: String,
    names: HashMap<String, IpAddr>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Job {
    async fn talk(&self, mut client: impl AsyncRead + AsyncWrite + Unpin, by: IpAddr) -> Result<()> {
        let head = read_head(&mut client).await?;
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let answer = self.answer(&head, &target).await;
        let status = match &answer {
            Ok(_) => 200,
            Err(status) => *status,
        };
        lock(&self.asked).push(Asked { by, target, status });
        let mut server = match answer {
            Ok(server) => server,
            Err(status) => {
                let refusal = format!(
                    "HTTP/1.1 {status} Refused\r\nproxy-authenticate: Basic realm=\"test\"\r\ncontent-length: 0\r\n\r\n"
                );
                client.write_all(refusal.as_bytes()).await?;
                client.shutdown().await?;
                return Ok(());
            }
        };
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        client.flush().await?;
        copy_bidirectional(&mut client, &mut server).await?;
        Ok(())
    }

    /// A connection to the target, or the status of a refusal.
    async fn answer(&self, head: &str, target: &str) -> Result<TcpStream, u16> {
        if !head.starts_with("CONNECT ") {
            return Err(405);
        }
        let authorization = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("proxy-authorization").then_some(value)
        });
        let is_known = authorization.is_some_and(|value| {
            let (scheme, pair) = value.split_once(' ').unwrap_or_default();
            format!("{} {pair}", scheme.to_ascii_lowercase()) == self.authorization
        });
        if !is_known {
            return Err(407);
        }
        let (host, port) = target.rsplit_once(':').ok_or(400_u16)?;
        let port: u16 = port.parse().map_err(|_no_number| 400_u16)?;
        let ip = match self.names.get(host) {
            Some(ip) => *ip,
            None => host.parse().map_err(|_unknown| 502_u16)?,
        };
        TcpStream::connect((ip, port)).await.map_err(|_unreached| 502)
    }
}
