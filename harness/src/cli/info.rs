//! `harness info`.

use std::io::Write as _;
use std::time::Instant;

use rendezvous_harness::{Environment, PathUri};

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
    let text = if args.json {
        let mut value = serde_json::to_value(&info).map_err(Failure::runtime)?;
        value["roundTripMs"] = ((round_trip * 1000.0).round() / 1000.0).into();
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
             stdin by call {}\n",
            known(info.platform_os.as_deref()),
            known(info.executor_version.as_deref()),
            known(Some(&info.shell.name)),
            known(Some(&info.shell.path)),
            path(&info.cwd),
            path(&info.user_home_dir),
            path(&info.temp_dir),
            if harness.is_none_or(|harness| harness.has_process_control()) {
                "yes"
            } else {
                "no"
            },
        )
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Failure::runtime)?;
    Ok(Outcome::command(0))
}

/// The path as its own system writes it.
fn native(path: &PathUri) -> String {
    match path.to_posix() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => path.to_windows().unwrap_or_else(|_| path.to_string()),
    }
}
