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
