//! Files of this machine.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rendezvous_host::files::{Access, Fault, FileError, Files, Links, ReadSink, Target, WalkOptions};
use rendezvous_host::sandbox::Policy;
use rendezvous_host::watch::MissingWatch;
use rendezvous_rpc::base64::{Base64, Encoder, Pieces};
use rendezvous_rpc::envelope::{Request, decode_params_around};
use rendezvous_rpc::method::Empty;
use rendezvous_rpc::method::fs::{
    Canonicalize, CanonicalizeResult, Close, Copy, CreateDirectory, DirectoryEntry, EntryKind, GetMetadata, Metadata,
    Open, OpenMode, OpenResult, ReadBlock, ReadDirectory, ReadDirectoryResult, ReadFile, Remove, Walk, WalkEntry,
    WalkError, WalkResult, WatchMissing, WatchMissingResult, WriteBlock, WriteFile,
};
use rendezvous_rpc::{PathUri, RequestId, RpcError};
use rendezvous_wire::limits::MAX_MESSAGE;
use serde::Deserialize;
use serde_json::Value;

use super::{Family, Reply, params, reply, sandbox, unwritable};
use crate::server::{Connection, Sink};

/// Largest file whose content fits a reply in base64. Larger ones are read in blocks.
const MAX_WHOLE_FILE: u64 = ((MAX_MESSAGE - 1024) / 4 * 3) as u64;

pub(super) async fn read_file<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<ReadFile>(request)?;
    connection.require(Family::Filesystem)?;
    let target = target(&params.path, params.follow_symlinks)?;
    let files = reading(connection, params.sandbox.as_ref(), &target.path).await?;
    let text = ContentText::new(&request.id)?;
    let read = files.read_into(target, MAX_WHOLE_FILE, text).await;
    read.map_err(failed)?.finish()
}

/// The reply of `fs/readFile`, into which a file goes as it is read, so that it is in memory once.
struct ContentText {
    out: Vec<u8>,
    encoder: Encoder,
}

impl ContentText {
    fn new(id: &RequestId) -> Result<Self, RpcError> {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(br#"{"id":"#);
        serde_json::to_writer(&mut out, id).map_err(unwritable)?;
        out.extend_from_slice(br#","result":{"dataBase64":""#);
        Ok(Self {
            out,
            encoder: Encoder::default(),
        })
    }

    fn finish(mut self) -> Result<Reply, RpcError> {
        self.encoder.finish(&mut self.out);
        self.out.extend_from_slice(br#""}}"#);
        Reply::checked(self.out)
    }
}

impl ReadSink for ContentText {
    fn expect(&mut self, len: usize) {
        self.out.reserve_exact(len.div_ceil(3) * 4 + 16);
    }

    fn take(&mut self, piece: &[u8]) {
        self.encoder.update(piece, &mut self.out);
    }
}

pub(super) async fn open<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Open>(request)?;
    connection.require(Family::Filesystem)?;
    let target = target(&params.path, params.follow_symlinks)?;
    let access = match params.mode {
        OpenMode::Read => Access::Read,
        OpenMode::Replace => Access::Replace,
    };
    let files = match access {
        Access::Read => reading(connection, params.sandbox.as_ref(), &target.path).await?,
        Access::Replace => writing(connection, params.sandbox.as_ref()).await?,
    };
    let open = connection.handles.open_with(&files, &params.handle_id, target, access);
    open.await.map_err(failed)?;
    let handle_id = params.handle_id;
    reply::<Open>(request, &OpenResult { handle_id })
}

pub(super) async fn read_block<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<ReadBlock>(request)?;
    connection.require(Family::Filesystem)?;
    let read = connection.handles.read(&params.handle_id, params.offset, params.len);
    let block = read.await.map_err(failed)?;
    let rest = if block.is_end {
        r#","eof":true"#
    } else {
        r#","eof":false"#
    };
    Reply::with_bytes(&request.id, "chunk", &block.data, rest)
}

pub(super) async fn write_block<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let given = request.params.as_ref();
    let params: BlockText<'_> = decode_params_around(given, |params: &BlockText<'_>| &params.chunk)?;
    let chunk = given.map_or_else(Bytes::new, |given| given.share(&params.chunk));
    let Base64(chunk) = Base64::parse(&chunk).map_err(RpcError::invalid_params)?;
    connection.require(Family::Filesystem)?;
    let write = connection.handles.write(&params.handle_id, params.offset, chunk);
    write.await.map_err(failed)?;
    reply::<WriteBlock>(request, &Empty {})
}

/// The parameters of `fs/writeBlock`, whose content stays where it came.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockText<'a> {
    handle_id: String,
    offset: u64,
    #[serde(borrow)]
    chunk: Cow<'a, str>,
}

