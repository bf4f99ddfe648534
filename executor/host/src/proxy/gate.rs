//! Decides about one connection or request: rules first, then the client, then where the name leads.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::address;
use super::decision::{Notice, Outcome, Protocol, Referee, Verdict};
use super::host::{Host, Target};
use super::lookup::Lookups;
use super::rules::{Judgement, Mode, Rules, are_reachable};
use crate::own;

/// Questions of one proxy that its client has not answered yet. The next one is denied.
pub const MAX_QUESTIONS: usize = 16;
/// Addresses of one name that are dialled; a name with more is not asked for the rest.
pub const MAX_ADDRESSES: usize = 16;
/// Longest time to resolve a name, waiting for room included.
pub const RESOLVE_LIMIT: Duration = Duration::from_secs(10);
/// Longest time to reach one address.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Longest time to reach any address of a target.
pub const DIAL_LIMIT: Duration = Duration::from_secs(30);

/// Addresses on their way.
pub(super) type Addresses = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Turns names into addresses.
pub(super) type Resolver = Arc<dyn Fn(String) -> Addresses + Send + Sync>;

/// The resolver of this machine, for one proxy.
pub(super) fn system_resolver() -> Resolver {
    let lookups = Lookups::new();
    Arc::new(move |name| {
        let lookups = lookups.clone();
        Box::pin(async move { lookups.resolve(name).await })
    })
}

/// Decides for one program.
pub(super) struct Gate {
    pub(super) rules: Rules,
    pub(super) referee: Arc<dyn Referee>,
    pub(super) resolver: Resolver,
    /// Room for [`MAX_QUESTIONS`].
    pub(super) questions: Semaphore,
}

/// What a program asks a proxy for.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) protocol: Protocol,
    pub(super) target: Target,
    /// Of HTTP.
    pub(super) method: Option<String>,
    /// Of HTTP: whether something is sent beside the head.
    pub(super) has_body: bool,
    pub(super) client: SocketAddr,
}

/// Where an allowed wish leads: these addresses and no others, whatever the name means a moment later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    addresses: Vec<IpAddr>,
    port: u16,
}

impl Gate {
    /// Decides, and tells the referee.
    ///
    /// # Errors
    ///
    /// Why it may not be.
    pub(super) async fn admit(&self, wish: &Wish) -> Result<Way, Outcome> {
        if self.rules.mode == Mode::Limited && wish.protocol == Protocol::Socks5 {
            return Err(self.tell(wish, Outcome::Method));
        }
        let (outcome, way) = self.decide(wish).await;
        let outcome = self.tell(wish, outcome);
        let Some(way) = way else { return Err(outcome) };
        if self.rules.mode == Mode::Limited && wish.protocol == Protocol::Connect {
            return Err(self.tell(wish, Outcome::Tunnel));
        }
        let is_taken = |method: &String| self.rules.takes_method(method) && self.rules.takes_body(wish.has_body);
        if wish.protocol == Protocol::Http && !wish.method.as_ref().is_none_or(is_taken) {
            return Err(self.tell(wish, Outcome::Method));
        }
        Ok(way)
    }

    async fn decide(&self, wish: &Wish) -> (Outcome, Option<Way>) {
        let (outcome, judgement) = match self.rules.judge(&wish.target) {
            Judgement::Denied => return (Outcome::Denied, None),
            Judgement::Local => return (Outcome::Local, None),
            judgement @ (Judgement::Anywhere | Judgement::Public) => (Outcome::Allowed, judgement),
            Judgement::Unknown => match self.ask(wish).await {
                None => return (Outcome::NotAllowed, None),
                Some(Verdict::Allow) => (Outcome::AllowedByClient, self.rules.overridden()),
                Some(Verdict::Deny(reason)) => return (Outcome::DeniedByClient(reason), None),
                Some(Verdict::Ask(reason)) => return (Outcome::AskedByClient(reason), None),
            },
        };
        // Without an answer nobody can say that the addresses are public.
        let addresses = self.resolve(&wish.target.host).await.unwrap_or_default();
        if addresses.iter().any(|address| self.rules.denies_address(*address)) {
            return (Outcome::Denied, None);
        }
        let port = wish.target.port;
        let is_closed = |address: &IpAddr| address::is_no_target(*address) || own::listens_at((*address, port).into());
        if addresses.is_empty()
            || addresses.iter().any(is_closed)
            || !are_reachable(&wish.target.host, judgement, &addresses)
        {
            return (Outcome::Local, None);
        }
        (outcome, Some(Way { addresses, port }))
    }

    /// Asks the client. Nothing: nobody is there to ask.
    async fn ask(&self, wish: &Wish) -> Option<Verdict> {
        // All places are taken by questions, so there is somebody to ask.
        let Ok(_place) = self.questions.try_acquire() else {
            return Some(Verdict::not_allowed());
        };
        let answer = self.referee.ask(wish.protocol, &wish.target)?;
        Some(answer.await.checked())
    }

    async fn resolve(&self, host: &Host) -> io::Result<Vec<IpAddr>> {
        match host {
            Host::Address(address) => Ok(vec![*address]),
            Host::Name(name) => {
                let found = timeout(RESOLVE_LIMIT, (self.resolver)(name.clone())).await;
                let mut found = found.map_err(|_elapsed| io::Error::from(io::ErrorKind::TimedOut))??;
                found.truncate(MAX_ADDRESSES);
                Ok(found)
            }
        }
    }

    fn tell(&self, wish: &Wish, outcome: Outcome) -> Outcome {
        tracing::debug!(
            host = %wish.target.host,
            port = wish.target.port,
            reason = outcome.reason(),
            "{}", outcome.decision()
        );
        self.referee.notice(Notice {
            at: SystemTime::now(),
            outcome: outcome.clone(),
            protocol: wish.protocol,
            target: wish.target.clone(),
            method: wish.method.clone(),
            client: wish.client,
        });
        outcome
    }
}

impl Way {
    /// Connects to the first address that answers.
    pub(super) async fn dial(&self) -> io::Result<TcpStream> {
        let dialling = async {
            let mut last = io::Error::from(io::ErrorKind::NotFound);
            for address in &self.addresses {
                // A socket may have come since.
                if own::listens_at((*address, self.port).into()) {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                match timeout(CONNECT_LIMIT, TcpStream::connect((*address, self.port))).await {
                    Ok(Ok(stream)) => {
                        stream.set_nodelay(true)?;
                        return Ok(stream);
                    }
                    Ok(Err(error)) => last = error,
                    Err(_elapsed) => last = io::ErrorKind::TimedOut.into(),
                }
            }
            Err(last)
        };
        timeout(DIAL_LIMIT, dialling)
            .await
            .unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests;
