//! Signals to this process.

use rendezvous_harness::Signal as Remote;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// A signal that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    HangUp,
    Interrupt,
    Quit,
    User1,
    User2,
    Terminate,
    /// Ctrl-Z on a terminal that is not raw.
    Suspend,
}

impl Signal {
    const ENDING: [Self; 3] = [Self::HangUp, Self::Interrupt, Self::Terminate];

    /// Whether it ends programs that do not know it.
    pub(crate) fn ends_programs(self) -> bool {
        matches!(self, Self::HangUp | Self::Interrupt | Self::Quit | Self::Terminate)
    }

    fn kind(self) -> SignalKind {
        match self {
            Self::HangUp => SignalKind::hangup(),
            Self::Interrupt => SignalKind::interrupt(),
            Self::Quit => SignalKind::quit(),
            Self::User1 => SignalKind::user_defined1(),
            Self::User2 => SignalKind::user_defined2(),
            Self::Terminate => SignalKind::terminate(),
            Self::Suspend => SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()),
        }
    }

    /// Its name in signal(7).
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HangUp => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Quit => "SIGQUIT",
            Self::User1 => "SIGUSR1",
            Self::User2 => "SIGUSR2",
            Self::Terminate => "SIGTERM",
            Self::Suspend => "SIGTSTP",
        }
    }

    /// The same for a command; nothing if there is none.
    pub(crate) fn remote(self) -> Option<Remote> {
        self.name().parse().ok()
    }

    /// Its number here.
    pub(crate) fn number(self) -> u8 {
        u8::try_from(self.kind().as_raw_value()).unwrap_or(0)
    }

    /// What a process exits with that it ended.
    pub(crate) fn exit_code(self) -> u8 {
        128 + self.number()
    }
}

/// Signals as they come.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, Stream)>,
}

impl Signals {
    /// Those that end most programs.
    ///
    /// # Errors
    ///
    /// When the system gives none.
    pub(crate) fn new() -> std::io::Result<Self> {
        Self::of(&Signal::ENDING)
    }

    /// From now on these. Until the program ends, they do nothing else to it.
    ///
    /// # Errors
    ///
    /// When the system gives none.
    pub(crate) fn of(wanted: &[Signal]) -> std::io::Result<Self> {
        let streams = wanted.iter().map(|wanted| Ok((*wanted, signal(wanted.kind())?)));
        Ok(Self {
            streams: streams.collect::<std::io::Result<_>>()?,
        })
    }

    /// The next one that ends programs; others are lost meanwhile.
    pub(crate) async fn ending(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if signal.ends_programs() {
                return signal;
            }
        }
    }

    /// The next one. May be dropped without losing one.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|cx| {
            for (signal, stream) in &mut self.streams {
                if let std::task::Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// The first signal that ends most programs; never, when signals cannot be had: then their default ends the process.
pub(crate) async fn ending() -> Signal {
    match Signals::new() {
        Ok(mut signals) => signals.next().await,
        Err(_) => std::future::pending().await,
    }
}
