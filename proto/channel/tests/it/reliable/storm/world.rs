//! The two ends, the link, and the clock.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rendezvous_channel::budget::Budget;
use rendezvous_channel::reliable::{MAX_WINDOW, Pool};

use super::super::pair::Pair;
use super::end::{End, MARK};
use super::link::{Direction, Harm, Weather};
use crate::support::TestRng;

/// How long the storm lasts.
const STORM: Duration = Duration::from_secs(60);
/// How long everything may take after that.
const AFTERMATH: Duration = Duration::from_secs(240);
/// Longest time without a connection.
const LONGEST_CUT: u64 = 15_000;
/// Longest stall of an end.
const LONGEST_STALL: u64 = 15_000;

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Tally {
    after: Duration,
    frames: u64,
    harm: Harm,
    forgeries_dropped: u64,
    cuts: u64,
    stalls: u64,
    suspensions: u64,
    resumptions: u64,
    credit_was_out: u64,
    most_memory: usize,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.after = self.after.max(other.after);
        self.frames += other.frames;
        self.harm.lost += other.harm.lost;
        self.harm.repeated += other.harm.repeated;
        self.harm.corrupted += other.harm.corrupted;
        self.harm.forged += other.harm.forged;
        self.forgeries_dropped += other.forgeries_dropped;
        self.cuts += other.cuts;
        self.stalls += other.stalls;
        self.suspensions += other.suspensions;
        self.resumptions += other.resumptions;
        self.credit_was_out += other.credit_was_out;
        self.most_memory = self.most_memory.max(other.most_memory);
    }

    /// Storms in which nothing happens show nothing.
    pub(super) fn assert_everything_happened(&self) {
        let Harm {
            lost,
            repeated,
            corrupted,
            forged,
        } = self.harm;
        for count in [lost, repeated, corrupted, forged, self.forgeries_dropped] {
            assert!(count > 400, "{self:?}");
        }
        for count in [
            self.cuts,
            self.stalls,
            self.suspensions,
            self.resumptions,
            self.credit_was_out,
        ] {
            assert!(count > 100, "{self:?}");
        }
    }
}

