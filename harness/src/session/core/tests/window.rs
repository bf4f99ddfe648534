use super::*;

#[test]
fn an_executor_with_windows_is_told_how_far_the_reader_has_come() {
    let mut world = World::ready_with(json!({"outputWindow": 1}));
    let mut events = world.running("p");
    for seq in 1..=512 {
        world.output("p", seq);
    }
    assert_eq!(kinds(&mut events).len(), 512);
    let notice = world.heard.try_recv().unwrap();
    world.core.notice(notice);
    let consumed = |seq: u64| json!({"method": "process/consumed", "params": {"processId": "p", "seq": seq}});
    assert_eq!(world.one(), consumed(512));

    // What is taken while there is no connection is told on the next one, before anything is read again.
    world.output("p", 513);
    assert_eq!(kinds(&mut events), "o");
    world.core.link_down();
    world.connect("s");
    let sent = world.sent();
    assert_eq!((&sent[0], &sent[1]["method"]), (&consumed(513), &json!("process/read")));
    world.page(&sent[1], &[], 514, false, false);

    // The end says that everything is here, taken or not.
    world
        .say(&json!({"method": "process/exited", "params": {"processId": "p", "seq": 514, "exitCode": 0}}))
        .unwrap();
    world
        .say(&json!({"method": "process/closed", "params": {"processId": "p", "seq": 515}}))
        .unwrap();
    assert_eq!(world.one(), consumed(515));
}

#[test]
fn a_stock_executor_is_told_nothing_of_its_readers() {
    let mut world = World::ready();
    let mut events = world.running("p");
    for seq in 1..=512 {
        world.output("p", seq);
    }
    assert_eq!(kinds(&mut events).len(), 512);
    let notice = world.heard.try_recv().unwrap();
    world.core.notice(notice);
    assert!(world.sent().is_empty());
}

#[test]
fn what_is_not_wanted_of_a_kept_process_holds_nothing_up() {
    let mut world = World::ready_with(json!({"outputWindow": 1}));
    let (events, mut receiver) = delivery::process("p".to_owned(), world.notices.clone());
    let (reply, _attached) = oneshot::channel();
    world.core.command(Command::Attach {
        process: "p".to_owned(),
        tail: Some(0),
        events,
        reply,
    });
    let read = world.one();
    assert_eq!(read["params"]["tailBytes"], 0);
    world.page(&read, &[], 101, false, false);
    let consumed = json!({"method": "process/consumed", "params": {"processId": "p", "seq": 100}});
    assert_eq!(world.one(), consumed);
    assert_eq!(kinds(&mut receiver), "");
    // And on the next connection, too.
    world.core.link_down();
    world.connect("s");
    assert_eq!(world.sent()[0], consumed);
}
