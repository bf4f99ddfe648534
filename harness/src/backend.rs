//! What an environment can do, whatever and wherever it is: run processes, reach files, make requests.
//!
//! Each trait has two implementations here: for an executor, which is connected to when the first call is made, and for
//! this machine. An [`Environment`](crate::environments::Environment) gives all three.
//!
//! Code that takes the traits does not know where it works:
//!
//! ```
//! use rendezvous_harness::backend::{ExecBackend, FileSystem};
//! use rendezvous_harness::{Environment, HarnessError, PathUri, ProcessEvent, ProcessSpec, Stdin};
//!
//! /// Sorts the lines of a file, by the program `sort` of the same place.
//! async fn sort(exec: &dyn ExecBackend, files: &dyn FileSystem, file: &PathUri) -> Result<(), HarnessError> {
//!     let mut spec = ProcessSpec::new(["sort"]);
//!     spec.stdin = Stdin::Pipe;
//!     let mut process = exec.start(spec).await?;
//!     process.write(&files.read_file(file).await?).await?;
//!     process.close_stdin().await?;
//!     let mut sorted = Vec::new();
//!     while let Some(event) = process.next().await? {
//!         if let ProcessEvent::Output { bytes, .. } = event {
//!             sorted.extend_from_slice(&bytes);
//!         }
//!     }
//!     files.write_file(file, sorted.into()).await
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("lines");
//! # std::fs::write(&path, "c\na\nb\n")?;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let place = Environment::local();
//! sort(place.exec(), place.files(), &PathUri::from_path(&path)?).await?;
//! assert_eq!(std::fs::read(&path)?, b"a\nb\nc\n");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;
use rendezvous_rpc::PathUri;

use crate::error::HarnessError;
use crate::files::{DirectoryEntry, FileReader, FileWriter, Metadata, WalkOptions, WalkResult};
use crate::http::{HttpRequest, HttpResponse, HttpStream};
use crate::process::{Process, ProcessSpec};

/// Starts processes.
#[async_trait]
pub trait ExecBackend: Debug + Send + Sync {
    /// Starts a process.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or there are too many.
    async fn start(&self, spec: ProcessSpec) -> Result<Process, HarnessError>;
}

/// Reaches files. What each call does, and its limits, is told at the method of the same name of [`crate::Harness`]; what
/// does not exist is an error for which [`HarnessError::is_not_found`] is true.
#[async_trait]
pub trait FileSystem: Debug + Send + Sync {
    /// Reads a whole regular file.
    ///
    /// # Errors
    ///
    /// As any call.
    async fn read_file(&self, path: &PathUri) -> Result<Bytes, HarnessError>;

    /// Replaces or creates a file, whose directory must exist.
    ///
    /// # Errors
    ///
    /// As any call.
    async fn write_file(&self, path: &PathUri, bytes: Bytes) -> Result<(), HarnessError>;

    /// Opens a regular file for reading by blocks.
    ///
    /// # Errors
    ///
    /// As any call.
    async fn open(&self, path: &PathUri) -> Result<FileReader, HarnessError>;

    /// Begins to replace a regular file, or to create one in an existing directory, by blocks.
    ///
    /// # Errors
    ///
    /// As any call.
    async fn replace(&self, path: &PathUri) -> Result<FileWriter, HarnessError>;

    /// Describes what a path names.
    ///
    /// # Errors
    ///
    /// As any call.
    async fn metadata(&self, path: &PathUri) -> Result<Metadata, HarnessError>;

    /// Lists a directory, in no order.
    ///
    /// # Errors
    ///
    /// As any call.
    async fn list(&self, path: &PathUri) -> Result<Vec<DirectoryEntry>, HarnessError>;

    /// Lists a tree, breadth first.
    ///
    /// # Errors
    ///
    /// As any call.
    async fn walk(&self, path: &PathUri, options: WalkOptions) -> Result<WalkResult, HarnessError>;

    /// Creates a directory and those above it; an existing one is no error.
    ///
    /// # Errors
    ///
    /// As any call.
    async fn create_directory(&self, path: &PathUri) -> Result<(), HarnessError>;

    /// Removes a file, a link itself or an empty directory; with `recursive` also a full one.
    ///
    /// # Errors
    ///
    /// As any call.
    async fn remove(&self, path: &PathUri, recursive: bool) -> Result<(), HarnessError>;

    /// Copies a file, a link itself or, with `recursive`, a tree, within the environment.
    ///
    /// # Errors
    ///
    /// As any call.
    async fn copy(&self, from: &PathUri, to: &PathUri, recursive: bool) -> Result<(), HarnessError>;

    /// The path without links; it must exist.
    ///
    /// # Errors
    ///
    /// As any call.
    async fn canonicalize(&self, path: &PathUri) -> Result<PathUri, HarnessError>;
}

/// Makes HTTP requests.
///
/// ```
/// use rendezvous_harness::http::HttpRequest;
/// use rendezvous_harness::{Environment, HarnessError};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
/// # let url = format!("http://{}/", listener.local_addr()?);
/// # let server = std::thread::spawn(move || {
/// #     use std::io::{BufRead as _, Write as _};
/// #     let (mut socket, _) = listener.accept()?;
/// #     let mut lines = std::io::BufReader::new(socket.try_clone()?).lines();
/// #     while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
/// #     socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
/// # });
/// // From the place's own network, which may reach what this machine does not.
/// let place = Environment::local();
/// let response = place.http().http(HttpRequest::new("GET", url)).await?;
/// assert_eq!((response.status, &response.body[..]), (200, &b"hi"[..]));
/// # server.join().expect("it ends")?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait HttpClient: Debug + Send + Sync {
    /// Makes a request and gives the whole response, whose body may have about 45 MiB.
    ///
    /// # Errors
    ///
    /// As any call; also when the server cannot be reached.
    async fn http(&self, request: HttpRequest) -> Result<HttpResponse, HarnessError>;

    /// Makes a request and gives the response as it comes.
    ///
    /// # Errors
    ///
    /// As [`HttpClient::http`].
    async fn http_stream(&self, request: HttpRequest) -> Result<HttpStream, HarnessError>;
}
