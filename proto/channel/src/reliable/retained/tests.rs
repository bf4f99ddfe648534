use super::super::rtt::RoundTrip;
use super::*;

struct World {
    now: Instant,
    rtt: RoundTrip,
    sent: Retained,
}

impl World {
    /// Records `0..count` are on their way; each frame is as long as its number says.
    fn new(count: usize) -> Self {
        let mut world = Self {
            now: Instant::now(),
            rtt: RoundTrip::default(),
            sent: Retained::new(0, Switches::default()),
        };
        for seq in 0..count {
            let frame = Bytes::from(vec![7; seq]);
            world.sent.push(world.now, frame, true, &world.rtt);
        }
        world
    }

    fn again(&mut self) -> Vec<usize> {
        std::iter::from_fn(|| self.sent.again(self.now))
            .map(|frame| frame.len())
            .collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.sent.handle_timeout(self.now, &mut self.rtt);
    }

    fn hint(&mut self, ack: u32, bits: u32) {
        self.sent.hint(self.now, ack, bits, &mut self.rtt);
    }

    fn confirm(&mut self, next: u32) {
        self.sent.confirm(self.now, next, &mut self.rtt).unwrap();
    }
}

#[test]
fn only_a_confirmation_frees() {
    let mut world = World::new(3);
    let all = world.sent.bytes();
    world.hint(2, 0);
    assert_eq!((world.sent.first(), world.sent.bytes()), (0, all));
    world.confirm(2);
    assert_eq!((world.sent.first(), world.sent.bytes()), (2, 2 + OVERHEAD));
    world.confirm(1);
    world.confirm(3);
    assert_eq!((world.sent.first(), world.sent.next(), world.sent.bytes()), (3, 3, 0));
    assert_eq!(world.sent.deadline(), None);
    let beyond = world.sent.confirm(world.now, 4, &mut world.rtt);
    assert_eq!(beyond, Err(ReliableError::NeverSent));
}

#[test]
fn after_a_timeout_one_record_goes_and_then_two_for_each_that_arrived() {
    let mut world = World::new(10);
    world.pass(Duration::from_millis(999));
    assert!(world.again().is_empty());
    world.pass(Duration::from_millis(1));
    assert_eq!(world.again(), [0]);
    world.hint(0, 0);
    assert_eq!(world.again(), [1, 2]);
    world.hint(2, 0b10);
    // Record 4 is there already.
    assert_eq!(world.again(), [3, 5, 6, 7]);
    assert_eq!(world.rtt.expirations(), 0);
}

#[test]
fn timeouts_without_progress_double() {
    let mut world = World::new(2);
    for seconds in [1, 2, 4, 8, 8] {
        world.pass(Duration::from_secs(seconds) - Duration::from_millis(1));
        assert!(world.again().is_empty());
        world.pass(Duration::from_millis(1));
        assert_eq!(world.again(), [0]);
    }
    assert_eq!(world.rtt.expirations(), 5);
}

#[test]
fn holes_before_three_later_records_go_again_once_a_round_trip() {
    let mut world = World::new(8);
    world.now += Duration::from_millis(100);
    world.hint(0, 0);
    assert_eq!(world.rtt.smoothed(), Duration::from_millis(100));
    world.hint(0, 0b0110);
    assert!(world.again().is_empty());
    world.hint(0, 0b1_0110);
    // Records 2, 3 and 5 are there.
    assert_eq!(world.again(), [1, 4]);
    world.now += Duration::from_millis(99);
    world.hint(0, 0b101_0110);
    assert!(world.again().is_empty());
    world.now += Duration::from_millis(1);
    world.hint(0, 0);
    assert_eq!(world.again(), [1, 4, 6]);
}

#[test]
fn a_hint_without_confirmation_is_forgotten() {
    let mut world = World::new(3);
    world.hint(2, 0);
    assert!(world.sent.is_hinted(2));
    assert_eq!(world.sent.deadline(), Some(world.now + HINT_LIFETIME));
    world.pass(HINT_LIFETIME);
    assert!(!world.sent.is_hinted(0));
    assert_eq!(world.again(), [0]);
    world.confirm(1);
    assert_eq!(world.again(), [1, 2]);
}

#[test]
fn a_hint_at_single_records_is_forgotten_too() {
    let mut world = World::new(3);
    world.hint(0, 0);
    world.confirm(1);
    world.hint(0, 0b11);
    assert!(world.sent.is_hinted(1) && world.sent.is_hinted(2));
    for _ in 0..10 {
        // What is to be sent again is said to be there, every time.
        world.pass(HINT_LIFETIME);
        assert_eq!(world.again(), [1]);
        world.hint(0, 0b11);
    }
    world.confirm(2);
    world.pass(HINT_LIFETIME);
    assert_eq!(world.again(), [2]);
}

#[test]
fn hints_about_records_without_content_last() {
    let mut world = World::new(0);
    world.sent.push(world.now, Bytes::new(), false, &world.rtt);
    world.hint(0, 0);
    assert_eq!(world.sent.deadline(), None);
    world.sent.push(world.now, Bytes::new(), true, &world.rtt);
    world.hint(1, 0);
    assert_eq!(world.sent.deadline(), Some(world.now + HINT_LIFETIME));
}

#[test]
fn hints_from_nowhere_mean_nothing() {
    let mut world = World::new(2);
    for ack in [2, 3, u32::MAX - 1, u32::MAX] {
        world.hint(ack, u32::MAX);
        assert!(!world.sent.is_hinted(0), "{ack}");
    }
    world.hint(0, u32::MAX);
    assert!(world.sent.is_hinted(1));
    assert!(!world.sent.is_hinted(2) && !world.sent.is_hinted(31));
}

#[test]
fn a_resume_sends_everything_again_that_the_peer_lacks() {
    let mut world = World::new(5);
    world.hint(3, 0);
    world.sent.rewind(world.now, 2, &mut world.rtt).unwrap();
    assert_eq!(world.again(), [2, 3, 4]);
    // What was sent twice tells no round trip.
    let before = world.rtt.smoothed();
    world.now += Duration::from_secs(5);
    world.hint(4, 0);
    assert_eq!(world.rtt.smoothed(), before);
    // An older one changes nothing.
    world.sent.rewind(world.now, 0, &mut world.rtt).unwrap();
    assert_eq!(world.sent.first(), 2);
}
