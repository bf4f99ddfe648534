#![expect(clippy::cast_possible_truncation, reason = "lanes are small numbers")]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn pop(queue: &mut FairQueue, chunks: usize, bytes: usize) -> Vec<Bytes> {
    let mut out = VecDeque::new();
    queue.pop(&mut out, chunks, bytes, 0, &mut Vec::new());
    out.into()
}

fn chunk(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn lanes_take_turns_however_much_one_of_them_has() {
    let mut queue = FairQueue::default();
    for lane in 1..=3 {
        queue.open(Lane(lane));
    }
    for i in 0..100 {
        assert!(queue.push(Lane(1), chunk(&format!("a{i}"))));
    }
    queue.push(Lane(2), chunk("b0"));
    queue.push(Lane(3), chunk("c0"));
    queue.push(Lane(2), chunk("b1"));
    assert_eq!(pop(&mut queue, 6, usize::MAX), ["a0", "b0", "c0", "a1", "b1", "a2"]);
}

#[test]
fn a_batch_is_bounded_by_bytes() {
    let mut queue = FairQueue::default();
    queue.open(Lane(1));
    for _ in 0..10 {
        queue.push(Lane(1), Bytes::from_static(&[0; 100]));
    }
    assert_eq!(pop(&mut queue, 64, 250).len(), 3);
}

#[test]
fn a_finished_lane_is_emptied_and_then_gone() {
    let mut queue = FairQueue::default();
    queue.open(Lane(1));
    queue.push(Lane(1), chunk("data"));
    queue.finish(Lane(1), Some(chunk("reset")));
    assert!(!queue.push(Lane(1), chunk("late")));
    assert_eq!(queue.lanes(), 1);
    assert_eq!(pop(&mut queue, 64, usize::MAX), ["data", "reset"]);
    assert_eq!((queue.lanes(), queue.cost(), queue.is_empty()), (0, 0, true));
    queue.open(Lane(2));
    queue.finish(Lane(2), None);
    assert_eq!(queue.lanes(), 0);
}

#[test]
fn a_removed_lane_leaves_nothing_behind() {
    let mut queue = FairQueue::default();
    queue.open(Lane(1));
    queue.open(Lane(2));
    queue.push(Lane(1), chunk("gone"));
    queue.push(Lane(2), chunk("stays"));
    let woken = Arc::new(Count(AtomicUsize::new(0)));
    queue.wait(Lane(1), &Waker::from(woken.clone()));
    queue.remove(Lane(1));
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert_eq!(pop(&mut queue, 64, usize::MAX), ["stays"]);
    assert_eq!(queue.cost(), 0);
}

#[test]
fn whoever_waits_is_woken_once_there_is_room() {
    let mut queue = FairQueue::default();
    queue.open(Lane(1));
    for _ in 0..4 {
        queue.push(Lane(1), Bytes::from_static(&[0; 1000]));
    }
    let woken = Arc::new(Count(AtomicUsize::new(0)));
    queue.wait(Lane(1), &Waker::from(woken));
    let (mut out, mut wake) = (VecDeque::new(), Vec::new());
    let room = 2 * (1000 + CHUNK_OVERHEAD);
    queue.pop(&mut out, 1, usize::MAX, room, &mut wake);
    assert!(wake.is_empty());
    queue.pop(&mut out, 2, usize::MAX, room, &mut wake);
    assert_eq!(wake.len(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Push(u64, usize),
    Pop(usize),
    Finish(u64),
    Remove(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..4, 1usize..2000).prop_map(|(lane, len)| Step::Push(lane, len)),
        4 => (1usize..6).prop_map(Step::Pop),
        1 => (0u64..4).prop_map(Step::Finish),
        1 => (0u64..4).prop_map(Step::Remove),
    ]
}

proptest! {
    /// Against a model: each lane's chunks come out whole, once, in order, unless the lane was removed; the cost is exact; no
    /// lane waits for more than one chunk of each other lane.
    #[test]
    fn agrees_with_a_model(steps in proptest::collection::vec(step(), 1..200)) {
        let mut queue = FairQueue::default();
        let mut model: HashMap<u64, VecDeque<Bytes>> = HashMap::new();
        let mut open = [true; 4];
        (0..4).for_each(|lane| queue.open(Lane(lane)));
        let mut number = 0u32;
        for step in steps {
            match step {
                Step::Push(lane, len) => {
                    number += 1;
                    let mut bytes = vec![0; len + 12];
                    bytes[..8].copy_from_slice(&lane.to_be_bytes());
                    bytes[8..12].copy_from_slice(&number.to_be_bytes());
                    let bytes = Bytes::from(bytes);
                    prop_assert_eq!(queue.push(Lane(lane), bytes.clone()), open[lane as usize]);
                    if open[lane as usize] {
                        model.entry(lane).or_default().push_back(bytes);
                    }
                }
                Step::Pop(count) => {
                    let out = pop(&mut queue, count, usize::MAX);
                    let waiting: usize = model.values().map(VecDeque::len).sum();
                    prop_assert_eq!(out.len(), count.min(waiting));
                    let mut turns = HashMap::new();
                    let lanes = model.values().filter(|chunks| !chunks.is_empty()).count();
                    for (index, chunk) in out.iter().enumerate() {
                        let lane = u64::from_be_bytes(chunk[..8].try_into().unwrap());
                        let expected = model.get_mut(&lane).and_then(VecDeque::pop_front);
                        prop_assert_eq!(expected.as_ref(), Some(chunk));
                        if index < lanes {
                            prop_assert!(turns.insert(lane, ()).is_none(), "lane {} twice in the first turn", lane);
                        }
                    }
                }
                Step::Finish(lane) => {
                    queue.finish(Lane(lane), None);
                    open[lane as usize] = false;
                }
                Step::Remove(lane) => {
                    queue.remove(Lane(lane));
                    model.remove(&lane);
                    open[lane as usize] = false;
                }
            }
            let cost: usize = model.values().flatten().map(|chunk| chunk.len() + CHUNK_OVERHEAD).sum();
            prop_assert_eq!(queue.cost(), cost);
            prop_assert_eq!(queue.is_empty(), cost == 0);
        }
    }
}
