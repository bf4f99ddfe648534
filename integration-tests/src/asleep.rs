//! Machines that a test puts to sleep: their programs see a clock of the boot time that jumps.

use std::path::PathBuf;
use std::process::Command as Tool;

use anyhow::{Context as _, Result, bail};

use crate::{Command, Context, binaries};

/// Stands before the system's library and adds what the file says to one clock.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    const char *path = getenv("ASLEEP_FILE");
    if (result == 0 && clock == CLOCK_BOOTTIME && path) {
        FILE *file = fopen(path, "r");
        long seconds = 0;
        if (file) {
            if (fscanf(file, "%ld", &seconds) == 1)
                time->tv_sec += seconds;
            fclose(file);
        }
    }
    return result;
}
"#;

/// A machine's sleep, which all programs that were started under it share.
#[derive(Debug)]
pub struct Sleeper {
    shim: PathBuf,
    file: PathBuf,
}

impl Sleeper {
    /// A machine that has not slept yet.
    ///
    /// # Errors
    ///
    /// There is no C compiler, or it fails.
    pub fn new(cx: &Context) -> Result<Self> {
        let source = cx.folder().join("asleep.c");
        let shim = cx.folder().join("asleep.so");
        std::fs::write(&source, SHIM)?;
        let compiler = binaries::tool("cc", "gcc")?;
        let mut compile = Tool::new(compiler);
        compile
            .args(["-shared", "-fPIC", "-o"])
            .arg(&shim)
            .arg(&source)
            .arg("-ldl");
        let compiled = compile.output().context("cc")?;
        if !compiled.status.success() {
            bail!("cc: {}", String::from_utf8_lossy(&compiled.stderr));
        }
        let sleeper = Self {
            shim,
            file: cx.folder().join("asleep"),
        };
        sleeper.sleep(0)?;
        Ok(sleeper)
    }

    /// The command, to be run on this machine.
    pub fn under(&self, command: Command) -> Command {
        command.env("LD_PRELOAD", &self.shim).env("ASLEEP_FILE", &self.file)
    }

    /// Lets the machine have slept for so long, altogether. Its programs wake now.
    ///
    /// # Errors
    ///
    /// The file could not be written.
    pub fn sleep(&self, seconds: u64) -> Result<()> {
        // Whole or not at all: a reader may come at any time.
        let next = self.file.with_extension("next");
        std::fs::write(&next, seconds.to_string())?;
        Ok(std::fs::rename(next, &self.file)?)
    }
}
