//! `harness info`.

use std::io::Write as _;
use std::time::Instant;

use rendezvous_harness::{Harness, PathUri};

use super::Failure;
use super::args::InfoArgs;
use super::status::Outcome;

pub(super) async fn info(harness: Harness, args: &InfoArgs) -> Result<Outcome, Failure> {
    let info = harness.info().await?;
    let asked = Instant::now();
    harness.status().await?;
    let round_trip = asked.elapsed().as_secs_f64() * 1000.0;
    let text = if args.json {
        let mut value = serde_json::to_value(&info).map_err(Failure::runtime)?;
        value["roundTripMs"] = ((round_trip * 1000.0).round() / 1000.0).into();
        format!("{value}\n")
    } else {
        let path = |path: &Option<PathUri>| path.as_ref().map_or_else(|| "unknown".to_owned(), native);
        format!(
            "status        ready\n\
             round trip    {round_trip:.2} ms\n\
             system        {}\n\
             version       {}\n\
             shell         {} ({})\n\
             directory     {}\n\
             home          {}\n\
             temporary     {}\n\
             stdin by call {}\n",
            info.platform_os.as_deref().unwrap_or("unknown"),
            info.executor_version.as_deref().unwrap_or("unknown"),
            info.shell.name,
            info.shell.path,
            path(&info.cwd),
            path(&info.user_home_dir),
            path(&info.temp_dir),
            if harness.has_process_control() { "yes" } else { "no" },
        )
    };
    let printable: String = text.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
    std::io::stdout()
        .write_all(printable.as_bytes())
        .map_err(Failure::runtime)?;
    Ok(Outcome::command(0))
}

/// The path as its own system writes it.
fn native(path: &PathUri) -> String {
    match path.to_posix() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => path.to_windows().unwrap_or_else(|_| path.to_string()),
    }
}