pub(super) async fn close<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Close>(request)?;
    connection.require(Family::Filesystem)?;
    connection.handles.close(&params.handle_id).await.map_err(failed)?;
    reply::<Close>(request, &Empty {})
}

pub(super) async fn write_file<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let given = request.params.as_ref();
    let params: WriteText<'_> = decode_params_around(given, |params: &WriteText<'_>| &params.data_base64)?;
    connection.require(Family::Filesystem)?;
    let target = target(&params.path, params.follow_symlinks)?;
    let files = writing(connection, params.sandbox.as_ref()).await?;
    let text = given.map_or_else(Bytes::new, |given| given.share(&params.data_base64));
    let content =
        move || Pieces::new(text).map_err(|error| format!("fs/writeFile requires valid base64 dataBase64: {error}"));
    files.write_from(target, content).await.map_err(failed)?;
    reply::<WriteFile>(request, &Empty {})
}

/// The parameters of `fs/writeFile`, whose content stays text until it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WriteText<'a> {
    path: PathUri,
    #[serde(borrow)]
    data_base64: Cow<'a, str>,
    #[serde(default)]
    follow_symlinks: Option<bool>,
    #[serde(default)]
    sandbox: Option<Value>,
}

pub(super) async fn create_directory<S: Sink>(
    connection: &Connection<S>,
    request: &Request,
) -> Result<Reply, RpcError> {
    let params = params::<CreateDirectory>(request)?;
    connection.require(Family::Filesystem)?;
    let target = target(&params.path, params.follow_symlinks)?;
    let recursive = params.recursive.unwrap_or(true);
    let files = writing(connection, params.sandbox.as_ref()).await?;
    files.create_directory(target, recursive).await.map_err(failed)?;
    reply::<CreateDirectory>(request, &Empty {})
}

pub(super) async fn metadata<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<GetMetadata>(request)?;
    connection.require(Family::Filesystem)?;
    let target = target(&params.path, params.follow_symlinks)?;
    let files = reading(connection, params.sandbox.as_ref(), &target.path).await?;
    let metadata = files.metadata(target).await.map_err(failed)?;
    let result = Metadata {
        is_directory: metadata.is_directory,
        is_file: metadata.is_file,
        is_symlink: metadata.is_symlink,
        size: metadata.size,
        created_at_ms: milliseconds(metadata.created),
        modified_at_ms: milliseconds(metadata.modified),
    };
    reply::<GetMetadata>(request, &result)
}

pub(super) async fn canonicalize<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Canonicalize>(request)?;
    connection.require(Family::Filesystem)?;
    // Following links is what the call is for, so that it takes no notice of `followSymlinks`.
    let path = native(&params.path)?;
    let files = reading(connection, params.sandbox.as_ref(), &path).await?;
    let path = files.canonicalize(path).await.map_err(failed)?;
    reply::<Canonicalize>(request, &CanonicalizeResult { path: uri(&path)? })
}

pub(super) async fn read_directory<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<ReadDirectory>(request)?;
    connection.require(Family::Filesystem)?;
    let target = target(&params.path, params.follow_symlinks)?;
    let files = reading(connection, params.sandbox.as_ref(), &target.path).await?;
    let entries = files.read_directory(target).await.map_err(failed)?;
    let entries = entries
        .into_iter()
        .map(|entry| DirectoryEntry {
            file_name: entry.name.to_string_lossy().into_owned(),
            is_directory: entry.is_directory,
            is_file: entry.is_file,
        })
        .collect();
    reply::<ReadDirectory>(request, &ReadDirectoryResult { entries })
}

pub(super) async fn walk<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Walk>(request)?;
    connection.require(Family::Filesystem)?;
    let root = native(&params.path)?;
    let limit = |value| usize::try_from(value).unwrap_or(usize::MAX);
    let options = WalkOptions {
        max_depth: limit(params.options.max_depth),
        max_directories: limit(params.options.max_directories),
        max_entries: limit(params.options.max_entries),
        follow_directory_symlinks: params.options.follow_directory_symlinks,
        prune_hidden_directories: params.options.prune_hidden_directories,
    };
    let files = reading(connection, params.sandbox.as_ref(), &root).await?;
    let walk = files.walk(root, options).await.map_err(failed)?;
    let entries = walk.entries.iter().map(|entry| {
        let kind = if entry.is_directory {
            EntryKind::Directory
        } else {
            EntryKind::File
        };
        Ok(WalkEntry {
            path: uri(&entry.path)?,
            kind,
        })
    });
    let errors = walk.problems.into_iter().map(|problem| {
        let path = uri(&problem.path)?;
        Ok(WalkError {
            path,
            message: problem.message,
        })
    });
    let result = WalkResult {
        entries: entries.collect::<Result<_, RpcError>>()?,
        errors: errors.collect::<Result<_, RpcError>>()?,
        truncated: walk.is_truncated,
    };
    reply::<Walk>(request, &result)
}

