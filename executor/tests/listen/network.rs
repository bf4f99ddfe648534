//! A process behind a proxy, and the listeners of the executor that runs it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::world::{Client, Executor, command, start, within};

/// What a command writes, to its end.
async fn output(client: &mut Client, id: &str) -> String {
    let mut out = Vec::new();
    let mut after = 0;
    loop {
        let read = json!({"processId": id, "afterSeq": after, "waitMs": 10_000});
        let page = client.call("process/read", read).await;
        for chunk in page["chunks"].as_array().expect("chunks") {
            let text = chunk["chunk"].as_str().expect("base64");
            out.extend(BASE64_STANDARD.decode(text).expect("base64"));
        }
        after = page["nextSeq"].as_u64().expect("a number") - 1;
        if page["closed"] == true {
            return String::from_utf8_lossy(&out).into_owned();
        }
    }
}

#[tokio::test]
async fn a_rule_for_loopback_opens_none_of_them() {
    let mut executor = Executor::spawn(command(&[
        "--listen",
        "ws://127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
    ]))
    .await;
    let mut told = BufReader::new(executor.child.stderr.take().expect("stderr")).lines();
    let admin = loop {
        let line = within(told.next_line()).await.expect("stderr").expect("a line");
        if let Some((_, address)) = line.split_once("serving health and metrics address=") {
            break address.trim().to_owned();
        }
    };
    let proxy = json!({"proxy": {
        "enabled": true, "enableSocks5": false, "enableSocks5Udp": false, "allowUpstreamProxy": false,
        "dangerouslyAllowAllUnixSockets": false, "mode": "full", "domains": {"127.0.0.1": "allow"},
        "allowLocalBinding": true,
    }});
    let mut client = executor.client().await;
    for address in [&executor.address, &admin] {
        let script = format!("curl -s -m 20 --noproxy '' http://{address}/healthz");
        let mut params = start(address, &script);
        params["networkProxy"] = proxy.clone();
        client.call("process/start", params).await;
        let out = output(&mut client, address).await;
        assert!(out.contains(r#""reason":"not_allowed_local""#), "{address}: {out}");
        // Without the proxy it answers.
        let again = format!("{address} again");
        let script = format!("curl -s -m 20 -o /dev/null -w '%{{http_code}}' http://{address}/healthz");
        client.call("process/start", start(&again, &script)).await;
        let out = output(&mut client, &again).await;
        assert!(out.starts_with(['2', '4']), "{address}: {out}");
    }
}
