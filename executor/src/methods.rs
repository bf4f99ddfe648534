//! The methods, one module a family.

pub(crate) mod background;
mod capability;
mod config;
pub(crate) mod environment;
mod fs;
pub(crate) mod http;
mod network;
mod process;
mod sandbox;
mod session;
mod snapshot;

use bytes::Bytes;
use rendezvous_rpc::base64::Base64;
use rendezvous_rpc::envelope::{Request, decode_params, write_response};
use rendezvous_rpc::method::{self, Method};
use rendezvous_rpc::{RequestId, RpcError};
use rendezvous_wire::limits::MAX_MESSAGE;
use serde::Serialize;

use crate::server::{Connection, Sink};

/// Methods that the lifecycle names together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    Exec,
    Filesystem,
    Http,
    EnvironmentInfo,
    EnvironmentStatus,
    EnvironmentConfig,
    CapabilityDiscovery,
}

impl Family {
    /// The name in errors, as stock executors have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Filesystem => "filesystem",
            Self::Http => "http",
            Self::EnvironmentInfo => "environment info",
            Self::EnvironmentStatus => "environment status",
            Self::EnvironmentConfig => "environment config",
            Self::CapabilityDiscovery => "capability discovery",
        }
    }
}

/// What becomes of a call that succeeded.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A whole encoded reply to send.
    Message(Bytes),
    /// It was sent already.
    Sent,
}

impl Reply {
    pub(crate) fn new(id: &RequestId, result: &impl Serialize) -> Result<Self, RpcError> {
        let mut out = Vec::new();
        write_response(&mut out, id, result).map_err(unwritable)?;
        Self::checked(out)
    }

    /// A reply whose result is an object that begins with `data`: the bytes go straight into the message. `rest` closes
    /// the object.
    fn with_bytes(id: &RequestId, member: &str, data: &[u8], rest: &str) -> Result<Self, RpcError> {
        let mut out = Vec::with_capacity(data.len().div_ceil(3) * 4 + 128);
        out.extend_from_slice(br#"{"id":"#);
        serde_json::to_writer(&mut out, id).map_err(unwritable)?;
        out.extend_from_slice(br#","result":{""#);
        out.extend_from_slice(member.as_bytes());
        out.extend_from_slice(br#"":""#);
        Base64::encode_into(data, &mut out);
        out.push(b'"');
        out.extend_from_slice(rest.as_bytes());
        out.extend_from_slice(b"}}");
        Self::checked(out)
    }

    fn checked(out: Vec<u8>) -> Result<Self, RpcError> {
        if out.len() > MAX_MESSAGE {
            return Err(RpcError::internal("the result is too large for a message"));
        }
        Ok(Self::Message(out.into()))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn unwritable(error: serde_json::Error) -> RpcError {
    RpcError::internal(error.to_string())
}

/// Calls a method other than `initialize`.
pub(crate) async fn call<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    use method::capability::Discover;
    use method::config::ReadConfig;
    use method::http::HttpRequest;
    use method::{environment as env, fs as files, process as exec, session as kept};
    match request.method.as_str() {
        env::Info::NAME => environment::info(connection, request),
        env::Status::NAME => environment::status(connection, request),
        exec::Start::NAME => process::start(connection, request).await,
        exec::Read::NAME => process::read(connection, request).await,
        exec::Write::NAME => process::write(connection, request).await,
        exec::SignalProcess::NAME => process::signal(connection, request),
        exec::Terminate::NAME => process::terminate(connection, request),
        exec::CloseStdin::NAME if connection.has_process_control() => process::close_stdin(connection, request),
        exec::List::NAME if connection.has_process_control() => process::list(connection, request),
        exec::Resize::NAME if connection.has_process_control() => process::resize(connection, request),
        kept::Retain::NAME if connection.has_detached_sessions() => session::retain(connection, request).await,
        kept::List::NAME if connection.has_detached_sessions() => session::list(connection, request),
        kept::Signal::NAME if connection.has_detached_sessions() => session::signal(connection, request),
        kept::End::NAME if connection.has_detached_sessions() => session::end(connection, request),
        Discover::NAME => capability::discover(connection, request).await,
        ReadConfig::NAME => config::read(connection, request).await,
        HttpRequest::NAME => http::request(connection, request).await,
        files::ReadFile::NAME => fs::read_file(connection, request).await,
        files::Open::NAME => fs::open(connection, request).await,
        files::ReadBlock::NAME => fs::read_block(connection, request).await,
        files::WriteBlock::NAME => fs::write_block(connection, request).await,
        files::Close::NAME => fs::close(connection, request).await,
        files::WriteFile::NAME => fs::write_file(connection, request).await,
        files::CreateDirectory::NAME => fs::create_directory(connection, request).await,
        files::GetMetadata::NAME => fs::metadata(connection, request).await,
        files::Canonicalize::NAME => fs::canonicalize(connection, request).await,
        files::ReadDirectory::NAME => fs::read_directory(connection, request).await,
        files::Walk::NAME => fs::walk(connection, request).await,
        files::Remove::NAME => fs::remove(connection, request).await,
        files::WatchMissing::NAME => fs::watch_missing(connection, request).await,
        files::Copy::NAME => fs::copy(connection, request).await,
        unknown => Err(RpcError::method_not_found(unknown)),
    }
}

/// Decodes the parameters of a method.
fn params<M: Method>(request: &Request) -> Result<M::Params, RpcError> {
    decode_params(request.params.as_deref())
}

/// Replies with the result of a method.
fn reply<M: Method>(request: &Request, result: &M::Result) -> Result<Reply, RpcError> {
    Reply::new(&request.id, result)
}
