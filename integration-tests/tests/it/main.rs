//! End-to-end tests. Each one is a [`runner::Case`] in a table; the long ones run with `RENDEZVOUS_FULL=1`.

mod agent;
mod asleep;
mod bad_input;
mod check;
mod conformance;
mod environments;
mod gateway;
mod identity;
mod intranet;
mod late;
mod library;
mod limits;
mod managed_network;
mod matrix;
mod memory;
mod nat;
mod ours;
mod proxied;
mod resume;
mod runner;
mod services;
mod signed;
mod world;

fn main() -> std::process::ExitCode {
    let tables = [
        world::cases(),
        matrix::cases(),
        matrix::network_cases(),
        matrix::direct_cases(),
        matrix::forward_cases(),
        gateway::cases(),
        identity::cases(),
        signed::cases(),
        ours::bulk::cases(),
        ours::cases(),
        resume::cases(),
        ours::kept::cases(),
        services::cases(),
        bad_input::cases(),
        limits::cases(),
        memory::cases(),
        intranet::cases(),
        nat::cases(),
        proxied::cases(),
        asleep::cases(),
        managed_network::cases(),
        environments::cases(),
        conformance::cases(),
    ];
    runner::run(tables.into_iter().flatten())
}
