//! What servers tell that belongs to no process.

use std::collections::{HashMap, HashSet};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Bytes of a body that are recorded as they are; more are recorded by length and digest.
const SHOWN: usize = 200;
/// Most bytes in one piece.
const MAX_PIECE: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) bodies: HashMap<String, Body>,
    /// Ids of watches that have ended.
    pub(super) changed: HashSet<u64>,
}

/// A streamed body.
#[derive(Debug, Default)]
pub(super) struct Body {
    bytes: Vec<u8>,
    pieces: u64,
    /// Whether there was an error, once it is over.
    end: Option<bool>,
}

impl Told {
    /// Takes a notification; false when it is about something else.
    pub(super) fn take(&mut self, method: &str, params: &Value) -> Result<bool> {
        match method {
            "http/request/bodyDelta" => {
                let request = params["requestId"].as_str().context("requestId")?;
                self.bodies.entry(request.to_owned()).or_default().take(params)?;
            }
            "fs/missingChanged" => {
                let watch = params["watchId"].as_u64().context("watchId")?;
                ensure!(self.changed.insert(watch), "watch {watch} ended twice");
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Body {
    fn take(&mut self, params: &Value) -> Result<()> {
        self.pieces += 1;
        ensure!(params["seq"] == self.pieces, "not piece {}: {params}", self.pieces);
        ensure!(self.end.is_none(), "a piece after the last: {params}");
        let bytes = STANDARD.decode(params["deltaBase64"].as_str().context("deltaBase64")?)?;
        ensure!(bytes.len() <= MAX_PIECE, "a piece of {} bytes", bytes.len());
        let Some(done) = params["done"].as_bool() else {
            bail!("done: {params}");
        };
        let error = &params["error"];
        ensure!(error.is_null() || error.is_string(), "error: {params}");
        ensure!(done || error.is_null(), "an error before the end: {params}");
        ensure!(done == bytes.is_empty(), "only the last piece is empty: {params}");
        self.bytes.extend(bytes);
        if done {
            self.end = Some(error.is_string());
        }
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        self.end.is_some()
    }

    /// The bytes, and whether there was an error; how they were cut is chance.
    pub(super) fn summary(self) -> Result<Value> {
        let broke_off = self.end.context("it is not over")?;
        let body = if self.bytes.len() > SHOWN {
            json!({"length": self.bytes.len(), "sha256": hex::encode(Sha256::digest(&self.bytes))})
        } else {
            String::from_utf8_lossy(&self.bytes).into()
        };
        Ok(json!({"body": body, "brokeOff": broke_off}))
    }
}
