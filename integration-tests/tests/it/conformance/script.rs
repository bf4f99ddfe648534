//! What a case is made of.

use rendezvous_integration_tests::exec_server::Over;

/// Which servers know what a case is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// All of them.
    Always,
    /// Stock 0.171.0, and ours.
    Newer,
}

/// How a case begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// Connected.
    Connected,
    /// `initialize` and `initialized` are over.
    Initialized,
}

/// Where a case can be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ways {
    /// Everywhere.
    All,
    /// Where one server takes several connections, which excludes stdio.
    Connections,
    /// On WebSockets, because it is about them.
    WebSocket,
    /// On lines of text, because it is about them.
    Stdio,
}

/// One exchange.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) since: Since,
    pub(super) begin: Begin,
    pub(super) is_slow: bool,
    pub(super) over: Ways,
    pub(super) steps: &'static [Step],
}

impl Case {
    pub(super) fn suits(&self, over: Over) -> bool {
        match self.over {
            Ways::All => true,
            Ways::Connections => over != Over::Stdio,
            Ways::WebSocket => over == Over::WebSocket,
            Ways::Stdio => over == Over::Stdio,
        }
    }

    pub(super) const fn newer(mut self) -> Self {
        self.since = Since::Newer;
        self
    }

    pub(super) const fn slow(mut self) -> Self {
        self.is_slow = true;
        self
    }

    pub(super) const fn connections(mut self) -> Self {
        self.over = Ways::Connections;
        self
    }

    pub(super) const fn stdio(mut self) -> Self {
        self.over = Ways::Stdio;
        self
    }

    pub(super) const fn websocket(mut self) -> Self {
        self.over = Ways::WebSocket;
        self
    }
}

/// A case that begins after the handshake.
pub(super) const fn case(name: &'static str, steps: &'static [Step]) -> Case {
    Case {
        name,
        since: Since::Always,
        begin: Begin::Initialized,
        is_slow: false,
        over: Ways::All,
        steps,
    }
}

/// A case that begins with a bare connection.
pub(super) const fn raw(name: &'static str, steps: &'static [Step]) -> Case {
    Case {
        begin: Begin::Connected,
        ..case(name, steps)
    }
}

/// What a client does next. Texts are JSON unless the step says otherwise. `$web` is the URL of a web server ([`super::web`]).
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// `initialize` with these parameters; records whether it was taken, or the code of the error.
    Initialize(&'static str),
    /// The same until it is taken.
    Resume(&'static str),
    /// Calls a method with parameters and records the reply; an empty text leaves the parameters out.
    Call(&'static str, &'static str),
    /// The same, with the wording of an error.
    Exact(&'static str, &'static str),
    /// Calls and records the reply with the kinds of its values instead of the values.
    Shape(&'static str, &'static str),
    /// Calls and records how long a list in the result is; the last text is its JSON pointer.
    Count(&'static str, &'static str, &'static str),
    /// Calls as many times, with `$n` counting from 1, and records the last reply.
    Many(u32, &'static str, &'static str),
    /// Reads all that is kept of a process and records whether that is 1 MiB at most, the end of what it wrote.
    Kept(&'static str),
    /// Calls a method without waiting for its reply.
    Begin(&'static str, &'static str),
    /// Does so as many times, with `$n` counting from 1.
    Flood(u32, &'static str, &'static str),
    /// Records the next reply, whatever its id, with its id.
    Reply,
    /// As [`Step::Codes`], sorted by the ids.
    Replies(usize),
    /// Records so many replies in their order: the ids, and the codes of those that are errors.
    Codes(usize),
    /// Sends a notification.
    Notify(&'static str, &'static str),
    /// Sends a message as it is and records the reply with its id.
    Raw(&'static str),
    /// The same with a message that is made.
    Made(fn() -> Vec<u8>),
    /// Sends a message as it is.
    Send(&'static str),
    /// The same with a message that is made.
    MadeSend(fn() -> Vec<u8>),
    /// `process/start` of a shell with a script, in the case's folder; the last text overrides parameters. Records the
    /// reply, without `sandboxType`, which is newer than some servers.
    Start(&'static str, &'static str, &'static str),
    /// Waits until the process is closed, and records all that it told.
    Closed(&'static str),
    /// Waits until the process is closed.
    WaitClosed(&'static str),
    /// Waits until the process has put out this text.
    Output(&'static str, &'static str),
    /// Waits until the exit of the process was told.
    Exited(&'static str),
    /// Waits for the end of a streamed body, and records all of it.
    Body(&'static str),
    /// Waits until the watch with this id is told to have ended.
    Changed(u64),
    /// Records that the server answers nothing more, and over a WebSocket ends the connection.
    Ends,
    /// Loses the connection and opens another.
    Reconnect,
    /// Opens another connection beside the first, which later steps use; the first is kept.
    Second,
    /// Goes back to the first connection; the second is lost.
    First,
    /// Runs a shell command in the case's folder.
    Shell(&'static str),
    /// The same, and records what it prints.
    Look(&'static str),
    /// Lets time pass, in milliseconds; for what depends on nothing else.
    Pause(u64),
}

impl Step {
    /// Whether it sends a message whose answer, or end, is compared. Many alike count as one.
    pub(super) fn is_exchange(self) -> bool {
        matches!(
            self,
            Self::Initialize(_)
                | Self::Resume(_)
                | Self::Call(..)
                | Self::Exact(..)
                | Self::Shape(..)
                | Self::Count(..)
                | Self::Many(..)
                | Self::Kept(_)
                | Self::Begin(..)
                | Self::Flood(..)
                | Self::Raw(_)
                | Self::Made(_)
                | Self::Send(_)
                | Self::MadeSend(_)
                | Self::Start(..)
        )
    }
}
