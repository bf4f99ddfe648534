use rendezvous_rpc::Base64;

use super::*;
use crate::session::delivery::{self, EventReceiver, MAX_EVENTS};

fn listening(listeners: &mut Listeners, id: &str) -> EventReceiver<BodyEvent> {
    let (events, receiver) = delivery::body();
    let id = id.to_owned();
    listeners.add(Listener::Body { id, events }).unwrap();
    receiver
}

fn delta(id: &str, seq: u64, bytes: &'static [u8]) -> BodyDeltaParams {
    BodyDeltaParams {
        request_id: id.to_owned(),
        seq,
        delta_base64: Base64(Bytes::from_static(bytes)),
        done: bytes.is_empty(),
        error: None,
    }
}

#[test]
fn bodies_come_in_order_to_their_readers() {
    let mut listeners = Listeners::default();
    let mut a = listening(&mut listeners, "a");
    let mut b = listening(&mut listeners, "b");
    listeners.delta(delta("a", 1, b"a1"));
    listeners.delta(delta("b", 1, b"b1"));
    listeners.delta(delta("nobody", 7, b"x"));
    listeners.delta(delta("a", 2, b""));
    assert_eq!(
        a.try_recv().unwrap().unwrap(),
        BodyEvent::Bytes(Bytes::from_static(b"a1"))
    );
    assert_eq!(a.try_recv().unwrap().unwrap(), BodyEvent::End);
    assert!(a.try_recv().is_err());
    assert_eq!(
        b.try_recv().unwrap().unwrap(),
        BodyEvent::Bytes(Bytes::from_static(b"b1"))
    );
    listeners.link_down();
    assert!(matches!(b.try_recv().unwrap(), Err(HarnessError::Body(_))));
}

#[test]
fn what_breaks_the_order_breaks_the_body() {
    static LARGE: [u8; MAX_DELTA + 1] = [0; MAX_DELTA + 1];
    let mut failed = delta("a", 1, b"");
    failed.error = Some("cut".to_owned());
    let mut full_end = delta("a", 1, b"x");
    full_end.done = true;
    for broken in [
        delta("a", 2, b"x"),
        delta("a", 0, b"x"),
        delta("a", 1, &LARGE),
        failed,
        full_end,
    ] {
        let mut listeners = Listeners::default();
        let mut a = listening(&mut listeners, "a");
        listeners.delta(broken);
        assert!(matches!(a.try_recv().unwrap(), Err(HarnessError::Body(_))));
        listeners.delta(delta("a", 1, b"late"));
        assert!(a.try_recv().is_err());
    }
}

#[tokio::test]
async fn a_slow_reader_holds_up_and_nothing_is_lost() {
    let mut listeners = Listeners::default();
    let mut a = listening(&mut listeners, "a");
    let mut seq = 0;
    while listeners.blocked().is_none() {
        seq += 1;
        listeners.delta(delta("a", seq, b"x"));
    }
    assert_eq!(seq, MAX_EVENTS as u64 + 1);
    let room = listeners.blocked().unwrap();
    a.recv().await.unwrap().unwrap();
    room.await;
    listeners.unblock();
    assert!(listeners.blocked().is_none());
    a.recv().await.unwrap().unwrap();
    listeners.delta(delta("a", seq + 1, b""));
    let mut pieces = 2;
    while let Some(Ok(BodyEvent::Bytes(_))) = a.recv().await {
        pieces += 1;
    }
    assert_eq!(pieces, seq);
}

#[test]
fn bodies_are_bounded_and_abandoned_ones_make_room() {
    let mut listeners = Listeners::default();
    let mut readers: Vec<_> = (0..MAX_BODIES)
        .map(|n| listening(&mut listeners, &n.to_string()))
        .collect();
    let add = |listeners: &mut Listeners| {
        let (events, receiver) = delivery::body();
        let id = "more".to_owned();
        listeners.add(Listener::Body { id, events }).map(|()| receiver)
    };
    assert!(matches!(
        add(&mut listeners),
        Err(HarnessError::TooManyBodies(MAX_BODIES))
    ));
    readers.pop();
    assert!(add(&mut listeners).is_ok());
}

#[test]
fn one_watch_at_a_time() {
    let mut listeners = Listeners::default();
    let watch = |listeners: &mut Listeners, id| {
        let (end, ended) = oneshot::channel();
        listeners.add(Listener::Watch { id, end }).unwrap();
        ended
    };
    let mut first = watch(&mut listeners, 1);
    let mut second = watch(&mut listeners, 2);
    assert_eq!(first.try_recv().unwrap(), WatchEnd::Replaced);
    listeners.changed(1);
    assert!(second.try_recv().is_err());
    listeners.changed(2);
    assert_eq!(second.try_recv().unwrap(), WatchEnd::Changed);
    let mut third = watch(&mut listeners, 3);
    listeners.link_down();
    assert_eq!(third.try_recv().unwrap(), WatchEnd::Lost);
}
