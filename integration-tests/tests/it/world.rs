//! The test world itself: what the other tests rely on holds.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Result, ensure};
use rendezvous_integration_tests::netns::{Namespace, PrivateNetwork};
use rendezvous_integration_tests::postgres::Postgres;
use rendezvous_integration_tests::{Command, Context, Program, wait};

use crate::runner::{Case, When};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "world::private_networks_are_hidden",
            When::Always,
            private_networks_are_hidden,
        ),
        Case::new(
            "world::programs_end_with_the_test",
            When::Always,
            programs_end_with_the_test,
        ),
        Case::new(
            "world::postgres_starts_and_stops",
            When::Always,
            postgres_starts_and_stops,
        ),
    ]
}

async fn private_networks_are_hidden(_: Context) -> Result<()> {
    tokio::task::spawn_blocking(look_through_the_wall).await?
}

fn look_through_the_wall() -> Result<()> {
    let public = Namespace::new("public")?;
    let service = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 1), 7000));
    public.ip("addr add 198.51.100.1/32 dev lo")?;
    let homes = [
        PrivateNetwork::behind(&public, 0, "a")?,
        PrivateNetwork::behind(&public, 1, "b")?,
    ];

    for home in &homes {
        let listener = public.within(move || Ok(TcpListener::bind(service)?))?;
        let mut inside = home
            .machine
            .within(move || Ok(TcpStream::connect_timeout(&service, Duration::from_secs(5))?))?;
        inside.write_all(b"hello")?;
        let (mut outside, seen) = listener.accept()?;
        let mut word = [0; 5];
        outside.read_exact(&mut word)?;
        ensure!(seen.ip() == home.public_address, "the machine is seen as {seen}");

        let _listener = home
            .machine
            .within(|| Ok(TcpListener::bind((PrivateNetwork::ADDRESS, 7001))?))?;
        for address in [home.public_address, PrivateNetwork::ADDRESS] {
            let target = SocketAddr::from((address, 7001));
            let reached =
                public.within(move || Ok(TcpStream::connect_timeout(&target, Duration::from_millis(500)).is_ok()))?;
            ensure!(!reached, "{target} is reached from outside");
        }
    }
    Ok(())
}

/// A program that ignores SIGTERM, and the child that it started, are gone once they are dropped.
async fn programs_end_with_the_test(cx: Context) -> Result<()> {
    let script = "trap '' TERM; sleep 1000 & echo child-$!; wait";
    let mut program = Program::start(&cx, "stubborn", Command::new("sh").args(["-c", script]))?;
    let child: i32 = program.line("child-", wait::SOON).await?.trim().parse()?;
    let parent = program.id();
    drop(program);
    for process in [parent, child] {
        let path = format!("/proc/{process}/stat");
        wait::until_true("the end of the processes", wait::SOON, || {
            // An orphan that waits to be reaped by somebody else is dead, too.
            std::fs::read_to_string(&path).map_or(true, |stat| stat.contains(") Z "))
        })
        .await?;
    }
    Ok(())
}

async fn postgres_starts_and_stops(_: Context) -> Result<()> {
    let postgres = Postgres::start().await?;
    let url = url::Url::parse(&postgres.url())?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, url.port().unwrap_or(0)));
    ensure!(TcpStream::connect(address).is_ok(), "nobody listens at {address}");
    drop(postgres);
    ensure!(
        TcpStream::connect(address).is_err(),
        "somebody still listens at {address}"
    );
    Ok(())
}
