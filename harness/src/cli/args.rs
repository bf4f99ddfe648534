//! Arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::keys::{KeyArgs, KnownExecutorsCommand};
use super::sessions::SessionArgs;
use super::sessions::attach::AttachArgs;
use super::sessions::keep::KeepArgs;
use super::sessions::kill::KillArgs;
use super::sessions::ps::PsArgs;

const EXAMPLES: &str = "\
Where to connect comes from the environment, or from flags:
  CODEX_EXEC_SERVER_NOISE_REGISTRY_URL     https://registry.example
  CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID   build-box
  CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN       the harness's token (or --token-file)
or from $CODEX_HOME/environments.toml (~/.codex), or from CODEX_EXEC_SERVER_URL=ws://IP:PORT.

Examples:
  harness run -- uname -a
  tar c src | harness run -- tar x -C /tmp/build
  harness run --tty -- htop
  harness shell
  harness -e build-box run -- make
  harness run --detach --name build -- make -j8    # goes on without us; later, from any shell:
  harness ps; harness attach build
  harness cp report.pdf :/srv/reports/
  harness cp -r build-box:/var/log/app ./logs

Exit codes: the command's own; 1 failure, 64 usage, 69 unavailable, 77 not authorized.";

/// Runs commands and copies files on a remote executor, end-to-end encrypted.
#[derive(Debug, Parser)]
#[command(name = "harness", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(flatten)]
    pub(crate) sessions: SessionArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How to connect.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// The registry
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "CODEX_EXEC_SERVER_NOISE_REGISTRY_URL",
        hide_env_values = true
    )]
    pub(crate) registry_url: Option<String>,
    /// The environment: its id at the registry or in environments.toml; `local` is this machine
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAME",
        env = "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID",
        hide_env_values = true
    )]
    pub(crate) environment: Option<String>,
    /// A file with the token, readable by its owner only; else CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "HARNESS_TOKEN_FILE",
        hide_env_values = true
    )]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates to trust beside the machine's own, PEM
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "HARNESS_CA_FILE",
        hide_env_values = true
    )]
    pub(crate) ca_file: Option<PathBuf>,
    /// Use unencrypted connections to other machines too
    #[arg(long, global = true, env = "HARNESS_ALLOW_INSECURE", hide_env_values = true)]
    pub(crate) allow_insecure: bool,
    /// How long the first connect may take, with all its attempts [default: 14]
    #[arg(long, global = true, value_name = "SECONDS", env = "HARNESS_CONNECT_TIMEOUT", hide_env_values = true, value_parser = seconds)]
    pub(crate) connect_timeout: Option<f64>,
    /// How long a lost connection may take to come back before calls learn of it; 0: at once [default: 45]
    #[arg(long, global = true, value_name = "SECONDS", env = "HARNESS_STREAM_GRACE", hide_env_values = true, value_parser = seconds_or_none)]
    pub(crate) stream_grace: Option<f64>,
    /// Log more; repeat for still more (HARNESS_LOG takes a filter)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command; stdin, stdout, stderr and the exit code pass through
    Run(RunArgs),
    /// Open the executor's shell in a terminal of the size of this one
    Shell(ShellArgs),
    /// Show what the executor tells about its machine
    Info(InfoArgs),
    /// List kept sessions, and how their commands are
    Ps(PsArgs),
    /// Follow a command that goes on by itself
    Attach(AttachArgs),
    /// End kept sessions, with what runs in them
    Kill(KillArgs),
    /// Copy files to or from the executor; a remote path is `:PATH` or `ENVIRONMENT:PATH`
    Cp(CopyArgs),
    /// Show the fingerprint of this harness's key (--identity-file), by which an executor can be told to serve it
    Identity(IdentityArgs),
    /// Look after the keys of the executors that this harness knows
    #[command(subcommand)]
    KnownExecutors(KnownExecutorsCommand),
}

#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Working directory on the executor [default: the executor's own]
    #[arg(long, value_name = "DIR", env = "HARNESS_CWD", hide_env_values = true)]
    pub(crate) cwd: Option<String>,
    /// Set a variable for the command; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) variables: Vec<(String, String)>,
}