pub(super) struct World {
    rng: TestRng,
    start: Instant,
    now: Instant,
    weather: Weather,
    pool: Pool,
    budget: Budget,
    /// Harness, executor.
    ends: [End; 2],
    /// From the harness, from the executor.
    directions: [Direction; 2],
    is_connected: bool,
    dials_at: Option<Instant>,
    cuts_at: Option<Instant>,
    stalls_at: [Option<Instant>; 2],
    is_clear: bool,
    tally: Tally,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let pair = Pair::patient(seed);
        let Pair {
            now,
            mut rng,
            pool,
            budget,
            harness,
            executor,
        } = pair;
        let weather = Weather::any(&mut rng);
        let (questions, answers) = (script(&mut rng), script(&mut rng));
        let mut world = Self {
            ends: [
                End::new(now, harness, &questions, &answers),
                End::new(now, executor, &answers, &questions),
            ],
            directions: [Direction::new(now), Direction::new(now)],
            start: now,
            now,
            is_connected: true,
            dials_at: None,
            cuts_at: None,
            stalls_at: [None, None],
            is_clear: false,
            tally: Tally::default(),
            weather,
            pool,
            budget,
            rng,
        };
        world.cuts_at = world.after_mean(world.weather.cuts);
        world.stalls_at = [
            world.after_mean(world.weather.stalls),
            world.after_mean(world.weather.stalls),
        ];
        world
    }

    pub(super) fn weather(&self) -> &Weather {
        &self.weather
    }

    pub(super) fn run(mut self) -> Tally {
        loop {
            self.step();
            self.check();
            if self.ends.iter().all(End::has_all) {
                return self.finish();
            }
            self.now = self.next_moment().max(self.now);
            let after = self.now - self.start;
            assert!(
                after < STORM + AFTERMATH,
                "hangs: {:?} and {:?}",
                self.ends[0].left(),
                self.ends[1].left()
            );
            if after >= STORM && !self.is_clear {
                self.clear_up();
            }
        }
    }

    fn step(&mut self) {
        if self.cuts_at.is_some_and(|at| at <= self.now) {
            self.cuts_at = self.after_mean(self.weather.cuts);
            self.cut();
        }
        if self.dials_at.is_some_and(|at| at <= self.now) && self.ends[0].stalled_until <= self.now {
            self.dial();
        }
        for index in 0..2 {
            self.step_end(index);
        }
    }

    fn step_end(&mut self, index: usize) {
        let now = self.now;
        if self.stalls_at[index].is_some_and(|at| at <= now) {
            self.stalls_at[index] = self.after_mean(self.weather.stalls);
            self.tally.stalls += 1;
            self.ends[index].stalled_until = now + Duration::from_millis(self.rng.below(LONGEST_STALL));
        }
        let end = &mut self.ends[index];
        if end.stalled_until > now {
            return;
        }
        if end.told_at.take_if(|at| *at <= now).is_some() {
            assert!(end.stream.suspend(now));
        }
        while let Some(frame) = self.directions[1 - index].receive(now) {
            end.stream.handle_message(now, frame);
        }
        end.stream.handle_timeout(now);
        let suspended = end.listen();
        end.read(now, self.is_clear, &mut self.rng);
        end.speak();
        while let Some(frame) = end.stream.poll_transmit() {
            self.tally.frames += 1;
            assert!(memchr::memmem::find(&frame, MARK).is_none(), "plaintext on the link");
            if self.is_connected {
                let direction = &mut self.directions[index];
                direction.send(now, &frame, &self.weather, &mut self.rng, &mut self.tally.harm);
            }
        }
        // A harness that was told that its stream is gone leaves its connection, and dials again.
        if suspended && index == 0 && self.dials_at.is_none() {
            self.disconnect();
        }
    }

    /// The relay restarts, or a path breaks.
    fn cut(&mut self) {
        self.tally.cuts += 1;
        if self.is_connected {
            self.ends[0].told_at = Some(self.now + Duration::from_millis(self.rng.below(3000)));
            self.disconnect();
        }
    }

    fn disconnect(&mut self) {
        self.is_connected = false;
        self.directions.iter_mut().for_each(Direction::cut);
        // Whether the relay tells the executor, and when; at the latest a resume does.
        if self.rng.chance(70) {
            self.ends[1].told_at = Some(self.now + Duration::from_millis(self.rng.below(2000)));
        }
        let wait = if self.is_clear { 100 } else { LONGEST_CUT };
        self.dials_at = Some(self.now + Duration::from_millis(3000 + self.rng.below(wait)));
    }

    fn dial(&mut self) {
        self.dials_at = None;
        self.is_connected = true;
        // It has noticed by now.
        self.ends[0].told_at = None;
        self.ends[0].stream.suspend(self.now);
        self.ends[0].stream.reconnect(self.now);
        // Its suspension is not news.
        self.ends[0].listen();
    }

    /// From now on nothing goes wrong.
    fn clear_up(&mut self) {
        self.is_clear = true;
        self.weather = self.weather.clear();
        self.cuts_at = None;
        self.stalls_at = [None, None];
        for end in &mut self.ends {
            end.reads_at = end.reads_at.min(self.now);
        }
    }

    fn check(&mut self) {
        let memory = self.pool.used() + self.budget.used();
        assert!(self.pool.used() <= 4 * MAX_WINDOW, "windows beyond their pool");
        self.tally.most_memory = self.tally.most_memory.max(memory);
    }

    fn next_moment(&self) -> Instant {
        let arrivals = (0..2).filter_map(|index| {
            let arrival = self.directions[1 - index].next_arrival()?;
            Some(arrival.max(self.ends[index].stalled_until))
        });
        let dial = self.dials_at.map(|at| at.max(self.ends[0].stalled_until));
        [dial, self.cuts_at, self.stalls_at[0], self.stalls_at[1]]
            .into_iter()
            .chain(self.ends.iter().map(End::next_moment))
            .flatten()
            .chain(arrivals)
            .chain([self.now + Duration::from_secs(1)])
            .min()
            .unwrap_or(self.now)
    }

    fn after_mean(&mut self, milliseconds: u64) -> Option<Instant> {
        let wait = self.rng.below(milliseconds.saturating_mul(2).max(1));
        (milliseconds != u64::MAX).then(|| self.now + Duration::from_millis(wait))
    }

    fn finish(mut self) -> Tally {
        for end in &self.ends {
            assert!(end.stream.is_reliable());
            self.tally.suspensions += end.suspensions;
            self.tally.resumptions += end.resumptions;
            self.tally.credit_was_out += u64::from(end.was_full);
            self.tally.forgeries_dropped += end.stream.forged();
        }
        self.tally.after = self.now - self.start;
        drop(self.ends);
        assert_eq!((self.pool.used(), self.budget.used()), (0, 0));
        self.tally
    }
}

/// Messages of all lengths, each marked and each another one.
fn script(rng: &mut TestRng) -> Vec<Bytes> {
    let count = rng.below(40);
    (0..count)
        .map(|number| {
            let most = [30, 300, 3000, 100_000, 400_000][usize::try_from(rng.below(5)).unwrap()];
            let len = usize::try_from(rng.below(most)).unwrap();
            let mut message = MARK.to_vec();
            message.extend_from_slice(&number.to_be_bytes());
            message.resize(message.len() + len, u8::try_from(number).unwrap());
            message.into()
        })
        .collect()
}
