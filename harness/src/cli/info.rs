//! `harness info`.

use std::io::Write as _;
use std::time::Instant;

use rendezvous_harness::trust::{ExecutorKey, Standing};
use rendezvous_harness::{Environment, Harness, PathUri};
use serde_json::{Value, json};

use super::args::InfoArgs;
use super::status::Outcome;
use super::{Failure, text};

pub(super) async fn info(environment: &Environment, args: &InfoArgs) -> Result<Outcome, Failure> {
    let info = environment.info().await?;
    let harness = environment.harness().await?;
    let asked = Instant::now();
    if let Some(harness) = &harness {
        harness.status().await?;
    }
    let round_trip = asked.elapsed().as_secs_f64() * 1000.0;
    let key = harness.as_ref().and_then(Harness::executor_key);
    let text = if args.json {
        let mut value = serde_json::to_value(&info).map_err(Failure::runtime)?;
        value["roundTripMs"] = ((round_trip * 1000.0).round() / 1000.0).into();
        if let Some(key) = key {
            value["executorKey"] = to_json(key);
        }
        format!("{}\n", text::json_line(&value.to_string()))
    } else {
        let known = |text: Option<&str>| text::one_line(text.unwrap_or("unknown"));
        let path = |path: &Option<PathUri>| known(path.as_ref().map(native).as_deref());
        format!(
            "status        ready\n\
             round trip    {round_trip:.2} ms\n\
             system        {}\n\
             version       {}\n\
             shell         {} ({})\n\
             directory     {}\n\
             home          {}\n\
             temporary     {}\n\
             stdin by call {}\n\
             key           {}\n",
            known(info.platform_os.as_deref()),
            known(info.executor_version.as_deref()),
            known(Some(&info.shell.name)),
            known(Some(&info.shell.path)),
            path(&info.cwd),
            path(&info.user_home_dir),
            path(&info.temp_dir),
            if harness.as_ref().is_none_or(Harness::has_process_control) {
                "yes"
            } else {
                "no"
            },
            match (&harness, key) {
                (_, Some(key)) => to_text(key),
                (Some(_), None) => "none: no end-to-end channel".to_owned(),
                (None, None) => "none: this machine".to_owned(),
            },
        )
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Failure::runtime)?;
    Ok(Outcome::command(0))
}

/// The executor's key, and why it is believed.
fn to_text(key: &ExecutorKey) -> String {
    let standing = match &key.standing {
        Standing::Known { since } => format!("known since {}", text::one_line(since)),
        Standing::New => "met for the first time, and remembered".to_owned(),
        Standing::Successor { of } => format!("proved by the key before it, {of}"),
        _ if key.persistent => "not remembered".to_owned(),
        _ => "ephemeral, not remembered".to_owned(),
    };
    format!("{} ({standing})", key.fingerprint)
}

fn to_json(key: &ExecutorKey) -> Value {
    let (standing, since) = match &key.standing {
        Standing::Known { since } => ("known", Some(since)),
        Standing::New => ("new", None),
        Standing::Successor { .. } => ("successor", None),
        _ => ("notRemembered", None),
    };
    json!({
        "fingerprint": key.fingerprint,
        "persistent": key.persistent,
        "standing": standing,
        "since": since,
    })
}

/// The path as its own system writes it.
fn native(path: &PathUri) -> String {
    match path.to_posix() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => path.to_windows().unwrap_or_else(|_| path.to_string()),
    }
}
