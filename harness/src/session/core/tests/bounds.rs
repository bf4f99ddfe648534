use super::*;

#[test]
fn too_many_processes_are_refused() {
    let mut world = World::ready();
    let mut held = Vec::new();
    for index in 0..MAX_PROCESSES {
        held.push(world.running(&format!("p{index}")));
    }
    let (mut started, _events) = world.start("more");
    assert!(matches!(
        started.try_recv().unwrap(),
        Err(HarnessError::TooManyProcesses(MAX_PROCESSES))
    ));
    assert_eq!(world.sent(), [] as [Value; 0]);
}

#[test]
fn commands_are_held_up_to_a_bound() {
    let mut core = Core::new("test".to_owned());
    let mut replies = Vec::new();
    while core.takes_commands() {
        let (reply, result) = oneshot::channel();
        replies.push(result);
        core.command(Command::Call(Call {
            method: "environment/status",
            params: Bytes::from_static(b"null"),
            class: Class::Once,
            listener: None,
            reply,
        }));
    }
    assert_eq!(replies.len(), MAX_HELD);
}
