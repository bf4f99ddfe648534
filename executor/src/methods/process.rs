//! Processes of the session.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use rendezvous_host::env::{self, Inherit, Policy as EnvironmentPolicy};
use rendezvous_host::process::{
    Dropped, Lookup, Page, Process, Processes, ReadRequest, Signal, Spec, StartError, State, Stdio, Summary,
    UnknownSignal, WriteStatus,
};
use rendezvous_host::sandbox::Policy;
use rendezvous_rpc::base64::Base64;
use rendezvous_rpc::envelope::Request;
use rendezvous_rpc::method::Empty;
use rendezvous_rpc::method::process::{
    CloseStdin, EnvPolicy, Inherit as WireInherit, List, ListResult, ProcessInfo, ProcessState, Read, Resize,
    SendSignal, SendSignalParams, Signal as WireSignal, SignalParams, SignalProcess, Start, StartParams, StartResult,
    Terminate, TerminateResult, Write, WriteResult, WriteStatus as WireStatus,
};
use rendezvous_rpc::{RequestId, RpcError};
use serde_json::json;

use super::{Family, Reply, network, params, reply, sandbox, snapshot, unwritable};
use crate::server::{Connection, Sink, stream_name};

/// Longest id of a process.
const MAX_PROCESS_ID: usize = 256;
/// Longest id of a write.
const MAX_WRITE_ID: usize = 256;
/// What a client is told of a process in a sandbox; stock executors on Linux have the same word for all their means.
const SANDBOXED: &str = "linuxSeccomp";

pub(super) async fn start<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Start>(request)?;
    let session = connection.require(Family::Exec)?.session();
    let process_id = params.process_id.clone();
    let snapshot = snapshot::Request::new(&params)?;
    let inherited = params.env_policy.clone().map(env_policy);
    let launch = params.network_proxy.as_ref().map(network::Launch::new).transpose()?;
    let enforces_network = params.enforce_managed_network;
    let (mut spec, policy) = spec(params)?;
    let mut sandbox_type = "none";
    if enforces_network && policy.is_none() {
        return Err(network::no_sandbox());
    }
    let is_managed = enforces_network;
    if is_managed && launch.is_none() {
        return Err(network::no_proxy());
    }
    if let Some(policy) = policy {
        let policy = if is_managed { policy.managed() } else { policy };
        let jail = connection.server.sandbox.jail(policy).await;
        spec.jail = jail.map_err(|error| sandbox::not_started(&error))?;
        if spec.jail.is_some() {
            sandbox_type = SANDBOXED;
        }
    }
    if let Some(snapshot) = snapshot {
        // Start-up files run in the sandbox of the command.
        let mut base = spec.clone();
        base.env = env::compose(std::env::vars_os(), inherited.as_ref(), []);
        snapshot.apply(session, &base, &mut spec).await;
    }
    let proxy = match launch {
        None => None,
        Some(launch) => Some(launch.attach(session, &process_id, is_managed, &mut spec.env)?),
    };
    session
        .processes()
        .start_with(process_id.as_str(), spec, proxy)
        .await
        .map_err(|error| not_started(&error))?;
    let result = StartResult {
        process_id,
        sandbox_type: Some(sandbox_type.to_owned()),
    };
    reply::<Start>(request, &result)
}

/// What to start, and what it must be confined to.
fn spec(params: StartParams) -> Result<(Spec, Option<Policy>), RpcError> {
    if params.argv.is_empty() {
        return Err(RpcError::invalid_params("argv must not be empty"));
    }
    if params.process_id.len() > MAX_PROCESS_ID {
        return Err(RpcError::invalid_params(format!(
            "processId must not exceed {MAX_PROCESS_ID} bytes"
        )));
    }
    let cwd = params.cwd.to_path().map_err(|error| {
        RpcError::invalid_params(format!(
            "cwd URI `{}` is not valid on this exec-server host: {error}",
            params.cwd.as_str()
        ))
    })?;
    let env_policy = params.env_policy.map(env_policy);
    let overlay = params.env.into_iter().map(|(name, value)| (name.into(), value.into()));
    let env = env::compose(std::env::vars_os(), env_policy.as_ref(), overlay);
    let temporary = env
        .iter()
        .find(|(name, _)| name == "TMPDIR")
        .map(|(_, value)| value.into());
    let policy = sandbox::for_process(params.sandbox.as_ref(), &cwd, temporary)?;
    let spec = Spec {
        argv: params.argv.into_iter().map(OsString::from).collect(),
        arg0: params.arg0.map(OsString::from),
        cwd,
        env,
        stdio: if params.tty {
            Stdio::Terminal
        } else {
            Stdio::Pipes {
                stdin: params.pipe_stdin,
            }
        },
        jail: None,
    };
    Ok((spec, policy))
}

