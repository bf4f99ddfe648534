#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths are checked by the match, patterns may wrap"
)]

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;

const LIMIT: usize = 256 * 1024;

/// A client frame with any mask and fragmentation.
fn client(opcode: u8, fin: bool, mask: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![opcode | if fin { 0x80 } else { 0 }];
    match payload.len() {
        len @ 0..126 => frame.push(0x80 | len as u8),
        len @ 126..0x1_0000 => {
            frame.push(0x80 | 126);
            frame.extend((len as u16).to_be_bytes());
        }
        len => {
            frame.push(0x80 | 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

fn server(payload: &[u8]) -> Vec<u8> {
    let (header, len) = server_header(payload.len());
    [&header[..len], payload].concat()
}

/// Routes by the first byte: `x` is dropped, `!` stops, everything else names its destination.
#[derive(Default)]
struct Recorder {
    decided: Vec<Vec<u8>>,
    chunks: Vec<(u8, Bytes, u32)>,
    pings: Vec<Vec<u8>>,
    pongs: usize,
    closes: usize,
    /// Chunks that are taken before the sink says that it is full.
    room: Option<usize>,
}

impl Sink for Recorder {
    type Key = u8;

    fn decide(&mut self, payload: &[u8]) -> Decision<u8> {
        self.decided.push(payload.to_vec());
        match payload.first() {
            Some(b'x') => Decision::Drop,
            Some(b'!') => Decision::Stop,
            key => Decision::Forward(key.copied().unwrap_or(0)),
        }
    }

    fn forward(&mut self, key: u8, chunk: Bytes, frames: u32) -> bool {
        self.chunks.push((key, chunk, frames));
        match &mut self.room {
            Some(room) => {
                *room = room.saturating_sub(1);
                *room > 0
            }
            None => true,
        }
    }

    fn control(&mut self, control: Control<'_>) {
        match control {
            Control::Ping(payload) => self.pings.push(payload.to_vec()),
            Control::Pong => self.pongs += 1,
            Control::Close => self.closes += 1,
        }
    }
}

impl Recorder {
    fn stream(&self, key: u8) -> Vec<u8> {
        let own = self.chunks.iter().filter(|(to, ..)| *to == key);
        own.flat_map(|(_, chunk, _)| chunk.to_vec()).collect()
    }

    fn frames(&self) -> u32 {
        self.chunks.iter().map(|(.., frames)| frames).sum()
    }
}

fn run(bytes: &[u8]) -> (Result<Progress, Violation>, Recorder, BytesMut) {
    let mut recorder = Recorder::default();
    let mut buffer = BytesMut::from(bytes);
    let result = Deframer::new(LIMIT).process(&mut buffer, &mut recorder);
    (result, recorder, buffer)
}

#[test]
fn small_frames_for_one_destination_become_one_chunk() {
    let frames: Vec<_> = (0..5).map(|i| client(2, true, [i, 2, 3, 4], b"a-frame")).collect();
    let (result, recorder, rest) = run(&frames.concat());
    assert_eq!(result, Ok(Progress::Need(0)));
    assert!(rest.is_empty());
    assert_eq!(recorder.chunks.len(), 1);
    assert_eq!(recorder.chunks[0].2, 5);
    assert_eq!(recorder.stream(b'a'), server(b"a-frame").repeat(5));
}

#[test]
fn a_forwarded_frame_is_the_received_memory() {
    let frame = client(2, true, [9; 4], &[b'a'; 61_508]);
    let mut buffer = BytesMut::from(&frame[..]);
    let place = buffer.as_ptr() as usize;
    let mut recorder = Recorder::default();
    assert_eq!(
        Deframer::new(LIMIT).process(&mut buffer, &mut recorder),
        Ok(Progress::Need(0))
    );
    assert_eq!(recorder.chunks[0].1.as_ptr() as usize, place + 4);
}

#[test]
fn chunks_end_with_their_destination_and_at_their_limit() {
    let small = [b'a'; 1200];
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for _ in 0..200 {
        bytes.extend(client(2, true, [7, 1, 9, 3], &small));
        expected.extend(server(&small));
    }
    bytes.extend(client(2, true, [1; 4], b"b"));
    bytes.extend(client(2, true, [1; 4], b"x dropped"));
    bytes.extend(client(2, true, [0; 4], b"b again"));
    let (result, recorder, _) = run(&bytes);
    assert_eq!(result, Ok(Progress::Need(0)));
    assert_eq!(recorder.stream(b'a'), expected);
    assert_eq!(recorder.stream(b'b'), [server(b"b"), server(b"b again")].concat());
    assert_eq!(recorder.frames(), 202);
    assert!(recorder.chunks.iter().all(|(_, chunk, _)| chunk.len() <= MAX_CHUNK));
    let of_a = recorder.chunks.iter().filter(|(key, ..)| *key == b'a').count();
    assert_eq!(of_a, (200 * 1204usize).div_ceil(MAX_CHUNK));
}

#[test]
fn fragments_with_control_frames_between_them_become_one_frame() {
    let bytes = [
        client(2, false, [1, 2, 3, 4], b"a-fir"),
        client(9, true, [5; 4], b"ping"),
        client(0, false, [0; 4], b""),
        client(0, true, [9, 9, 1, 2], b"st"),
        client(2, true, [3; 4], b"a-second"),
    ];
    let (result, recorder, _) = run(&bytes.concat());
    assert_eq!(result, Ok(Progress::Need(0)));
    assert_eq!(
        recorder.stream(b'a'),
        [server(b"a-first"), server(b"a-second")].concat()
    );
    assert_eq!(recorder.pings, [b"ping"]);
}

#[test]
fn violations_come_after_the_good_frames_before_them() {
    let good = client(2, true, [1; 4], b"a");
    let cases: [(Vec<u8>, Violation); 9] = [
        (client(1, true, [1; 4], b"text"), Violation::Text),
        (client(0, true, [1; 4], b"orphan"), Violation::Fragments),
        (
            client(2, true, [1; 4], &vec![0; LIMIT + 1])[..14].to_vec(),
            Violation::TooBig,
        ),
        (client(8, true, [1; 4], b"\x03"), Violation::CloseFrame),
        (client(8, true, [1; 4], &1005u16.to_be_bytes()), Violation::CloseFrame),
        (client(8, true, [1; 4], &1006u16.to_be_bytes()), Violation::CloseFrame),
        (vec![0x82, 0x01, b'a'], Violation::NotMasked),
        (vec![0xc2, 0x81], Violation::ReservedBit),
        (client(9, false, [1; 4], b""), Violation::ControlFrame),
    ];
    for (bad, violation) in cases {
        let (result, recorder, _) = run(&[good.clone(), bad].concat());
        assert_eq!(result, Err(violation));
        assert_eq!(recorder.stream(b'a'), server(b"a"), "{violation}");
    }
}

#[test]
fn a_fragmented_message_is_bounded_as_a_whole() {
    let half = vec![b'a'; LIMIT / 2];
    let bytes = [
        client(2, false, [1; 4], &half),
        client(0, false, [1; 4], &half),
        client(0, true, [1; 4], b"!"),
    ];
    assert_eq!(run(&bytes.concat()).0, Err(Violation::TooBig));
    let bytes = [client(2, false, [1; 4], &half), client(0, true, [1; 4], &half)];
    let (result, recorder, _) = run(&bytes.concat());
    assert_eq!(result, Ok(Progress::Need(0)));
    assert_eq!(recorder.decided[0].len(), LIMIT);
}

#[test]
fn a_new_message_inside_a_fragmented_one_is_refused() {
    for second in [client(2, true, [1; 4], b"a"), client(2, false, [1; 4], b"a")] {
        let bytes = [client(2, false, [1; 4], b"a"), second].concat();
        assert_eq!(run(&bytes).0, Err(Violation::Fragments));
    }
}

#[test]
fn nothing_after_the_end_is_looked_at() {
    for last in [
        client(8, true, [1; 4], &1000u16.to_be_bytes()),
        client(8, true, [1; 4], b""),
        client(2, true, [1; 4], b"!"),
    ] {
        let bytes = [client(2, true, [1; 4], b"a"), last, b"garbage".to_vec()].concat();
        let (result, recorder, _) = run(&bytes);
        assert_eq!(result, Ok(Progress::Over));
        assert_eq!(recorder.stream(b'a'), server(b"a"));
    }
}

#[test]
fn a_full_sink_stops_the_work_and_loses_nothing() {
    let mut bytes = Vec::new();
    for i in 0..20u8 {
        bytes.extend(client(2, true, [i; 4], &[b'a' + i % 2, i]));
    }
    let mut buffer = BytesMut::from(&bytes[..]);
    let mut recorder = Recorder::default();
    let mut deframer = Deframer::new(LIMIT);
    let mut stops = 0;
    loop {
        recorder.room = Some(1);
        match deframer.process(&mut buffer, &mut recorder) {
            Ok(Progress::Full) => stops += 1,
            Ok(Progress::Need(0)) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(stops > 5);
    assert_eq!(recorder.frames(), 20);
    let all: Vec<u8> = recorder
        .chunks
        .iter()
        .flat_map(|(_, chunk, _)| chunk.to_vec())
        .collect();
    let expected: Vec<u8> = (0..20u8).flat_map(|i| server(&[b'a' + i % 2, i])).collect();
    assert_eq!(all, expected);
}

/// What a client sends: a message in fragments, or a ping.
#[derive(Clone, Debug)]
enum Sent {
    Message(Vec<Vec<u8>>, [u8; 4]),
    Ping(Vec<u8>),
}

fn sent() -> impl Strategy<Value = Sent> {
    let lengths = prop_oneof![0usize..300, 65_000usize..66_000];
    let key = prop_oneof![Just(b'a'), Just(b'b'), Just(b'x')];
    let message = (key, lengths, 1usize..4, any::<[u8; 4]>()).prop_map(|(key, len, parts, mask)| {
        let mut payload = vec![key];
        payload.extend((0..len).map(|i| (i * 31 % 253) as u8));
        let size = payload.len().div_ceil(parts);
        Sent::Message(payload.chunks(size).map(<[u8]>::to_vec).collect(), mask)
    });
    prop_oneof![8 => message, 1 => proptest::collection::vec(any::<u8>(), 0..126).prop_map(Sent::Ping)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// However the bytes are cut into reads, every destination gets exactly its messages, in order.
    #[test]
    fn nothing_is_lost_repeated_or_reordered(
        messages in proptest::collection::vec(sent(), 1..20),
        reads in proptest::collection::vec(1usize..100_000, 1..40),
    ) {
        let mut bytes = Vec::new();
        let mut expected = Recorder::default();
        for message in &messages {
            match message {
                Sent::Ping(payload) => {
                    bytes.extend(client(9, true, [1, 2, 3, 4], payload));
                    expected.pings.push(payload.clone());
                }
                Sent::Message(parts, mask) => {
                    for (index, part) in parts.iter().enumerate() {
                        let opcode = if index == 0 { 2 } else { 0 };
                        bytes.extend(client(opcode, index + 1 == parts.len(), *mask, part));
                    }
                    expected.decided.push(parts.concat());
                }
            }
        }
        let mut recorder = Recorder::default();
        let mut deframer = Deframer::new(LIMIT);
        let mut buffer = BytesMut::new();
        let mut rest = &bytes[..];
        let mut sizes = reads.iter().cycle();
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            rest = later;
            buffer.extend_from_slice(now);
            let progress = deframer.process(&mut buffer, &mut recorder);
            let Ok(Progress::Need(need)) = progress else { panic!("{progress:?}") };
            prop_assert!(need == 0 || need > buffer.len());
        }
        prop_assert!(buffer.is_empty());
        prop_assert_eq!(&recorder.decided, &expected.decided);
        prop_assert_eq!(&recorder.pings, &expected.pings);
        for key in [b'a', b'b'] {
            let own = expected.decided.iter().filter(|message| message[0] == key);
            let bytes: Vec<u8> = own.flat_map(|message| server(message)).collect();
            prop_assert_eq!(recorder.stream(key), bytes);
        }
    }

    /// Whatever arrives, there is an answer and no panic.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..2000), cut in 0usize..2000) {
        let mut recorder = Recorder::default();
        let mut deframer = Deframer::new(LIMIT);
        let mut buffer = BytesMut::from(&bytes[..cut.min(bytes.len())]);
        if deframer.process(&mut buffer, &mut recorder).is_ok() {
            buffer.extend_from_slice(&bytes[cut.min(bytes.len())..]);
            let _ = deframer.process(&mut buffer, &mut recorder);
        }
        prop_assert!(buffer.len() <= bytes.len());
    }
}
