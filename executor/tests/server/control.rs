//! The extension `processControl`: signals and the list. Its other calls are told in `process`.

use serde_json::{Value, json};

use crate::support::{Client, server, start};

#[tokio::test]
async fn signals_have_their_names_for_a_client_that_named_the_extension() {
    let server = server();
    let mut client = Client::new(&server).await;
    // The shell would tell that its child was ended, too.
    let script = "exec 2>/dev/null; trap 'exit 4' TERM; echo ready; while :; do sleep 0.02; done";
    client.call("process/start", start("p", script)).await.expect("start");
    assert_eq!(client.news().await.0, "process/output");
    for bad in ["", "TERM", "sigterm", "SIGRTMIN", "Interrupt", "9"] {
        let (code, text) = client
            .call("process/signal", json!({"processId": "p", "signal": bad}))
            .await
            .expect_err(bad);
        assert_eq!(code, -32602);
        assert!(text.contains("SIGTERM"), "{text}");
    }
    for signal in ["SIGCONT", "SIGTERM"] {
        let params = json!({"processId": "p", "signal": signal});
        assert_eq!(client.call("process/signal", params).await, Ok(json!({})));
    }
    let (method, news) = client.news().await;
    assert_eq!((method.as_str(), &news["exitCode"]), ("process/exited", &json!(4)));
    for id in ["p", "none"] {
        let params = json!({"processId": id, "signal": "SIGKILL"});
        assert_eq!(
            client.call("process/signal", params).await,
            Ok(json!({})),
            "{id} is no offence"
        );
    }
}

#[tokio::test]
async fn a_client_without_the_extension_has_the_stock_contract() {
    let server = server();
    let mut client = Client::stock(&server).await;
    let refused = client
        .call("process/signal", json!({"processId": "p", "signal": "SIGTERM"}))
        .await;
    assert_eq!(
        refused,
        Err((-32602, "unknown variant `SIGTERM`, expected `interrupt`".to_owned()))
    );
    let (code, _) = client
        .call("process/list", Value::Null)
        .await
        .expect_err("no such call");
    assert_eq!(code, -32601);
}

#[tokio::test]
async fn the_processes_of_the_session_are_listed() {
    let server = server();
    let mut client = Client::new(&server).await;
    assert_eq!(
        client.call("process/list", Value::Null).await,
        Ok(json!({"processes": []}))
    );
    client
        .call("process/start", start("b", "read x; exit 3"))
        .await
        .expect("start");
    client
        .call("process/start", start("a", "sleep 1000"))
        .await
        .expect("start");
    let mut other = Client::new(&server).await;
    assert_eq!(
        other.call("process/list", json!({})).await,
        Ok(json!({"processes": []}))
    );
    let listed = client.call("process/list", json!({})).await.expect("list");
    let (first, second) = (&listed["processes"][0], &listed["processes"][1]);
    assert_eq!((&first["processId"], &second["processId"]), (&json!("b"), &json!("a")));
    assert_eq!((&first["state"], first.get("exitCode")), (&json!("running"), None));
    assert_eq!(first["argv"], json!(["/bin/sh", "-c", "read x; exit 3"]));
    assert!(first["pid"].is_i64() && first["ageMs"].is_u64(), "{first}");
    client
        .call("process/closeStdin", json!({"processId": "b"}))
        .await
        .expect("close");
    while client.news().await.0 != "process/closed" {}
    let listed = client.call("process/list", json!({})).await.expect("list");
    let first = &listed["processes"][0];
    assert_eq!((&first["state"], &first["exitCode"]), (&json!("closed"), &json!(3)));
}