fn env_policy(policy: EnvPolicy) -> EnvironmentPolicy {
    EnvironmentPolicy {
        inherit: match policy.inherit {
            WireInherit::All => Inherit::All,
            WireInherit::Core => Inherit::Core,
            WireInherit::None => Inherit::None,
        },
        ignore_default_excludes: policy.ignore_default_excludes,
        exclude: policy.exclude,
        set: policy.set,
        include_only: policy.include_only,
    }
}

fn not_started(error: &StartError) -> RpcError {
    match error {
        StartError::AlreadyExists(_) | StartError::Cancelled(_) => RpcError::invalid_request(error.to_string()),
        StartError::Sandbox(error) => sandbox::not_started(error),
        StartError::Spawn(cause) => {
            let kind = match cause.kind() {
                io::ErrorKind::NotFound => "spawnNotFound",
                io::ErrorKind::PermissionDenied => "spawnPermissionDenied",
                _ => "spawnFailed",
            };
            RpcError {
                data: Some(json!({ "kind": kind })),
                ..RpcError::internal(error.to_string())
            }
        }
        _ => RpcError::internal(error.to_string()),
    }
}

pub(super) async fn read<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Read>(request)?;
    let session = connection.require(Family::Exec)?.session();
    let process = started(session.processes().get(&params.process_id), &params.process_id)?;
    let page = process
        .read(ReadRequest {
            after: params.after_seq.unwrap_or(0),
            tail: params.tail_bytes.filter(|_| session.is_kept()),
            max_bytes: params.max_bytes.map(|max| usize::try_from(max).unwrap_or(usize::MAX)),
            wait: Duration::from_millis(params.wait_ms.unwrap_or(0)),
        })
        .await;
    write_page(&request.id, &page)
}

