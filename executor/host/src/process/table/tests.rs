use std::ffi::OsString;

use super::*;
use crate::process::{ReadRequest, SpoolLimits, Spooling, Stdio};

fn spec() -> Spec {
    Spec {
        argv: ["/bin/cat"].map(OsString::from).to_vec(),
        arg0: None,
        cwd: "/".into(),
        env: Vec::new(),
        stdio: Stdio::Pipes { stdin: true },
        jail: None,
    }
}

fn processes() -> Processes {
    Processes::new(Outlet::default(), Arc::default())
}

async fn is_kept(processes: &Processes, id: &str) -> bool {
    let Lookup::Started(process) = processes.get(id) else {
        panic!("{id} was not started");
    };
    process.read(ReadRequest::default()).await.is_kept
}

#[tokio::test]
async fn what_cannot_be_kept_can_be_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let spooling = Spooling::new(folder.path().join("output"), SpoolLimits::default());
    let processes = processes();
    processes.start("a", spec()).await.unwrap();
    let spool = spooling.session().unwrap();
    std::fs::remove_dir(folder.path().join("output")).unwrap();
    processes.keep(spool).await.unwrap_err();
    processes.start("b", spec()).await.unwrap();
    assert!(!is_kept(&processes, "a").await && !is_kept(&processes, "b").await);
    processes.keep(spooling.session().unwrap()).await.unwrap();
    processes.keep(spooling.session().unwrap()).await.unwrap();
    processes.start("c", spec()).await.unwrap();
    for id in ["a", "b", "c"] {
        assert!(is_kept(&processes, id).await, "{id}");
    }
}

#[tokio::test]
async fn a_program_that_started_while_all_others_came_to_be_kept_is_kept_too() {
    let folder = tempfile::tempdir().unwrap();
    let spooling = Spooling::new(folder.path().join("output"), SpoolLimits::default());
    let processes = processes();
    let (table, id) = (&processes.table, Arc::from("a"));
    let instance = table.reserve(&id).unwrap();
    let spawned = spawn::spawn(spec(), false).await.unwrap();
    let started = table.take_over(&id, spawned, None).await;
    processes.keep(spooling.session().unwrap()).await.unwrap();
    let unkept = Table::install(table, &id, instance, started).unwrap();
    let started = table.with_place(unkept.unwrap()).await;
    assert!(Table::install(table, &id, instance, started).unwrap().is_none());
    assert!(is_kept(&processes, "a").await);
}