#[derive(Debug, Args)]
#[command(override_usage = "harness run [OPTIONS] [--] <COMMAND> [ARGUMENT]...")]
pub(crate) struct RunArgs {
    /// Give the command a terminal of the size of this one; stdout and stderr become one
    #[arg(short, long)]
    pub(crate) tty: bool,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
    /// With --detach: leave the command's stdin open, for `harness attach`; otherwise it is empty
    #[arg(short, long, requires = "detach", help_heading = "Detached sessions")]
    pub(crate) interactive: bool,
    /// Let the command reach only such hosts, through a proxy on the executor: `example.com`, `*.example.com`; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) allow_host: Vec<String>,
    /// Never let it reach such hosts, and others only if they are allowed; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) deny_host: Vec<String>,
    /// Write how it ended, as JSON: {"origin":"command"|"harness","code":N,"signal":N|null}
    #[arg(long, value_name = "FILE", env = "HARNESS_STATUS_FILE", hide_env_values = true)]
    pub(crate) status_file: Option<PathBuf>,
    /// The program and its arguments; no shell looks at them
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct IdentityArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// Copy directories with everything in them
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// From: `PATH`, `:PATH` or `ENVIRONMENT:PATH`
    #[arg(value_name = "SRC")]
    pub(crate) from: String,
    /// To: the same; an existing directory takes the copy inside
    #[arg(value_name = "DST")]
    pub(crate) to: String,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("expected a number of seconds from 0 to 86400".to_owned()),
    }
}

fn seconds_or_none(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(0.0),
        _ => seconds(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn run(args: &[&str]) -> RunArgs {
        let cli = Cli::try_parse_from([&["harness", "run"], args].concat()).unwrap();
        match cli.command {
            Command::Run(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_command_takes_everything_behind_it() {
        assert_eq!(run(&["--", "ls", "-la", "--tty"]).command, ["ls", "-la", "--tty"]);
        let args = run(&["-t", "--env", "A=b=c", "--env", "B=", "ls", "--cwd", "x"]);
        assert!(args.tty);
        assert_eq!(args.place.cwd, None);
        assert_eq!(args.command, ["ls", "--cwd", "x"]);
        let variables = [("A".to_owned(), "b=c".to_owned()), ("B".to_owned(), String::new())];
        assert_eq!(args.place.variables, variables);
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for args in [
            &["harness"][..],
            &["harness", "run"],
            &["harness", "run", "--env", "=x", "--", "a"],
            &["harness", "run", "--env", "x", "--", "a"],
            &["harness", "run", "--bogus", "--", "a"],
            &["harness", "run", "--connect-timeout", "0", "--", "a"],
            &["harness", "run", "--connect-timeout", "inf", "--", "a"],
            &["harness", "run", "--stream-grace", "-1", "--", "a"],
            &["harness", "cp", "a"],
            &["harness", "--token", "secret", "info"],
        ] {
            assert!(Cli::try_parse_from(args).unwrap_err().use_stderr(), "{args:?}");
        }
    }

    #[test]
    fn usage_shows_that_arguments_follow_the_command() {
        let error = Cli::try_parse_from(["harness", "run"]).unwrap_err().to_string();
        assert!(
            error.contains("harness run [OPTIONS] [--] <COMMAND> [ARGUMENT]..."),
            "{error}"
        );
    }

    #[test]
    fn the_environment_has_a_short_flag() {
        for args in [["harness", "-e", "box", "info"], ["harness", "info", "-e", "box"]] {
            let cli = Cli::try_parse_from(args).unwrap();
            assert_eq!(cli.connection.environment.as_deref(), Some("box"));
        }
    }

    #[test]
    fn connection_flags_stand_before_or_behind_the_command() {
        for args in [
            ["harness", "--registry-url", "https://r", "info", "--json"],
            ["harness", "info", "--json", "--registry-url", "https://r"],
        ] {
            let cli = Cli::try_parse_from(args).unwrap();
            assert_eq!(cli.connection.registry_url.as_deref(), Some("https://r"));
        }
    }
}