pub(super) async fn remove<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Remove>(request)?;
    connection.require(Family::Filesystem)?;
    let target = target(&params.path, params.follow_symlinks)?;
    let (recursive, force) = (params.recursive.unwrap_or(true), params.force.unwrap_or(true));
    let files = writing(connection, params.sandbox.as_ref()).await?;
    files.remove(target, recursive, force).await.map_err(failed)?;
    reply::<Remove>(request, &Empty {})
}

pub(super) async fn copy<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<Copy>(request)?;
    connection.require(Family::Filesystem)?;
    let source = native(&params.source_path)?;
    let destination = native(&params.destination_path)?;
    let files = writing(connection, params.sandbox.as_ref()).await?;
    let copy = files.copy(source, destination, params.recursive);
    copy.await.map_err(failed)?;
    reply::<Copy>(request, &Empty {})
}

pub(super) async fn watch_missing<S: Sink>(connection: &Connection<S>, request: &Request) -> Result<Reply, RpcError> {
    let params = params::<WatchMissing>(request)?;
    connection.require(Family::Filesystem)?;
    let native = |paths: &[PathUri]| paths.iter().map(PathUri::to_path).collect::<Result<Vec<_>, _>>();
    let watch = async {
        // A path of another system never appears here.
        let missing = native(&params.missing).ok()?;
        let present = params.present.as_ref().map(PathUri::to_path).transpose().ok()?;
        MissingWatch::new(&connection.server.files, missing, present).await
    };
    let watching = connection.background.watch(params.watch_id, watch).await;
    reply::<WatchMissing>(request, &WatchMissingResult { watching })
}

/// Where a call that changes nothing at `path` is done.
pub(super) async fn reading<S: Sink>(
    connection: &Connection<S>,
    sandbox: Option<&Value>,
    path: &Path,
) -> Result<Files, RpcError> {
    let files = &connection.server.files;
    let Some(policy) = sandbox::for_files(sandbox)? else {
        return Ok(files.clone());
    };
    // A sandbox in which all can be read would change nothing but /proc.
    if policy.reads_everything() && !leads_to_proc(files, path).await {
        return Ok(files.without_proc());
    }
    within(connection, policy).await
}

/// Where a call that changes files is done.
async fn writing<S: Sink>(connection: &Connection<S>, sandbox: Option<&Value>) -> Result<Files, RpcError> {
    match sandbox::for_files(sandbox)? {
        None => Ok(connection.server.files.clone()),
        Some(policy) => within(connection, policy).await,
    }
}

async fn within<S: Sink>(connection: &Connection<S>, policy: Policy) -> Result<Files, RpcError> {
    let files = &connection.server.files;
    match connection.server.sandbox.jail(policy).await {
        Ok(Some(jail)) => Ok(files.within(jail)),
        Ok(None) => Ok(files.clone()),
        Err(error) => Err(sandbox::not_entered(&error)),
    }
}

async fn leads_to_proc(files: &Files, path: &Path) -> bool {
    let is_in_proc = |path: &Path| path.starts_with("/proc");
    is_in_proc(path)
        || files
            .canonicalize(path.to_owned())
            .await
            .is_ok_and(|real| is_in_proc(&real))
}

/// The native path with what the call says about links.
fn target(path: &PathUri, follow_symlinks: Option<bool>) -> Result<Target, RpcError> {
    let links = if follow_symlinks == Some(false) {
        Links::Refuse
    } else {
        Links::Follow
    };
    Ok(Target::new(native(path)?, links))
}

fn native(path: &PathUri) -> Result<PathBuf, RpcError> {
    path.to_path()
        .map_err(|error| RpcError::invalid_request(error.to_string()))
}

fn uri(path: &Path) -> Result<PathUri, RpcError> {
    PathUri::from_path(path).map_err(|error| RpcError::internal(error.to_string()))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn failed(error: FileError) -> RpcError {
    let text = error.to_string();
    match error.fault() {
        Fault::NotFound => RpcError::not_found(text),
        Fault::Request => RpcError::invalid_request(text),
        Fault::Host => RpcError::internal(text),
    }
}

/// Milliseconds since 1970; 0 when unknown.
fn milliseconds(time: Option<SystemTime>) -> i64 {
    let since = |time: SystemTime| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).ok(),
        Err(before) => i64::try_from(before.duration().as_millis()).ok().map(|ms| -ms),
    };
    time.and_then(since).unwrap_or(0)
}
