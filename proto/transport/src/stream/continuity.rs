use std::time::Instant;

use tokio::sync::watch;

/// How a stream outlives its connections. `Default` is a stream that does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Continuity {
    /// The stream can become reliable: its application must name the extension to the other end, or not, and say with
    /// [`MessageSender::settle`](super::MessageSender::settle) whether both did.
    pub is_offered: bool,
    /// Both ends agreed: it outlives its connections.
    pub is_reliable: bool,
    /// The connection below it is gone since then, and may come back. Messages wait meanwhile.
    pub suspended_since: Option<Instant>,
    /// How often it went on behind a lost connection.
    pub resumes: u64,
    /// Its record numbers are half used up: another stream should take its place.
    pub is_worn: bool,
}

/// The driver's end.
#[derive(Debug)]
pub(crate) struct Teller(watch::Sender<Continuity>);

impl Teller {
    pub(crate) fn new(is_offered: bool) -> (Self, watch::Receiver<Continuity>) {
        let (sender, receiver) = watch::channel(Continuity {
            is_offered,
            ..Continuity::default()
        });
        (Self(sender), receiver)
    }

    pub(crate) fn suspended(&self, now: Instant) {
        self.0.send_if_modified(|continuity| {
            let is_news = continuity.suspended_since.is_none();
            continuity.suspended_since.get_or_insert(now);
            is_news
        });
    }

    /// Gives the time when it was suspended.
    pub(crate) fn resumed(&self) -> Option<Instant> {
        let mut since = None;
        self.0.send_modify(|continuity| {
            since = continuity.suspended_since.take();
            continuity.resumes += 1;
        });
        since
    }

    pub(crate) fn worn(&self) {
        self.0.send_modify(|continuity| continuity.is_worn = true);
    }

    /// The ends agreed, or did not.
    pub(crate) fn settled(&self, is_reliable: bool) {
        self.0.send_modify(|continuity| {
            continuity.is_offered = false;
            continuity.is_reliable = is_reliable;
        });
    }
}
