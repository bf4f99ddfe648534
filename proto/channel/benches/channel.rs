//! What the channel costs: `cargo bench -p rendezvous-channel`. Prints figures, judges nothing.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its result and may stop at any error"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;
use rendezvous_channel::budget::Budget;
use rendezvous_channel::primitives::aead::{Aead, AwsLc, RustCrypto};
use rendezvous_channel::record::{Opener, Sealer};
use rendezvous_channel::{Identity, Initiator, Prologue, Responder, SessionKeys, Stream};
use rendezvous_wire::frame::Frame;
use rendezvous_wire::id::{EnvironmentId, RegistrationId, StreamId};

const STREAM: &str = "4b2d2a1e-7a3c-4f3e-9a65-2f3ef2b6a001";
/// How long each figure is measured.
const SPAN: Duration = Duration::from_millis(500);

fn main() {
    handshake();
    for len in [61_440, 1200] {
        records::<AwsLc>("aws-lc-rs", len);
        records::<RustCrypto>("aes-gcm", len);
    }
    for len in [1_000_000, 200] {
        stream(len);
    }
}

/// Calls for the whole span, in slices, and gives the mean time of one call in the fastest slice: what else runs on the
/// machine disturbs that least.
fn mean(mut call: impl FnMut()) -> Duration {
    let slice = || {
        let start = Instant::now();
        let mut calls = 0;
        while start.elapsed() < SPAN / 20 {
            call();
            calls += 1;
        }
        start.elapsed() / calls
    };
    std::iter::repeat_with(slice).take(20).min().unwrap()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn gb_per_s(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}

fn prologue() -> Prologue {
    Prologue::new(
        &EnvironmentId::new("env").unwrap(),
        &RegistrationId::new("registration").unwrap(),
        &StreamId::new(STREAM).unwrap(),
    )
}

fn handshake() {
    let mut rng = UnwrapErr(SysRng);
    let (harness, executor, prologue) = (Identity::generate(&mut rng), Identity::generate(&mut rng), prologue());
    let mut least = [Duration::MAX; 4];
    let start = Instant::now();
    while start.elapsed() < SPAN {
        let begin = Instant::now();
        let (initiator, first) =
            Initiator::start(&harness, executor.public(), &prologue, &[b'a'; 36], &mut rng).unwrap();
        let started = Instant::now();
        let paused = Responder::read(&executor, &prologue, &first).unwrap();
        let read = Instant::now();
        let (second, _) = paused.accept(&mut rng).unwrap();
        let accepted = Instant::now();
        black_box(initiator.finish(&second).unwrap());
        let times = [begin, started, read, accepted, Instant::now()];
        for (least, pair) in least.iter_mut().zip(times.windows(2)) {
            *least = (pair[1] - pair[0]).min(*least);
        }
    }
    let [start, read, accept, finish] = least.map(micros);
    println!(
        "handshake, initiator: {:.0} us (start {start:.0}, finish {finish:.0})",
        start + finish
    );
    println!(
        "handshake, responder: {:.0} us (read {read:.0}, accept {accept:.0})",
        read + accept
    );
}

fn records<A: Aead>(name: &str, len: usize) {
    let key = [7; 32];
    let mut record = BytesMut::with_capacity(len + 16);
    record.resize(len, 1);
    let mut sealer = Sealer::<A>::new(&key);
    let seal = mean(|| {
        record.truncate(len);
        sealer.seal(&mut record, 0).unwrap();
    });
    let mut sealer = Sealer::<A>::new(&key);
    let sealed: Vec<Bytes> = (0..64)
        .map(|_| {
            let mut record = BytesMut::from(&vec![1; len][..]);
            sealer.seal(&mut record, 0).unwrap();
            record.freeze()
        })
        .collect();
    let mut buffer = Vec::with_capacity(len);
    let open = mean(|| {
        let mut opener = Opener::<A>::new(&key);
        for record in &sealed {
            buffer.clear();
            opener.open(record, &mut buffer).unwrap();
        }
    }) / 64;
    println!(
        "records of {len} B, {name}: seal {:.1} GB/s, open {:.1} GB/s",
        gb_per_s(len, seal),
        gb_per_s(len, open)
    );
}

fn session() -> (SessionKeys, SessionKeys) {
    let mut rng = UnwrapErr(SysRng);
    let (harness, executor, prologue) = (Identity::generate(&mut rng), Identity::generate(&mut rng), prologue());
    let (initiator, first) = Initiator::start(&harness, executor.public(), &prologue, b"", &mut rng).unwrap();
    let (second, responder) = Responder::read(&executor, &prologue, &first)
        .unwrap()
        .accept(&mut rng)
        .unwrap();
    (initiator.finish(&second).unwrap(), responder)
}

/// Message to frames to message: everything but the socket.
fn stream(len: usize) {
    let (a, b) = session();
    let budget = Budget::new(usize::MAX);
    let id = StreamId::new(STREAM).unwrap();
    let (mut a, mut b) = (Stream::accept(id.clone(), &a, &budget), Stream::accept(id, &b, &budget));
    a.set_initialized();
    b.set_initialized();
    let message = Bytes::from(vec![b'x'; len]);
    let now = Instant::now();
    let time = mean(|| {
        a.send(message.clone()).unwrap();
        while let Some(frame) = a.poll_transmit() {
            b.handle_frame(now, Frame::decode(frame).unwrap());
        }
        while let Some(event) = b.poll_event() {
            black_box(event);
        }
    });
    println!(
        "messages of {len} B, sent and received on one thread: {:.2} us each, {:.2} GB/s",
        micros(time),
        gb_per_s(len, time)
    );
}
