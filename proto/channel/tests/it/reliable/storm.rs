//! Weather, cuts, stalls, slow readers and a hostile relay, until the sky clears: then everything has arrived, once and in
//! order.

mod end;
mod link;
mod world;

use self::world::World;

/// What normal runs take. `RENDEZVOUS_FULL=1` runs [`MANY`].
const SEEDS: u64 = 320;
const MANY: u64 = 12_000;

#[test]
fn storms_cost_nothing_but_time() {
    let chosen = std::env::var("CHANNEL_SIMULATION_SEED")
        .ok()
        .map(|seed| seed.parse::<u64>().unwrap());
    let is_full = std::env::var_os("RENDEZVOUS_FULL").is_some_and(|value| value == "1");
    let seeds = match chosen {
        Some(seed) => seed..seed + 1,
        None => 0..if is_full { MANY } else { SEEDS },
    };
    let mut total = world::Tally::default();
    for seed in seeds {
        let world = World::new(seed);
        println!("seed {seed}: {:?}", world.weather());
        let tally = world.run();
        println!("  {tally:?}");
        total.add(&tally);
    }
    println!("all: {total:?}");
    if chosen.is_none() {
        total.assert_everything_happened();
    }
}