/// Writes the reply of `process/read`; output goes straight into the message.
fn write_page(id: &RequestId, page: &Page) -> Result<Reply, RpcError> {
    let bytes: usize = page
        .chunks
        .iter()
        .map(|chunk| chunk.data.len().div_ceil(3) * 4 + 64)
        .sum();
    let mut out = Vec::with_capacity(bytes + 256);
    out.extend_from_slice(br#"{"id":"#);
    serde_json::to_writer(&mut out, id).map_err(unwritable)?;
    out.extend_from_slice(br#","result":{"chunks":["#);
    for (index, chunk) in page.chunks.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let name = stream_name(chunk.stream).as_str();
        out.extend_from_slice(format!(r#"{{"seq":{},"stream":"{name}","chunk":""#, chunk.seq).as_bytes());
        Base64::encode_into(&chunk.data, &mut out);
        out.extend_from_slice(br#""}"#);
    }
    let exit_code = page
        .exit_code
        .map_or_else(|| "null".to_owned(), |code| code.to_string());
    let denied = page
        .denied
        .map_or("null", |denied| if denied { "true" } else { "false" });
    let rest = format!(
        r#"],"nextSeq":{},"exited":{},"exitCode":{exit_code},"closed":{},"failure":null,"sandboxDenied":{denied}"#,
        page.next_seq,
        page.exit_code.is_some(),
        page.closed,
    );
    out.extend_from_slice(rest.as_bytes());
    if page.is_kept {
        write_kept(&mut out, page);
    }
    out.extend_from_slice(b"}}");
    Reply::checked(out)
}

/// What stock clients do not ask for.
fn write_kept(out: &mut Vec<u8>, page: &Page) {
    if let Some(seq) = page.exit_seq {
        out.extend_from_slice(format!(r#","exitSeq":{seq}"#).as_bytes());
    }
    if let Some(Dropped { through, bytes }) = page.dropped {
        out.extend_from_slice(format!(r#","dropped":{{"through":{through},"bytes":{bytes}}}"#).as_bytes());
    }
}

pub(super) async fn write<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Write>(request)?;
    let session = connection.require(Family::Exec)?.session();
    if params.write_id.is_empty() {
        return Err(RpcError::invalid_params("writeId must not be empty"));
    }
    if params.write_id.len() > MAX_WRITE_ID {
        return Err(RpcError::invalid_params(format!(
            "writeId must not exceed {MAX_WRITE_ID} bytes"
        )));
    }
    let status = match session.processes().get(&params.process_id) {
        Lookup::Unknown => WireStatus::UnknownProcess,
        Lookup::Starting => WireStatus::Starting,
        Lookup::Started(process) => {
            let written = process.write(&params.write_id, params.chunk.0).await;
            match written.map_err(|error| RpcError::internal(error.to_string()))? {
                WriteStatus::Accepted => WireStatus::Accepted,
                WriteStatus::StdinClosed => WireStatus::StdinClosed,
            }
        }
    };
    reply::<Write>(request, &WriteResult { status })
}

pub(super) fn signal<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let (process_id, signal) = if connection.has_process_control() {
        let SendSignalParams { process_id, signal } = params::<SendSignal>(request)?;
        (process_id, named(&signal)?)
    } else {
        let SignalParams {
            process_id,
            signal: WireSignal::Interrupt,
        } = params::<SignalProcess>(request)?;
        (process_id, Signal::INTERRUPT)
    };
    let session = connection.require(Family::Exec)?.session();
    if let Lookup::Started(process) = session.processes().get(&process_id) {
        process.signal(signal);
    }
    reply::<SignalProcess>(request, &Empty {})
}

/// The signal of a name, which may be that of the stock contract.
pub(super) fn named(name: &str) -> Result<Signal, RpcError> {
    match name {
        "interrupt" => Ok(Signal::INTERRUPT),
        name => name
            .parse()
            .map_err(|error: UnknownSignal| RpcError::invalid_params(error.to_string())),
    }
}

/// Part of the extension `processControl`.
pub(super) fn list<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    params::<List>(request)?;
    let session = connection.require(Family::Exec)?.session();
    let result = ListResult {
        processes: describe_all(session.processes()),
    };
    reply::<List>(request, &result)
}

/// Says what there is to say about all processes of a session.
pub(super) fn describe_all(processes: &Processes) -> Vec<ProcessInfo> {
    let described = processes.list().into_iter().map(|(id, process)| match process {
        None => ProcessInfo {
            process_id: id.to_string(),
            state: ProcessState::Starting,
            exit_code: None,
            argv: Vec::new(),
            tty: false,
            pid: None,
            age_ms: 0,
            next_seq: 0,
            retained_bytes: 0,
            dropped_bytes: 0,
        },
        Some(process) => describe(&id, process.summary()),
    });
    described.collect()
}

fn describe(id: &str, summary: Summary) -> ProcessInfo {
    ProcessInfo {
        process_id: id.to_owned(),
        state: match summary.state {
            State::Running => ProcessState::Running,
            State::Exited => ProcessState::Exited,
            State::Closed => ProcessState::Closed,
        },
        exit_code: summary.exit_code,
        argv: summary.argv,
        tty: summary.terminal,
        pid: Some(summary.pid),
        age_ms: u64::try_from(summary.age.as_millis()).unwrap_or(u64::MAX),
        next_seq: summary.next_seq,
        retained_bytes: summary.retained_bytes,
        dropped_bytes: summary.dropped_bytes,
    }
}

pub(super) fn terminate<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Terminate>(request)?;
    let session = connection.require(Family::Exec)?.session();
    let running = session.processes().terminate(&params.process_id);
    reply::<Terminate>(request, &TerminateResult { running })
}

/// Part of the extension `processControl`.
pub(super) fn close_stdin<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<CloseStdin>(request)?;
    let session = connection.require(Family::Exec)?.session();
    started(session.processes().get(&params.process_id), &params.process_id)?.close_stdin();
    reply::<CloseStdin>(request, &Empty {})
}

/// Part of the extension `processControl`.
pub(super) fn resize<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Resize>(request)?;
    let session = connection.require(Family::Exec)?.session();
    let process = started(session.processes().get(&params.process_id), &params.process_id)?;
    if !process.resize(params.rows, params.columns) {
        let id = params.process_id;
        return Err(RpcError::invalid_request(format!("process {id} has no terminal")));
    }
    reply::<Resize>(request, &Empty {})
}

fn started(lookup: Lookup, id: &str) -> Result<Process, RpcError> {
    match lookup {
        Lookup::Started(process) => Ok(process),
        Lookup::Starting => Err(RpcError::invalid_request(format!("process id {id} is starting"))),
        Lookup::Unknown => Err(RpcError::invalid_request(format!("unknown process id {id}"))),
    }
}
