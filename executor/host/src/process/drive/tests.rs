use std::ffi::OsString;

use tokio::sync::mpsc;

use super::*;
use crate::process::{Change, Spec, Stdio, spawn};

#[tokio::test]
async fn a_busy_output_does_not_starve_the_other() {
    let spec = Spec {
        argv: ["/bin/sleep", "1000"].map(OsString::from).to_vec(),
        arg0: None,
        cwd: "/".into(),
        env: Vec::new(),
        stdio: Stdio::Pipes { stdin: false },
        jail: None,
    };
    let mut spawned = spawn::spawn(spec, false).await.unwrap();
    // Both have more than one read gives.
    let mut writers = Vec::new();
    spawned.outputs = [Stream::Stdout, Stream::Stderr]
        .map(|stream| {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            assert_eq!(rustix::io::write(&writer, &[0; 60_000]), Ok(60_000));
            writers.push(writer);
            (stream, reader)
        })
        .into();
    let (process, driver) = Process::new("p".into(), spawned, Arc::default(), Arc::default(), None).unwrap();
    let (listener, mut events) = mpsc::channel(16);
    let outlet = Outlet::default();
    outlet.attach(listener);
    let driving = tokio::spawn(async move { driver.run(&outlet).await });
    let mut order = Vec::new();
    while order.len() < 4 {
        if let Change::Output(chunk) = events.recv().await.unwrap().change {
            order.push(chunk.stream);
        }
    }
    let [out, err] = [Stream::Stdout, Stream::Stderr];
    assert_eq!(order, [out, err, out, err]);
    process.abandon();
    driving.await.unwrap();
}
